"""Weighted averages of word vectors, as SIF and uSIF take them.

Legend: S = sentences, n = width of a word vector, W = words of the table, F = of the frequency
list, U = distinct words of a chunk of sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sentune.encoders.words import WordRows, WordTable
from sentune.errors import InvalidValue

Floats = NDArray[np.float64]
Variant = Literal["average", "sif", "usif"]

_CHUNK = 4096
"""Sentences averaged at once; with 10,000 different words of 300 numbers they take 24 MB."""


@dataclass(frozen=True, eq=False)
class Averages:
    """Sentences to averages of their known words' vectors.

    - ``average``: (1 / l) sum_i x_i over the l known words of the sentence.
    - ``sif``: (1 / l) sum_i a / (a + p_i) x_i (Arora et al. 2017, Algorithm 1; LAES Algorithm 1).
    - ``usif``: (1 / l) sum_i a / (a/2 + p_i) x_i / N, with N of each dimension the Euclidean norm
      of that dimension over the sentence's words. The weights and their ``a`` are those of
      Ethayarajh (2018); the division by N is in its published code (kawine/usif).

    A sentence without a known word is a zero vector (kawine/usif gives it the constant a).

    Attributes:
        a: of ``sif``.
        walk_length: n of ``usif``.
        max_length: known words of a sentence that are used; None: all.
    """

    words: WordTable
    variant: Variant
    a: float = 1e-3
    walk_length: int = 11
    max_length: int | None = None

    def __call__(self, sentences: Sequence[str]) -> Floats:
        """[S, n] averages."""
        width = self.words.vectors.shape[1]
        return np.concatenate([np.zeros((0, width)), *self.chunks(sentences)])

    def chunks(self, sentences: Sequence[str]) -> Iterator[Floats]:
        """The averages of at most 4096 sentences at a time."""
        for start in range(0, len(sentences), _CHUNK):
            yield self._averages(self.words.ids(sentences[start : start + _CHUNK], self.max_length))

    @cached_property
    def weights(self) -> Floats:
        """[W] weight of each word.

        Raises:
            InvalidValue: uSIF's ``a`` cannot be computed from the frequency list.
        """
        if self.variant == "average":
            return np.ones(len(self.words.words))
        if self.variant == "sif":
            return self.a / (self.a + self.words.probabilities)
        a = usif_a(self.words.listed, self.walk_length)
        # kawine/usif gives an unlisted word the list's smallest probability; 0 is as good, since
        # that is 5.7e-8 in the Wikipedia counts against a/2 = 6.0e-4
        return a / (a / 2 + self.words.probabilities)

    def _averages(self, rows: WordRows) -> Floats:
        used, place = np.unique(rows.ids, return_inverse=True)
        vectors = self.words.vectors[used].astype(np.float64)  # [U, n]; the map is read here

        def summed(weights: Floats, values: Floats) -> Floats:
            shape = (len(rows), len(used))
            sums: Floats = csr_array((weights, place, rows.offsets), shape=shape) @ values
            return sums

        total = summed(self.weights[rows.ids], vectors)
        if self.variant == "usif":
            norms = np.sqrt(summed(np.ones(len(place)), vectors**2))
            total = np.divide(total, norms, out=np.zeros_like(total), where=norms > 0)
        return total / np.maximum(rows.lengths, 1)[:, None]

    def __reduce__(self) -> tuple[type[Averages], tuple[object, ...]]:
        fields = (self.words, self.variant, self.a, self.walk_length, self.max_length)
        return Averages, fields  # without the weights, which are as long as the table


def usif_a(listed: Floats, walk_length: int) -> float:
    """uSIF's a = (1 - alpha) / (alpha Z) with Z = F / 2.

    alpha is the share of the F words that are more frequent than the threshold
    1 - (1 - 1/F)^n, the probability that a random walk of n words comes by a given word
    (Ethayarajh 2018; kawine/usif takes the frequency list as the vocabulary, and n = 11).

    Raises:
        InvalidValue: no list, or one in which no word (or every word) is above the threshold.
    """
    if not len(listed):
        raise InvalidValue("--frequencies", None, "uSIF computes its weights from a list; name one")
    threshold = 1 - (1 - 1 / len(listed)) ** walk_length
    alpha = float((listed > threshold).mean())
    if not 0 < alpha < 1:
        found = f"{len(listed)} words of which {alpha:.0%} are above {threshold:.3g}"
        fix = "uSIF needs some words above its threshold and some below; use a longer list"
        raise InvalidValue("--frequencies", found, fix)
    return (1 - alpha) / (alpha * len(listed) / 2)
