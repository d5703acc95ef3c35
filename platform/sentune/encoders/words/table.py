"""The words that a method knows: their vectors and their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sentune.encoders.words.tokenizing import tokenise


@dataclass(frozen=True)
class WordRows:
    """The known words of S sentences, one sentence after the other.

    Attributes:
        ids: rows of the word table, int32.
        offsets: [S + 1] int64; sentence s is ``ids[offsets[s]:offsets[s + 1]]``, maybe empty.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[S] known words of each sentence."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class WordTable:
    """W words with vectors of n dimensions and their probabilities.

    Attributes:
        words: distinct, in the order of the file.
        vectors: [W, n] float32; memory-mapped where it comes from the cache.
        probabilities: [W] float64, relative frequency; 0 for a word that the list does not have,
            which gives it the weight 1 in SIF.
        spec: ``glove:FILE`` as the user wrote it.
        fingerprint: of vectors and probabilities.
        folder: of the cache; pickling the table sends this path, not the vectors.
    """

    words: tuple[str, ...]
    vectors: NDArray[np.float32]
    probabilities: NDArray[np.float64]
    spec: str = ""
    fingerprint: str = ""
    folder: str = ""

    @cached_property
    def row(self) -> dict[str, int]:
        """Word -> row."""
        return {word: row for row, word in enumerate(self.words)}

    def ids(self, sentences: Sequence[str], max_length: int | None = None) -> WordRows:
        """Rows of the words of each sentence; unknown words are left out.

        Args:
            max_length: known words of a sentence that are kept, from its beginning.
        """
        found: list[int] = []
        offsets = [0]
        for sentence in sentences:
            rows = [self.row[word] for word in tokenise(sentence) if word in self.row]
            found.extend(rows[:max_length])
            offsets.append(len(found))
        return WordRows(np.array(found, dtype=np.int32), np.array(offsets, dtype=np.int64))
