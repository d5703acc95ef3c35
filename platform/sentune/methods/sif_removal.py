"""Removing common components, for every number of them at once.

With x_i, y_i the projections of two vectors on component i, the inner product of what is left of
them is the whole one less a cumulative sum over i. Everything is float64: float32 errs by up to
0.14 in a cosine where nearly all is removed.

Legend: S = vectors, N = pairs, K = components, V = numbers of removed components, n = width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sentune.errors import TrialFailed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Way = Literal["whole", "piecewise"]

_PAIRS = 2048
"""Pairs at once: with 150 components a table of 2.5 MB."""


@dataclass(frozen=True, eq=False)
class Components:
    """The first K right singular vectors of a matrix of averages (not centred).

    Attributes:
        vectors: [K, n], orthonormal rows; signs are such that the largest entry is positive.
        squares: [K] squared singular values, falling.
        way: what removing m components means. ``whole``: e - sum_{i<=m} x_i c_i (SIF).
            ``piecewise``: e - sum_{i<=m} lambda_i x_i c_i with lambda_i = sigma_i^2 / S_m and
            S_m = sum_{j<=m} sigma_j^2 (Ethayarajh 2018, piecewise common component removal).
    """

    vectors: Floats
    squares: Floats
    way: Way

    @classmethod
    def solve(cls, moments: Floats, largest: int, way: Way) -> Components:
        """From the [n, n] sum of e e^T over the sentences.

        Raises:
            TrialFailed: it has not as many directions as components are asked for.
        """
        squares, vectors = np.linalg.eigh(moments)
        squares, vectors = squares[::-1], vectors[:, ::-1].T
        # a direction that no sentence has gets an eigenvalue of rounding size, not 0
        rank = int((squares > len(moments) * np.finfo(float).eps * max(squares[0], 0)).sum())
        if largest > rank or not rank:
            raise TrialFailed(
                f"the fitted sentences span {rank} directions, {largest} components were asked "
                f"for; fit on more sentences, or let the readout components end at {rank}"
            )
        vectors = vectors[:largest]
        peaks = vectors[np.arange(largest), np.abs(vectors).argmax(axis=1)]
        return cls(vectors * np.sign(peaks)[:, None], squares[:largest].copy(), way)

    def removed(self, embeddings: Floats, value: int) -> Floats:
        """[S, n] what is left without ``value`` components; zero where only rounding is left."""
        vectors, squares = self.vectors[:value], self.squares[:value]
        projections = embeddings @ vectors.T
        if self.way == "piecewise" and value:
            projections = projections * (squares / squares.sum())
        left = embeddings - projections @ vectors
        gone = _gone((left**2).sum(axis=1), (embeddings**2).sum(axis=1))
        return np.where(gone[:, None], 0.0, left)

    def cosines(
        self, embeddings: Floats, first: Ints, second: Ints, values: Sequence[int]
    ) -> Floats:
        """[V, N] cosines of pairs of rows without ``values[v]`` components.

        0 where nothing but rounding is left of one of them.
        """
        largest = max(values, default=0)
        projections = embeddings @ self.vectors[:largest].T
        out = np.empty((len(values), len(first)))
        for start in range(0, len(first), _PAIRS):
            chosen = slice(start, start + _PAIRS)
            one, other = first[chosen], second[chosen]

            def left(a: Ints, b: Ints) -> tuple[Floats, Floats]:
                whole = np.einsum("ij,ij->i", embeddings[a], embeddings[b])
                return whole, whole - self._taken(projections[a] * projections[b], values)

            norms = [left(side, side) for side in (one, other)]
            gone = _gone(norms[0][1], norms[0][0]) | _gone(norms[1][1], norms[1][0])
            length = np.sqrt(np.where(gone, 1.0, norms[0][1] * norms[1][1]))
            out[:, chosen] = np.where(gone, 0.0, left(one, other)[1] / length)
        return np.clip(out, -1.0, 1.0, out=out)

    def _taken(self, products: Floats, values: Sequence[int]) -> Floats:
        """[V, N] what removal takes from inner products, from the [N, K] products x_i y_i.

        Piecewise: (2 / S_m) sum sigma_i^2 x_i y_i - (1 / S_m^2) sum sigma_i^4 x_i y_i.
        """
        chosen = list(values)
        if self.way == "whole":
            return _sums(products)[chosen]
        squares = self.squares[: products.shape[1]]
        total = _sums(squares[None])[chosen]
        total[total == 0] = 1.0  # m = 0: both sums are empty
        once = _sums(products * squares)[chosen] / total
        twice = _sums(products * squares**2)[chosen] / total**2
        return 2 * once - twice


def _sums(terms: Floats) -> Floats:
    """[K + 1, N] sums of the first 0, 1, ..., K of [N, K] terms."""
    sums = np.zeros((terms.shape[1] + 1, len(terms)))
    np.cumsum(terms.T, axis=0, out=sums[1:])
    return sums


def _gone(left: Floats, whole: Floats) -> NDArray[np.bool_]:
    """Return whether a squared norm is rounding: n eps of the whole one at n = 450."""
    return left <= 1e-13 * whole
