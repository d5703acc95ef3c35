"""Find the extremes of a large table of overlaps without computing most of its entries.

A plane bounds the entries of each row (``bounds.py``), so that one matrix product shows which
entries could still lower a minimum. The search first computes the entry with the smallest bound in
each pair of groups, after which few candidates remain. A maximum is the minimum of the negated
table.

Legend: n = rows, m = columns, G = groups, d = dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from sentune.beats import beat
from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners
from sentune.geometry.interpretations.bounds import Planes, planes_above, planes_below
from sentune.geometry.interpretations.groups import Groups

# Columns that share a plane; they are similar, because they are sorted by coverage. The planes cost
# five overlaps for each row and block of columns.
COLUMNS = 1024
# Elements of one temporary: 4 MB of float32.
CHUNK = 2**20
# Maximum rows visited at once, and maximum elements of their slopes: 16 MB.
ROWS = 2**14
SLOPES = 2**22
# A single entry costs as much as DENSE entries of a table with at least TABLE entries.
DENSE = 8
TABLE = 2**14
# Planes of the columns are added if those of the rows leave more than this share of the entries.
MANY = 1 / 8
# Entries computed before the limits are updated for the first time; doubled each time.
FIRST = 2**11


@dataclass(frozen=True)
class Side:
    """Corners of n boxes and their groups [n]; boxes of the same group are adjacent."""

    corners: Corners
    groups: Tensor

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, rows: slice | Tensor) -> Side:
        return Side(self.corners.take(rows), self.groups[rows])

    def runs(self) -> list[tuple[int, slice]]:
        """Return each group with the slice of its boxes."""
        found, counts = torch.unique_consecutive(self.groups, return_counts=True)
        stops = counts.cumsum(0).tolist()
        spans = zip(found.tolist(), [0, *stops], stops, strict=False)
        return [(group, slice(start, stop)) for group, start, stop in spans]


def smallest(boxes: Boxes, first: Side, second: Side, groups: Groups, *, sign: int) -> Tensor:
    """Return the minima of sign (log Vol(b_i and b_j) - log Vol(b_i)) by groups of i and j, [G, G].

    An entry that is not the minimum of any pair of sets may be missing, so only the results of
    ``Groups.minima`` are exact.

    Args:
        sign: 1 for minima, -1 for negated maxima.
    """
    search = _Search(boxes, second, groups, sign)
    blocks = -(-len(second) // COLUMNS)
    by_slopes = SLOPES // (blocks * 2 * second.corners.lower.shape[1])
    step = max(1, min(ROWS, by_slopes))
    for start in range(0, len(first), step):
        beat()
        search.visit(first.take(slice(start, start + step)))
    return search.found


Bounds = Callable[[Tensor, slice], Tensor]


@dataclass(frozen=True)
class _Block:
    """Bounds of n rows against a block of columns.

    Attributes:
        columns: boxes of the columns.
        runs: groups of the columns with their slices.
        base: [n] values of the planes less the log-volumes of the rows and the slack for rounding.
        slopes: [n, 2d] of the planes.
        distances: [2d, m] of the columns from the planes' origin.
        bounds: [n, runs] smallest bound over the columns of each group.
    """

    columns: Side
    runs: list[tuple[int, slice]]
    base: Tensor
    slopes: Tensor
    distances: Tensor
    bounds: Tensor

    def of(self, rows: Tensor, run: slice) -> Tensor:
        """Return the bounds of single entries, [k, columns of the run]."""
        return self.slopes[rows] @ self.distances[:, run] + self.base[rows, None]


class _Search:
    def __init__(self, boxes: Boxes, second: Side, groups: Groups, sign: int) -> None:
        self.boxes, self.second, self.groups, self.sign = boxes, second, groups, sign
        self.found = second.corners.lower.new_full((groups.count, groups.count), torch.inf)

    def visit(self, first: Side) -> None:
        """Lower ``found`` by the entries of some rows."""
        volumes = self.boxes.log_volume(first.corners)
        blocks = []
        for start in range(0, len(self.second), COLUMNS):
            block = self._bound(first, volumes, self.second.take(slice(start, start + COLUMNS)))
            self._compute_promising(first, block)
            blocks.append(block)
        for block in blocks:
            self._compute_possible(first, volumes, block)

    def _bound(self, first: Side, volumes: Tensor, columns: Side) -> _Block:
        planes = self._planes(first.corners, columns.corners)
        base = planes.value - planes.slack(columns.corners) - self.sign * volumes
        distances, runs = planes.distances(columns.corners), columns.runs()
        bounds = torch.empty(len(first), len(runs), dtype=base.dtype, device=base.device)
        for start in range(0, len(first), CHUNK // COLUMNS):
            rows = slice(start, start + CHUNK // COLUMNS)
            product = planes.slopes[rows] @ distances
            for place, (_, run) in enumerate(runs):
                torch.amin(product[:, run], 1, out=bounds[rows, place])
        bounds += base[:, None]
        return _Block(columns, runs, base, planes.slopes, distances, bounds)

    def _planes(self, rows: Corners, columns: Corners) -> Planes:
        if self.sign > 0:
            return planes_below(self.boxes, rows, columns)
        return -planes_above(self.boxes, rows, columns)

    def _bound_across(self, first: Side, volumes: Tensor, block: _Block) -> Bounds:
        """Return the bounds by planes of the block's columns over the rows, as ``_Block.of``."""
        planes = self._planes(block.columns.corners, first.corners)
        base = planes.value - planes.slack(first.corners)
        slopes, distances = planes.slopes.T, planes.distances(first.corners).T
        signed = self.sign * volumes

        def of(rows: Tensor, run: slice) -> Tensor:
            return distances[rows] @ slopes[:, run] + base[run] - signed[rows, None]

        return of

    def _compute_promising(self, first: Side, block: _Block) -> None:
        """Compute the entry with the smallest bound of each pair of groups."""
        best = torch.stack([block.bounds[s].argmin(0) + s.start for _, s in first.runs()])
        rows, places = torch.unique(best, return_inverse=True)
        product = block.slopes[rows] @ block.distances
        columns = [product[:, run].argmin(1) + run.start for _, run in block.runs]
        chosen = torch.stack(columns, dim=1).gather(0, places)
        self.compute(first, block.columns, best.flatten(), chosen.flatten())

    def _compute_possible(self, first: Side, volumes: Tensor, block: _Block) -> None:
        """Compute the entries whose bound is below the limit of their groups."""
        limits = self._limits(first, block)
        active = block.bounds < limits
        sizes = torch.tensor([run.stop - run.start for _, run in block.runs], device=active.device)
        bounds: list[Bounds] = [block.of]
        if float((active.sum(0) * sizes).sum()) > MANY * len(first) * len(block.columns):
            bounds.append(self._bound_across(first, volumes, block))
        found: list[tuple[Tensor, ...]] = []
        for place in active.any(0).nonzero()[:, 0].tolist():
            run = block.runs[place][1]
            for some in torch.split(active[:, place].nonzero()[:, 0], CHUNK // COLUMNS):
                highest = reduce(torch.maximum, (of(some, run) for of in bounds))
                margin = highest - limits[some, place, None]
                row, column = (margin < 0).nonzero(as_tuple=True)
                if margin.numel() >= TABLE and len(row) * DENSE > margin.numel():
                    self.compute_table(first.take(some), block.columns.take(run))
                    continue
                places = torch.full_like(row, place)
                found.append((places, some[row], column + run.start, margin[row, column]))
        if found:
            self._compute_by_promise(first, block, limits, found)

    def _limits(self, first: Side, block: _Block) -> Tensor:
        """Return the limits below which an entry can lower a minimum, [n, runs]."""
        of_runs = torch.tensor([group for group, _ in block.runs], device=first.groups.device)
        return self.groups.thresholds(self.found)[first.groups][:, of_runs]

    def _compute_by_promise(
        self, first: Side, block: _Block, limits: Tensor, found: list[tuple[Tensor, ...]]
    ) -> None:
        """Compute entries in order of their margins; drop those that falling limits exclude.

        ``found`` has parts of the entries' runs, rows, columns and margins.
        """
        places, rows, columns, margins = map(torch.cat, zip(*found, strict=True))
        order = margins.argsort()
        bounds = margins + limits[rows, places]
        step = FIRST
        while len(order):
            now, order = order[:step], order[step:]
            self.compute(first, block.columns, rows[now], columns[now])
            limits, step = self._limits(first, block), 2 * step
            order = order[bounds[order] < limits[rows[order], places[order]]]

    def compute(self, first: Side, second: Side, rows: Tensor, columns: Tensor) -> None:
        """Lower ``found`` by single entries."""
        both = (torch.split(places, 2**16) for places in (rows, columns))
        for row, column in zip(*both, strict=True):
            x, y = first.take(row), second.take(column)
            values = overlaps(self.boxes, x, y) * self.sign
            lower(self.found, x.groups * self.groups.count + y.groups, values)

    def compute_table(self, first: Side, second: Side) -> None:
        """Lower ``found`` by all entries of some rows and columns."""
        table = self.boxes.log_overlap_table(first.corners, second.corners)
        table = (table - self.boxes.log_volume(first.corners)[:, None]).mul_(self.sign)
        lower_by_table(self.found, table, first, second)


def every_entry(boxes: Boxes, first: Side, second: Side, groups: Groups) -> Tensor:
    """Return ``smallest`` with signs 1 and -1 by computing every entry in chunks, [2, G, G]."""
    shape = (2, groups.count, groups.count)
    found = first.corners.lower.new_full(shape, torch.inf)
    step = max(1, CHUNK // max(1, len(second)))
    for start in range(0, len(first), step):
        beat()
        rows = first.take(slice(start, start + step))
        table = boxes.log_overlap_table(rows.corners, second.corners)
        table -= boxes.log_volume(rows.corners)[:, None]
        lower_by_table(found[0], table, rows, second)
        lower_by_table(found[1], table.neg_(), rows, second)
    return found


def lower_by_table(found: Tensor, table: Tensor, first: Side, second: Side) -> None:
    """Lower ``found`` [G, G] in place by a table, by the groups of its rows and columns."""
    runs = second.runs()
    least = torch.stack([table[:, columns].amin(1) for _, columns in runs], dim=1)
    columns = torch.tensor([group for group, _ in runs], device=table.device)
    places = first.groups[:, None] * found.shape[1] + columns
    lower(found, places.flatten(), least.flatten())


def overlaps(boxes: Boxes, first: Side, second: Side) -> Tensor:
    """Return log Vol(b_i and b'_i) - log Vol(b_i), shape [n]."""
    return boxes.log_overlap(first.corners, second.corners) - boxes.log_volume(first.corners)


def lower(found: Tensor, places: Tensor, values: Tensor) -> None:
    """Lower the flattened ``found`` in place by values at the given places."""
    found.view(-1).scatter_reduce_(0, places, values, "amin")
