"""What tells the direction of entailment without any embedding: lengths, and words alone.

LENGTH says that the longer sentence entails the shorter one (GumbelCSE section 4.3).
The papers do not say how they count. Counted in characters, the share of strictly longer premises
is 92.3 % on SNLI dev and 68.8 % on SICK's train and trial pairs, next to the papers' 92.6 % and
69.1 % on the test sets; in words it is 89.9 % and 61.6 %. So a length is a number of characters.
Ties count half here; on SNLI dev they are 1.0 % of the pairs: 92.3 % if they count as wrong,
92.8 % half, 93.3 % as right. Words are counted beside (SNLI dev, half: 92.2 %).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from sentune.errors import InvalidValue
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


def bag_of_words_direction(
    train_pairs: Sequence[tuple[str, str]],
    test_pairs: Sequence[tuple[str, str]],
    *,
    seed: int = 0,
) -> float:
    """Accuracy of a logistic regression on the difference of two sentences' word counts.

    Half of the training pairs are turned round at random, so that both classes occur; without an
    intercept the decision changes sign with the pair's order. A test pair none of whose differing
    words was seen in training is a tie and counts half.

    Args:
        train_pairs, test_pairs: (entailing, entailed) sentences.
        seed: of the turning.

    Raises:
        InvalidValue: fewer than two training pairs, or no test pair.
    """
    if len(train_pairs) < 2 or not test_pairs:
        sizes = f"{len(train_pairs)} for training, {len(test_pairs)} for testing"
        raise InvalidValue("pairs", sizes, "give at least two to train on and one to test on")
    counter = CountVectorizer(token_pattern=r"(?u)\b\w+\b")  # the default drops "a" and "I"
    counter.fit(sentence for pair in train_pairs for sentence in pair)
    first, second = (counter.transform(side) for side in zip(*train_pairs, strict=True))
    turned = np.random.default_rng(seed).permutation(len(train_pairs)) % 2 == 0
    signs = np.where(turned, -1, 1)
    model = LogisticRegression(fit_intercept=False, max_iter=1000)
    model.fit((first - second).multiply(signs[:, None]).tocsr(), signs)
    first, second = (counter.transform(side) for side in zip(*test_pairs, strict=True))
    return float(half_ties(model.decision_function(first - second)).mean())
