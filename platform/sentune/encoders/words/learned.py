"""``builtin:ppmi``: word vectors that are learned from the training corpus.

Legend: W = words, n = width of a vector, T = tokens of the corpus.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field

from sentune.encoders.builtin import BuiltinOptions
from sentune.encoders.words.table import WordTable, tokenise
from sentune.encoders.words.whole import save_whole
from sentune.errors import InvalidValue
from sentune.io.folders import cached_folder

_VERSION = 1


class PpmiSpec(BuiltinOptions):
    """Options of ``builtin:ppmi``."""

    part: ClassVar[str] = "vectors"
    builtin: ClassVar[str] = "ppmi"

    width: int = Field(64, ge=1, le=1024)
    """Dimensions of a vector."""
    window: int = Field(5, ge=1, le=100)
    """Number of words on either side, within the sentence, that count as context."""
    min_count: int = Field(2, ge=1)
    """Minimum occurrences of a word with a vector."""
    seed: int = Field(0, ge=0)
    """Seed of the starting vector of the decomposition."""


@dataclass(frozen=True)
class _Tokens:
    """The lower-cased tokens of a corpus: [T] word numbers in order of first appearance, lengths of
    sentences, the word of each number, and a hash of the sentences."""

    numbers: NDArray[np.int32]
    lengths: NDArray[np.int64]
    words: tuple[str, ...]
    content: str


def learn_words(texts: Iterable[str], spec: str, cache: Path) -> WordTable:
    """Learn word vectors by positive pointwise mutual information and a truncated SVD.

    With n_wc the number of times that c occurs within the window of w, the matrix M_wc = max(0,
    log(n_wc N / (n_w n_c))) is decomposed as U S V^T. The vectors are U S^0.5 (Levy, Goldberg and
    Dagan 2015, sections 2 and 3.3). Tokens are those of ``tokenise`` in lower case. Probabilities
    are relative frequencies among all tokens, including rare words.

    Memory holds T numbers, the pairs of one distance, and the sparse matrix. The same texts and
    options give the same folder of the cache.

    Args:
        texts: sentences, read once.
        spec: ``builtin:ppmi?width=64&window=5&min_count=2&seed=0``.

    Raises:
        InvalidValue: an option is invalid, or the corpus has too few words for the width.
    """
    options = PpmiSpec.parse(spec)
    tokens = _read(texts)
    key = sha256(f"{_VERSION} {options.model_dump_json()} {tokens.content}".encode()).hexdigest()
    folder = cache.expanduser().resolve() / "words" / f"ppmi-{key[:16]}"
    cached_folder(folder, partial(_write, tokens, options, spec, key[:32]))
    return WordTable.load(str(folder))


def _read(texts: Iterable[str]) -> _Tokens:
    places: dict[str, int] = {}
    numbers: list[NDArray[np.int32]] = []
    content = sha256()
    for text in texts:
        words = [word.lower() for word in tokenise(text)]
        content.update(f"{' '.join(words)}\n".encode())
        found = [places.setdefault(word, len(places)) for word in words]
        numbers.append(np.array(found, dtype=np.int32))
    if not places:
        raise InvalidValue("--vectors", "builtin:ppmi", "the corpus has no words to learn from")
    lengths = np.array([len(part) for part in numbers], dtype=np.int64)
    return _Tokens(np.concatenate(numbers), lengths, tuple(places), content.hexdigest())


def _write(tokens: _Tokens, options: PpmiSpec, spec: str, fingerprint: str, draft: Path) -> None:
    counts = np.bincount(tokens.numbers)
    order = np.lexsort((np.array(tokens.words, dtype=object), -counts)).tolist()
    kept = [number for number in order if counts[number] >= options.min_count]
    if len(kept) < 2:
        fix = f"{len(kept)} words of the corpus occur {options.min_count} times; it needs two"
        raise InvalidValue("--vectors", "builtin:ppmi", fix)
    if len(kept) <= options.width:
        fix = f"use a width below {len(kept)}, the number of words that occur min_count times"
        raise InvalidValue("--vectors option width", options.width, fix)
    rows = np.full(len(order), -1, dtype=np.int32)
    rows[kept] = np.arange(len(kept))
    shares = counts[order] / len(tokens.numbers)
    pairs = _pairs(rows[tokens.numbers], tokens, options, len(kept))
    if not (information := _ppmi(pairs)).nnz:
        fix = "no two words of the corpus occur together more often than by chance"
        raise InvalidValue("--vectors", "builtin:ppmi", fix)
    table = WordTable(
        words=tuple(tokens.words[number] for number in kept),
        vectors=_decompose(information, options),
        probabilities=shares[: len(kept)],
        spec=spec,
        fingerprint=fingerprint,
        listed=shares,
        counts={"read": len(tokens.lengths), "rare": len(order) - len(kept)},
    )
    save_whole(table, draft)


def _pairs(
    rows: NDArray[np.int32], tokens: _Tokens, options: PpmiSpec, size: int
) -> scipy.sparse.csr_matrix:
    """Count how often two words of a sentence are within the window of each other, [W, W].

    A rare word (-1) keeps its position, so that the words around it do not move closer.
    """
    sentences = np.repeat(np.arange(len(tokens.lengths)), tokens.lengths)
    total = scipy.sparse.csr_matrix((size, size))
    for distance in range(1, options.window + 1):
        left, right = rows[:-distance], rows[distance:]
        there = (sentences[:-distance] == sentences[distance:]) & (left >= 0) & (right >= 0)
        ones = np.ones(int(there.sum()))
        found = scipy.sparse.csr_matrix((ones, (left[there], right[there])), shape=(size, size))
        total = total + found + found.T
    return total


def _ppmi(pairs: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return the positive pointwise mutual information, [W, W], of symmetric pair counts."""
    sums = np.asarray(pairs.sum(axis=1)).ravel()
    matrix = pairs.tocoo()
    information = np.log(matrix.data * sums.sum() / (sums[matrix.row] * sums[matrix.col]))
    positive = information > 0
    places = (matrix.row[positive], matrix.col[positive])
    return scipy.sparse.csr_matrix((information[positive], places), shape=pairs.shape)


def _decompose(matrix: scipy.sparse.csr_matrix, options: PpmiSpec) -> NDArray[np.float32]:
    """Return U S^0.5, [W, n], sorted by singular value.

    The sign of each dimension is chosen so that its largest absolute entry is positive.
    """
    start = np.random.default_rng(options.seed).standard_normal(matrix.shape[0])
    left, strengths, _ = scipy.sparse.linalg.svds(matrix, k=options.width, v0=start)
    order = np.argsort(-strengths)
    left, strengths = left[:, order], strengths[order]
    largest = left[np.abs(left).argmax(axis=0), np.arange(options.width)]
    vectors: NDArray[np.float32] = (left * np.sign(largest) * np.sqrt(strengths)).astype(np.float32)
    return vectors
