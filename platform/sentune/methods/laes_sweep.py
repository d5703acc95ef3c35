"""Sentences through linear autoencoders of several sizes: what they share is computed once.

A model of p units is no prefix of a larger one's hidden state, so each p runs its own recurrence
(LAES Eq. 1). Shared are the word vectors, A x of the largest model (rows are units), and the order
of the sentences: with the longest first, those that still have a word t are a prefix, so that no
padding is multiplied.

Legend: S = sentences, T = words in all, W = distinct words, n = width of a word vector, l = words
of a sentence, p = units, P = units of the largest model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sentune.encoders.words import WordRows
from sentune.methods.closed_form import Floats
from sentune.methods.laes_fit import Units, word_by_word

Counts = NDArray[np.int64]

_BUDGET = 1 << 27
"""Bytes of the words' projections A x that are in memory at once."""


@dataclass(frozen=True)
class SentenceBatch:
    """S sentences, the longest first.

    Attributes:
        vectors: [W, n] weighted vectors of the words that occur.
        ids: [T] words of the sentences, as rows of ``vectors``.
        first: [S] where each sentence begins in ``ids``.
        lengths: [S] words, descending.
        order: [S] where each sentence came from.
        means: [S, n] mean vectors; zero for a sentence without words.
    """

    vectors: Floats
    ids: NDArray[np.int32]
    first: Counts
    lengths: Counts
    order: Counts
    means: Floats

    @classmethod
    def of(cls, vectors: Floats, rows: WordRows) -> SentenceBatch:
        """Sort sentences given as rows of ``vectors``."""
        order = np.argsort(-rows.lengths, kind="stable")
        shares = np.repeat(1 / np.maximum(rows.lengths, 1), rows.lengths)
        shape = (len(rows), len(vectors))
        means: Floats = csr_array((shares, rows.ids, rows.offsets), shape=shape) @ vectors
        first, lengths = rows.offsets[:-1][order], rows.lengths[order]
        return cls(vectors, rows.ids, first, lengths, order, means[order])

    def back(self, values: Floats) -> Floats:
        """Rows in the order that the sentences came in."""
        out = np.empty_like(values)
        out[self.order] = values
        return out


class LinearRecurrence:
    """One autoencoder and its smaller ones over a batch.

    Args:
        units: of the largest model that will be asked for.
        backward: sentences are read from their end.
    """

    def __init__(self, units: Units, batch: SentenceBatch, *, backward: bool = False) -> None:
        self._units, self._batch = units, batch
        projected = batch.vectors @ units.A.T
        steps = word_by_word(batch.ids, batch.first, batch.lengths, backward=backward)
        self._inputs = [projected[step] for step in steps]

    def states(self, p: int) -> Floats:
        """[S, p] h_l of each sentence (LAES Eq. 6); zero without words."""
        B = self._units.B[:p, :p]
        h = np.zeros((len(self._batch.lengths), p))
        for t, inputs in enumerate(self._inputs):
            active = h[: len(inputs)]
            active[:] = active @ B.T + inputs[:, :p] if t else inputs[:, :p]
        return h

    def reconstructed(self, p: int) -> Floats:
        """[S, n] means of the decoded words (LAES section V-B), zero without words.

        The words decoded from h are A^T h, A^T B^T h, A^T (B^T)^2 h, ..., so that their sum is
        A^T applied to sum_(i < l) (B^T)^i h.
        """
        summed = self._summed(self.states(p), p)
        summed /= np.maximum(self._batch.lengths, 1)[:, None]
        return summed @ self._units.A[:p]

    def _summed(self, h: Floats, p: int) -> Floats:
        """[S, p] sum_(i < l) (B^T)^i h, the cheaper way: p^2 a word, or p^3 a length."""
        B, lengths = self._units.B[:p, :p], self._batch.lengths
        longest = len(self._inputs)
        if p * longest + len(lengths) < lengths.sum():
            return _by_length(h, B, lengths)
        return _by_word(h, B, [len(inputs) for inputs in self._inputs])


def _by_length(h: Floats, B: Floats, lengths: Counts) -> Floats:
    """Sentences of l words are multiplied by I + B + ... + B^(l - 1) at once."""
    summed, powers = np.zeros_like(h), np.zeros_like(B)
    for length in range(1, int(lengths.max(initial=0)) + 1):
        powers = powers @ B
        powers.flat[:: len(B) + 1] += 1
        first, end = np.searchsorted(-lengths, (-length, -length + 1))
        if first < end:
            summed[first:end] = h[first:end] @ powers
    return summed


def _by_word(h: Floats, B: Floats, active: list[int]) -> Floats:
    """One product per word."""
    summed = np.zeros_like(h)
    for step, count in enumerate(active):
        h = h[:count] @ B if step else h[:count]
        summed[:count] += h
    return summed


def parts(words: Counts, numbers: int) -> Iterator[slice]:
    """Stretches of pairs or sentences whose words' projections fit into the budget.

    Args:
        words: of each pair or sentence.
        numbers: that a word's projections take.
    """
    most = max(1, _BUDGET // (8 * max(numbers, 1)))
    ends = np.cumsum(words)
    start = 0
    while start < len(words):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, min(stop, len(words)))
        start = stop


def chosen(rows: WordRows, which: Counts) -> WordRows:
    """Some of the sentences."""
    lengths = rows.lengths[which]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return WordRows(rows.ids[np.repeat(rows.offsets[which], lengths) + within], offsets)


def cosines(embedded: Floats, one: Counts, other: Counts) -> Floats:
    """[N] cosines of rows; 0 where one of them is zero."""
    norms = np.linalg.norm(embedded, axis=1)
    dots = np.einsum("nd,nd->n", embedded[one], embedded[other])
    scale = norms[one] * norms[other]
    found: Floats = np.divide(dots, scale, out=np.zeros_like(dots), where=scale > 0)
    return found
