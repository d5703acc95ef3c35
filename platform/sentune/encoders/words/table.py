"""The word table: words with their vectors and probabilities.

Legend: W = words, n = width of a vector, F = words of the frequency list, S = sentences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentune.errors import InvalidValue

_WORD = re.compile(r"[^\W_]+")
META = "table.json"
VERSION = 1
"""Version of the table's format; a change invalidates the cache."""


def tokenise(sentence: str) -> list[str]:
    """Split a sentence into runs of letters and digits: ``don't`` gives ``don`` and ``t``.

    The Wikipedia counts that SIF uses are of such runs (``s`` is their word 19, ``don`` their word
    240), so that every token has a count. Punctuation has none and would weigh as much as the
    rarest word. uSIF's code leaves it out as well.
    """
    # SIF on STS Benchmark dev with the 33,860 most frequent words of glove.840B: r 79.54. With
    # punctuation and words with 's 79.35, without punctuation 79.43; whole words (well-known) 79.51
    return _WORD.findall(sentence)


@dataclass(frozen=True)
class WordRows:
    """The known words of S sentences, concatenated, as rows of a word table.

    Sentence s is ``ids[offsets[s]:offsets[s + 1]]`` and may be empty.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of known words of each sentence, [S]."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class WordTable:
    """W words with vectors of n dimensions and their probabilities.

    Attributes:
        words: distinct words, in the order of the file.
        vectors: [W, n] float32; memory-mapped if it comes from the cache.
        probabilities: [W] float64, relative frequencies; 0 for a word that the frequency list
            lacks, which has the weight 1 in SIF.
        spec: ``glove:FILE`` as the user wrote it.
        fingerprint: hash of vectors and probabilities.
        folder: folder in the cache; if set, the table is pickled as this path.
        listed: [F] float64, relative frequencies of all words of the frequency list, with or
            without a vector; empty if there is no list.
        counts: ``read``, ``bad`` and ``duplicates`` (lines of the vectors), ``listed_bad`` (lines
            of the list), ``without_count`` (words that the list lacks).
    """

    words: tuple[str, ...]
    vectors: NDArray[np.float32]
    probabilities: NDArray[np.float64]
    spec: str = ""
    fingerprint: str = ""
    folder: str = ""
    listed: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str) -> WordTable:
        """Load the table of a folder of the cache, with memory-mapped vectors.

        Raises:
            InvalidValue: the folder does not exist, or has another version.
        """
        path = Path(folder)
        if not (path / META).is_file():
            fix = "it does not exist on this machine; use a cache that all machines share"
            raise InvalidValue("word vectors", folder, fix)
        return _opened(folder, (path / META).stat().st_mtime_ns)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.folder:
            return WordTable.load, (self.folder,)
        return WordTable, tuple(getattr(self, part.name) for part in fields(self))

    def without_vectors(self) -> WordTable:
        """Return a table that can only look up rows and is pickled with its words."""
        return replace(self, vectors=self.vectors[:, :0], folder="")

    @cached_property
    def row(self) -> dict[str, int]:
        """Word -> row."""
        return {word: row for row, word in enumerate(self.words)}

    def ids(self, sentences: Sequence[str], max_length: int | None = None) -> WordRows:
        """Return the rows of the first ``max_length`` known words of each sentence."""
        found: list[int] = []
        offsets = [0]
        for sentence in sentences:
            found.extend(self._rows(tokenise(sentence))[:max_length])
            offsets.append(len(found))
        return WordRows(np.array(found, dtype=np.int32), np.array(offsets, dtype=np.int64))

    def known_share(self, sentences: Sequence[str]) -> float:
        """Return the share of the sentences' words that have a vector, or 1 without any words."""
        tokens = [tokenise(sentence) for sentence in sentences]
        every = sum(map(len, tokens))
        return sum(len(self._rows(words)) for words in tokens) / every if every else 1.0

    def _rows(self, tokens: Sequence[str]) -> list[int]:
        """Return the rows of the known words, lower-cased as in SIF's and uSIF's code.

        If the lower-case form has no vector, the word is looked up as written (``NASDAQ``).
        """
        row = self.row
        rows = (row.get(token.lower(), row.get(token)) for token in tokens)
        return [found for found in rows if found is not None]


@lru_cache(maxsize=2)
def _opened(folder: str, written: int) -> WordTable:
    """Load a table, cached in the process by folder and time, because many pickles may name it."""
    del written  # part of the cache's key
    path = Path(folder)
    meta = json.loads((path / META).read_text())
    if meta["version"] != VERSION:
        raise InvalidValue("word vectors", folder, f"delete it, version {VERSION} is needed")
    source = path / meta["vectors"]
    return WordTable(
        words=tuple((source / "words.txt").read_bytes().decode().split("\n")),
        vectors=np.load(source / "vectors.npy", mmap_mode="r"),
        probabilities=np.load(path / "probabilities.npy"),
        spec=meta["spec"],
        fingerprint=meta["fingerprint"],
        folder=folder,
        listed=np.load(path / "listed.npy"),
        counts=meta["counts"],
    )
