"""Exact nearest-passage search, in memory that does not grow with the number of passages.

Legend: Q = queries, P = passages of a tile, K = passages kept for a query, D = packed width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from sentune.errors import InvalidValue, TrialFailed
from sentune.geometry.base import Geometry, full_precision, widen
from sentune.geometry.points import Points

TILE = 2048
"""Passages scored at once. Tiles begin at fixed places of the corpus, however the passages are
added, because the rounding of a matrix product depends on its shape and on the position."""

ROWS = 512
"""Queries scored at once: 2^20 similarities with a tile, 4 MiB."""

NOTHING = -1


@dataclass(frozen=True)
class Hits:
    """The nearest passages of Q queries, the nearest first.

    Attributes:
        scores: similarities, [Q, K]; -inf if there are fewer than K passages.
        places: indices of the passages in the corpus, from 0, [Q, K]; ``NOTHING`` if there are
            fewer than K passages.
    """

    scores: Tensor
    places: Tensor


class NearestPassages:
    """Search that takes passages in blocks, in order, and keeps the K nearest of each query.

    The similarity is the geometry's: cosine for points, else the mean entailment of both
    directions. Of equally similar passages the first ones are kept and rank first, independently of
    the blocks (``torch.topk`` has no defined order of ties). Memory holds Q x K hits, a tile and a
    block.

    Args:
        queries: packed embeddings, [Q, D].
        depth: K.
        score: function of [Q, D] and [P, D] that returns [Q, P]; None: the similarity.

    Raises:
        InvalidValue: there is no query, or the depth is below 1.
    """

    def __init__(
        self,
        queries: Tensor,
        geometry: Geometry,
        *,
        depth: int,
        score: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        if not len(queries):
            raise InvalidValue("queries", 0, "give at least one")
        if depth < 1:
            raise InvalidValue("depth", depth, "keep at least one passage")
        self._geometry = geometry
        self._score = full_precision(score or partial(_similarities, geometry))
        self._queries = _prepared(geometry, queries)
        shape = len(queries), depth
        self._scores = self._queries.new_full(shape, -torch.inf)
        self._places = torch.full(shape, NOTHING, device=queries.device)
        self._waiting = queries[:0]
        self._searched = 0
        self._left_out: list[tuple[int, int]] = []

    @property
    def seen(self) -> int:
        """Return the number of passages added so far."""
        return self._searched + len(self._waiting)

    def add(self, passages: Tensor, left_out: Iterable[tuple[int, int]] = ()) -> None:
        """Add the next passages.

        Args:
            passages: packed embeddings, [n, D].
            left_out: (query, place) of passages among these that must not be hits of the query.

        Raises:
            TrialFailed: a similarity is not finite.
        """
        self._left_out += left_out
        waiting = torch.cat([self._waiting, passages])
        whole = len(waiting) // TILE * TILE
        for tile in torch.split(waiting[:whole], TILE) if whole else ():
            self._search(tile)
        self._waiting = waiting[whole:].clone()  # a slice would keep the whole block alive

    def hits(self) -> Hits:
        """Return the nearest of all passages, after which no more can be added."""
        if len(self._waiting):
            self._search(self._waiting)
            self._waiting = self._waiting[:0]
        return Hits(self._scores, self._places)

    def _search(self, tile: Tensor) -> None:
        size, end = len(tile), self._searched + len(tile)
        hidden = [(q, p - self._searched) for q, p in self._left_out if p < end]
        self._left_out = [(q, p) for q, p in self._left_out if p >= end]
        # the last tile is padded, because another shape would round equal passages differently
        tile = _prepared(self._geometry, torch.cat([tile, tile[-1:].expand(TILE - size, -1)]))
        for start in range(0, len(self._queries), ROWS):
            rows = slice(start, start + ROWS)
            table = self._score(self._queries[rows], tile)[:, :size]
            if not table.sum().isfinite():
                where = f"of passages {self._searched} to {end - 1}"
                raise TrialFailed(f"a similarity {where} with a query is not finite")
            for query, column in hidden:
                if start <= query < start + ROWS:
                    table[query - start, column] = -torch.inf
            self._merge(rows, table)
        self._searched = end

    def _merge(self, rows: slice, table: Tensor) -> None:
        """Merge the columns that are nearer than a row's last hit into the hits, in their order.

        A column as near as the last hit comes after it in the corpus and is left out. After the
        first tiles few columns are nearer, which makes sorting cheap: of random passages about K
        times the tile's share of all passages so far.
        """
        nearer = table > self._scores[rows, -1:]
        counts = nearer.sum(dim=1)
        row, column = nearer.nonzero(as_tuple=True)
        slot = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
        scores = table.new_full((len(table), int(counts.max())), -torch.inf)
        places = torch.full_like(scores, NOTHING, dtype=self._places.dtype)
        scores[row, slot] = table[row, column]
        places[row, slot] = column + self._searched
        scores = torch.cat([self._scores[rows], scores], dim=1)
        places = torch.cat([self._places[rows], places], dim=1)
        order = scores.sort(dim=1, descending=True, stable=True).indices[:, : self._scores.shape[1]]
        self._scores[rows] = scores.gather(1, order)
        self._places[rows] = places.gather(1, order)


def _prepared(geometry: Geometry, embeddings: Tensor) -> Tensor:
    """Return widened embeddings; points are normalised here once instead of for every table."""
    wide: Tensor = widen(embeddings)
    return F.normalize(wide, dim=-1) if isinstance(geometry, Points) else wide


def _similarities(geometry: Geometry, queries: Tensor, passages: Tensor) -> Tensor:
    """Return the similarities of prepared queries [Q, D] and passages [P, D], [Q, P]."""
    if isinstance(geometry, Points):
        return queries @ passages.T
    if geometry.symmetric:
        return geometry.entails_table(queries, passages)
    forward, backward = geometry.entails_tables(queries, passages)
    return (forward + backward) / 2
