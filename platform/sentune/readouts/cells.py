"""Cells of coverage at and between the alphas, so that one pass serves every pair of alphas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sentune.errors import InvalidValue


class Cells:
    """2E + 1 cells of coverage: the E edges and the open intervals around them.

    Both inequalities of GumbelCSE Eq. 13 are strict, so ``alpha_1 < coverage < alpha_2`` is a range
    of whole cells. With half-open intervals, a coverage equal to an alpha would count on one side.

    Cell 0 lies below ``edges[0]``, cell 2i + 1 is exactly ``edges[i]``, cell 2i + 2 lies between
    ``edges[i]`` and ``edges[i + 1]``, and cell 2E lies above the last edge.

    Attributes:
        edges: [E] float64, increasing.

    Args:
        edges: the alphas of both grids, in any order; duplicates are dropped.

    Raises:
        InvalidValue: there is no edge, or an edge is not finite.
    """

    def __init__(self, edges: Sequence[float]) -> None:
        if not len(edges) or not all(math.isfinite(edge) for edge in edges):
            fix = "give at least one finite number, and no other"
            raise InvalidValue("alphas", list(edges), fix)
        self.edges: NDArray[np.float64] = np.unique(np.asarray(edges, dtype=np.float64))

    @property
    def count(self) -> int:
        """The number of cells, 2E + 1."""
        return 2 * len(self.edges) + 1

    def of(self, coverage: NDArray[np.floating]) -> NDArray[np.int16]:
        """Return the cell of each coverage.

        The edges are rounded to the dtype of the coverages, so that a float32 coverage of 0.1 lies
        at the edge 0.1 and not above it.
        """
        edges = self.edges.astype(coverage.dtype)
        below = np.searchsorted(edges, coverage, side="left")
        return (below + np.searchsorted(edges, coverage, side="right")).astype(np.int16)

    def between(self, alpha_1: float, alpha_2: float) -> slice:
        """Return the cells with alpha_1 < coverage < alpha_2.

        Raises:
            InvalidValue: an alpha is not an edge, or alpha_1 is not below alpha_2.
        """
        first, second = self._place("alpha_1", alpha_1), self._place("alpha_2", alpha_2)
        if first >= second:
            raise InvalidValue("alpha_1", alpha_1, f"it must be below alpha_2, which is {alpha_2}")
        return slice(2 * first + 2, 2 * second + 1)

    def _place(self, name: str, alpha: float) -> int:
        place = int(np.searchsorted(self.edges, alpha))
        if place == len(self.edges) or self.edges[place] != alpha:
            raise InvalidValue(name, alpha, f"choose one of {self.edges.tolist()}")
        return place
