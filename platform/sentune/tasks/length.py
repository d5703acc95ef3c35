"""LENGTH: the longer sentence is said to entail the shorter one (GumbelCSE section 4.3).

The papers do not say how they count. Counted in characters, the share of strictly longer premises
is 92.3 % on SNLI dev and 68.8 % on SICK's train and trial pairs, next to the papers' 92.6 % and
69.1 % on the test sets; in words it is 89.9 % and 61.6 %. So a length is a number of characters.
Ties count half here; on SNLI dev they are 1.0 % of the pairs: 92.3 % if they count as wrong,
92.8 % half, 93.3 % as right. Words are counted beside (SNLI dev, half: 92.2 %).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sentune.tasks.pairs import Pairs, half_ties


def characters(sentence: str) -> int:
    """Number of characters, without white space at the ends."""
    return len(sentence.strip())


def words(sentence: str) -> int:
    """Number of words: what white space separates."""
    return len(sentence.split())


def surplus(pairs: Pairs, length: Callable[[str], int] = characters) -> NDArray[np.float64]:
    """[N]: by how much the first sentence of each pair is longer than the second."""
    sides = zip(pairs.first, pairs.second, strict=True)
    return np.array([length(a) - length(b) for a, b in sides], dtype=np.float64)


def length_baseline(pairs: Pairs, length: Callable[[str], int] = characters) -> float:
    """Accuracy of LENGTH on pairs whose first sentence entails the second; ties count half."""
    return float(half_ties(surplus(pairs, length)).mean())
