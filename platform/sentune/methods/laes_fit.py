"""Fit LAES by the Gram matrix of the data matrix and one decomposition for all numbers of units.

Row t of the data matrix Xi of a sentence (LAES section IV) is its reversed beginning x_t, ..., x_1.
The Gram matrix of all rows therefore has blocks G_ij = sum_k M_{i+k,j+k}, where M = Z^T Z and row s
of Z is the whole reversed sentence s. M is accumulated over the sentences and converted to G once,
at the end.

By LAES section IV-A, with Xi = V Sigma U^T, the encoder is A = U_1^T and B = Q^T, where
Q = Sigma V^T R^T V Sigma^-1. Since G = Xi^T Xi and G U = U Lambda, this is
Q = U^T S U Lambda^-1, where S is G shifted up by one block row, so that S U = (G U shifted up) =
(U shifted up) Lambda. Lambda cancels, and Q = U_1^T U_2 + ... + U_(l-1)^T U_l. There is no division
by small eigenvalues, and G is not needed again. The leading blocks of A and B are exactly the model
of fewer units.

Legend: n = width of a word vector, l = words of the longest sentence, D = l n, T = words in all,
S = sentences, k = vectors multiplied at once, P = units of the largest model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from sentune.corpora.schema import Reducer
from sentune.encoders.words import WordRows, WordTable
from sentune.errors import InvalidValue, TrialFailed
from sentune.methods.closed_form import Floats, eigenvectors

_CHUNK = 1024
"""Sentences whose vectors are in memory at once: 61 MB for 25 words of 300 dimensions."""

_WIDEST = 1 << 30
"""Maximum bytes of the data matrix for the direct SVD."""

_LARGEST = 1 << 33
"""Maximum bytes of the Gram matrix, enough for 154 words of 300 dimensions."""


class Gram:
    """The Gram matrix G of the data matrix, stored as block rows of its lower triangle.

    Block row j is [n, (j + 1) n], and there is one for each word of the longest sentence so far.
    The memory, half of D x D, does not depend on the number of sentences.

    Args:
        width: n.
        backward: whether sentences are not reversed, for the backward model of LAES-BRES
            (section V-D).
    """

    def __init__(self, width: int, *, backward: bool = False) -> None:
        self.width = width
        self.backward = backward
        self.panels: list[Floats] = []
        self._summed = False

    @property
    def size(self) -> int:
        """D, the number of rows of the matrix."""
        return self.width * len(self.panels)

    def add(self, vectors: Floats, rows: WordRows) -> None:
        """Add sentences, given as rows of the weighted ``vectors`` [W, n].

        Block (i, j) uses only sentences with more than max(i, j) words, so no padding is
        multiplied.
        """
        self._open()
        order = np.argsort(-rows.lengths, kind="stable")
        for start in range(0, len(order), _CHUNK):
            chosen = order[start : start + _CHUNK]
            first, lengths = rows.offsets[:-1][chosen], rows.lengths[chosen]
            n, longest = self.width, int(lengths[0])
            z = np.zeros((len(chosen), longest * n))  # [S, D], padded with zeros
            words = word_by_word(rows.ids, first, lengths, backward=not self.backward)
            for i, ids in enumerate(words):
                z[: len(ids), i * n : (i + 1) * n] = vectors[ids]
            self._grow(longest)
            for j in range(longest):
                longer = z[: np.count_nonzero(lengths > j), : (j + 1) * n]
                self.panels[j] += longer[:, j * n :].T @ longer

    def _grow(self, blocks: int) -> None:
        n = self.width
        nbytes = 4 * n * n * blocks * (blocks + 1)
        if nbytes > _LARGEST:
            fix = f"LAES's Gram matrix would take {nbytes / 2**30:.0f} GiB; set max_length, such as"
            raise InvalidValue("words of a sentence", blocks, f"{fix} max_length=25")
        self.panels += [np.zeros((n, (j + 1) * n)) for j in range(len(self.panels), blocks)]

    def all_reduce(self, workers: Reducer) -> None:
        """Add the statistics of the other workers."""
        self._open()
        self._grow(max(workers.collect(len(self.panels))))
        for panel in self.panels:
            workers.add_up(panel)

    def _open(self) -> None:
        if self._summed:
            raise InvalidValue("statistics", "solved", "add all sentences before the fit")

    def sum_diagonals(self) -> None:
        """Convert M to G in place by adding to each block row the next one, shifted by a block.

        No sentences can be added afterwards.
        """
        if not self._summed:
            for j in range(len(self.panels) - 2, -1, -1):
                self.panels[j] += self.panels[j + 1][:, self.width :]
        self._summed = True

    def __matmul__(self, x: Floats) -> Floats:
        """Return G x, [D] or [D, k]."""
        n, product = self.width, np.zeros_like(x)
        for j, panel in enumerate(self.panels):
            rows = slice(j * n, (j + 1) * n)
            product[rows] += panel @ x[: (j + 1) * n]
            product[: j * n] += panel[:, : j * n].T @ x[rows]
        return product

    def lower(self) -> Floats:
        """Return the lower triangle, [D, D], in Fortran order so that LAPACK can overwrite it."""
        full = np.zeros((self.size, self.size), order="F")
        for j, panel in enumerate(self.panels):
            full[j * self.width : (j + 1) * self.width, : panel.shape[1]] = panel
        return full


class GramStatistics:
    """Statistics of LAES: a Gram matrix, and with ``both`` a second one for a backward model."""

    def __init__(self, words: WordTable, a: float, max_length: int | None, *, both: bool) -> None:
        self.words, self.a, self.max_length = words, a, max_length
        directions = (False, True) if both else (False,)
        self.grams = [Gram(words.vectors.shape[1], backward=way) for way in directions]

    def add(self, texts: Sequence[str]) -> None:
        """Add sentences; only the words that occur are weighted, not the whole table."""
        vectors, rows = occurring(self.words, self.a, self.words.ids(texts, self.max_length))
        for gram in self.grams:
            gram.add(vectors, rows)

    def all_reduce(self, workers: Reducer) -> None:
        """Add the statistics of the other workers."""
        for gram in self.grams:
            gram.all_reduce(workers)


class KeptSentences:
    """Statistics for the direct SVD of small data: the sentences themselves."""

    def __init__(self, words: WordTable, a: float, max_length: int | None) -> None:
        self.words, self.a, self.max_length = words, a, max_length
        self.rows = WordRows(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64))

    def add(self, texts: Sequence[str]) -> None:
        """Add sentences."""
        self.rows = _joined(self.rows, self.words.ids(texts, self.max_length))

    def all_reduce(self, workers: Reducer) -> None:
        """Add the sentences of the other workers, in the order of ranks."""
        self.rows = reduce(_joined, workers.collect(self.rows))

    def data_matrix(self, *, backward: bool = False) -> Floats:
        """Return the matrix Xi (LAES section IV-A), [T, D].

        Raises:
            InvalidValue: the matrix is larger than 1 GiB.
        """
        rows, width = self.rows, self.words.vectors.shape[1]
        longest = int(rows.lengths.max(initial=0))
        nbytes = len(rows.ids) * longest * width * 8
        if nbytes > _WIDEST:
            fix = f"the data matrix would take {nbytes / 2**30:.1f} GiB; use auto"
            raise InvalidValue("solver", "svd", fix)
        vectors, rows = occurring(self.words, self.a, rows)
        xi, at = np.zeros((len(rows.ids), longest * width)), 0
        for start, end in pairwise(rows.offsets):
            ids = rows.ids[start:end][:: -1 if backward else 1]
            for t in range(1, len(ids) + 1):
                xi[at, : t * width] = vectors[ids[:t][::-1]].ravel()
                at += 1
        return xi


def occurring(words: WordTable, a: float, rows: WordRows) -> tuple[Floats, WordRows]:
    """Return weighted vectors of the words that occur, and the sentences as rows of these."""
    known, ids = np.unique(rows.ids, return_inverse=True)
    weights = a / (a + words.probabilities[known])
    vectors = weights[:, None] * np.asarray(words.vectors[known])
    return vectors, WordRows(ids.astype(np.int32), rows.offsets)


def word_by_word(
    ids: NDArray[np.int32],
    first: NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    backward: bool = False,
) -> Iterator[NDArray[np.int32]]:
    """Yield for t = 0, 1, ... the t-th word of each sentence that has one.

    Args:
        ids: [T] words of all sentences.
        first: [S] start of each sentence in ``ids``.
        lengths: [S] number of words, decreasing.
        backward: whether to count from the last word.
    """
    for t in range(int(lengths.max(initial=0))):
        count = np.count_nonzero(lengths > t)
        yield ids[first[:count] + (lengths[:count] - 1 - t if backward else t)]


def _joined(first: WordRows, second: WordRows) -> WordRows:
    offsets = np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]])
    return WordRows(np.concatenate([first.ids, second.ids]), offsets)


_LOGGER = logging.getLogger(__name__)

Solver = Literal["auto", "exact", "lanczos", "svd"]

_SMALL = 2_000
"""Largest D for which the exact solver takes at most a few seconds."""

_SHARE = 10
"""Above D / 10 eigenvectors the exact solver is faster. For D = 7,500 Lanczos took 450 products of
48 ms for 150 eigenvectors, and the number of products grows with that of the eigenvectors."""

_ON_GPU = 20_000
"""Largest D for which a GPU decomposes the whole matrix, which takes three times 3.2 GB."""

_RESIDUAL = 1e-8
"""Residual above which a warning is logged; a converged solver stays near 1e-14."""


class Spectrum:
    """The leading eigenvectors of G = Xi^T Xi, given in any order and with any signs.

    ``multiply`` is the product with G. A warning is logged if the eigenvectors are inaccurate.

    Attributes:
        U: [D, P] eigenvectors; the entry of each with the largest magnitude is positive.
        eigenvalues: [P], decreasing.
        residual: max over the eigenvectors of |G u - lambda u| / lambda_1.
    """

    def __init__(self, values: Floats, U: Floats, multiply: Callable[[Floats], Floats]) -> None:
        order = np.argsort(-values, kind="stable")
        values, U = values[order], U[:, order]
        signs = np.sign(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])])
        off = np.linalg.norm(multiply(U) - U * values, axis=0).max() / values[0]
        if off > _RESIDUAL:
            _LOGGER.warning(
                "LAES: eigenvectors are accurate only to %.1e; set solver to exact", off
            )
        self.U, self.eigenvalues, self.residual = U * signs, values, float(off)


@dataclass(frozen=True, kw_only=True)
class Units:
    """A linear autoencoder for sequences, A [P, n] and B [P, P].

    Its leading blocks are the autoencoders of fewer units.
    """

    A: Floats
    B: Floats

    def __len__(self) -> int:
        return len(self.A)

    @classmethod
    def of(cls, spectrum: Spectrum, width: int) -> Units:
        """Return A and B from the eigenvectors (LAES Eq. 3 to 5); ``width`` is n."""
        U = spectrum.U
        return cls(A=U[:width].T.copy(), B=U[width:].T @ U[:-width])


def of_gram(gram: Gram, largest: int, solver: Solver = "auto", device: str = "cpu") -> Spectrum:
    """Return the ``largest`` leading eigenvectors of a Gram matrix.

    Args:
        solver: ``exact`` builds G as a D x D matrix and calls LAPACK; ``lanczos`` (ARPACK)
            multiplies by G about three times per eigenvector; ``auto`` chooses the faster one.
        device: device of the ``exact`` decomposition; ``lanczos`` runs on the CPU.

    Raises:
        TrialFailed: the sentences span fewer units, or Lanczos does not converge.
    """
    _enough(largest, gram.size)
    gram.sum_diagonals()
    faster = _lanczos_is_faster(gram.size, largest, device)
    lanczos = solver == "lanczos" or (solver == "auto" and faster)
    if lanczos and largest < gram.size:
        values, U = _lanczos(gram, largest)
    elif device != "cpu":
        values, U = eigenvectors(gram.lower(), device)
        values, U = values[-largest:], U[:, -largest:]
    else:
        span = (gram.size - largest, gram.size - 1)
        values, U = scipy.linalg.eigh(
            gram.lower(), overwrite_a=True, check_finite=False, subset_by_index=span
        )
    # eigenvalues below this bound are rounding errors
    _enough(largest, int(np.sum(values > values.max() * gram.size * np.finfo(float).eps)))
    return Spectrum(values, U, lambda x: gram @ x)


def of_data(xi: Floats, largest: int) -> Spectrum:
    """Return the leading eigenvectors by the SVD of the data matrix [T, D], in O(T D^2) time.

    Unlike with ``of_gram``, the error does not grow with the square of the condition number.

    Raises:
        TrialFailed: the sentences span fewer units.
    """
    _enough(largest, min(xi.shape))
    _, sigma, Ut = scipy.linalg.svd(xi, full_matrices=False)
    _enough(largest, int(np.sum(sigma > sigma[0] * max(xi.shape) * np.finfo(float).eps)))
    return Spectrum(sigma[:largest] ** 2, Ut[:largest].T, lambda x: xi.T @ (xi @ x))


def _lanczos_is_faster(size: int, largest: int, device: str = "cpu") -> bool:
    if device != "cpu":
        return size > _ON_GPU
    return size > _SMALL and largest <= size // _SHARE


def _lanczos(gram: Gram, largest: int) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors by ARPACK, reproducibly from a fixed start."""
    linalg = scipy.sparse.linalg
    matrix = linalg.LinearOperator((gram.size, gram.size), matvec=gram.__matmul__, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(gram.size)
    try:
        values, U = linalg.eigsh(matrix, k=largest, v0=start)
    except linalg.ArpackNoConvergence as error:
        found = len(error.eigenvalues)
        reason = f"Lanczos converged for {found} of {largest} units; set solver to exact"
        raise TrialFailed(reason) from error
    return values, U


def _enough(asked: int, rank: int) -> None:
    if rank < asked:
        reason = f"n_h: {asked} units were requested, but the sentences span only {rank}"
        raise TrialFailed(f"{reason}; request at most {rank}, or fit on more sentences")
