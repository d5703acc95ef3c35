"""The representations of sentences that an invertible model offers, from text.

Legend: S = sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from torch import Tensor

from sentune.methods.invertible import Ids, Invertible
from sentune.methods.invertible_components import ComponentFrom
from sentune.methods.invertible_pooling import mean_parts, three_pools


class Representations:
    """Text to representations, with the method as it stands.

    Args:
        max_length: known words of a sentence that are used, from its beginning.
        size: sentences that go through the model together.
    """

    def __init__(self, method: Invertible, *, max_length: int, size: int) -> None:
        self.method, self._max_length, self._size = method, max_length, size

    def __call__(
        self, sentences: Sequence[str], component_from: ComponentFrom = "corpus"
    ) -> dict[str, Tensor]:
        """Every representation by its name, [S, d_z] or [S, n]; see ``Postprocessing.forward``.

        A sentence without a known word is zero in each.

        Args:
            component_from: ``task`` fits the removed components on these sentences.
        """
        parts = mean_parts(self.method, self._rows(sentences), self._size)
        stored = self.method.postprocessing
        removal = stored if component_from == "corpus" else stored.fitted(parts)
        return removal(parts)

    def features(self, sentences: Sequence[str]) -> Tensor:
        """[S, 6 d_z] for a linear classifier on top; see ``three_pools``."""
        return three_pools(self.method, self._rows(sentences), self._size)

    def fit(self, rows: Ids) -> None:
        """Fit the stored components on sentences, as rows of the word table."""
        self.method.postprocessing.fit(mean_parts(self.method, rows, self._size))

    def _rows(self, sentences: Sequence[str]) -> list[np.ndarray]:
        found = self.method.vectors.table.ids(sentences, self._max_length)
        return [found.ids[start:end] for start, end in pairwise(found.offsets)]
