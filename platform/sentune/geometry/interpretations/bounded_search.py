"""Extremes over all entries of one large table of overlaps, most of which are never computed.

Each row's entries are bounded by a plane (``bounds.py``), so that one matrix product tells which
entries could still lower a minimum. The most promising entry of each pair of groups is computed
first; then few others are left. A maximum is the minimum of the negative.

Legend: n = rows, m = columns, G = groups, d = dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from sentune.beats import beat
from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners
from sentune.geometry.interpretations.bounds import Planes, planes_above, planes_below
from sentune.geometry.interpretations.groups import Groups

# Columns that share a plane: alike ones, since they are sorted by coverage. Five direct overlaps a
# row and block are the price.
COLUMNS = 1024
# Numbers of one temporary: 4 MB of float32.
CHUNK = 2**20
# Rows visited together, and numbers of all their slopes: 16 MB.
ROWS = 2**14
SLOPES = 2**22
# One entry alone costs as much as this many in a table, if that is not too small.
DENSE = 8
TABLE = 2**14
# Share of entries left by the first planes that is worth second ones.
MANY = 1 / 8
# Entries computed before the limits are looked at again; twice as many each time.
FIRST = 2**11


@dataclass(frozen=True)
class Side:
    """Boxes [n, d] by their corners and groups [n], the same group's together."""

    corners: Corners
    groups: Tensor

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, rows: slice | Tensor) -> Side:
        return Side(self.corners.take(rows), self.groups[rows])

    def runs(self) -> list[tuple[int, slice]]:
        """Each group with its place."""
        found, counts = torch.unique_consecutive(self.groups, return_counts=True)
        stops = counts.cumsum(0).tolist()
        spans = zip(found.tolist(), [0, *stops], stops, strict=False)
        return [(group, slice(start, stop)) for group, start, stop in spans]


def smallest(boxes: Boxes, first: Side, second: Side, groups: Groups, *, sign: int) -> Tensor:
    """[G, G]: the smallest of sign (log Vol(b_i and b_j) - log Vol(b_i)) by groups of i and j.

    Exact for all that ``Groups.minima`` makes of it; an entry that is no minimum of any pair of
    sets may be missing.

    Args:
        sign: 1 for minima; -1 for maxima, as negative numbers.
    """
    search = _Search(boxes, second, groups, sign)
    blocks = -(-len(second) // COLUMNS)
    by_slopes = SLOPES // (blocks * 2 * second.corners.lower.shape[1])
    step = max(1, min(ROWS, by_slopes))
    for start in range(0, len(first), step):
        beat()
        search.visit(first.take(slice(start, start + step)))
    return search.found


@dataclass(frozen=True)
class _Across:
    """Bounds by planes of the columns over the rows.

    Attributes:
        slopes: [2d, m] and base: [m] of the planes.
        distances: [n, 2d] and volumes: [n] of the rows, with the sign of the search.
    """

    slopes: Tensor
    base: Tensor
    distances: Tensor
    volumes: Tensor

    def of(self, rows: Tensor, run: slice) -> Tensor:
        found = self.distances[rows] @ self.slopes[:, run] + self.base[run]
        return found - self.volumes[rows, None]


@dataclass(frozen=True)
class _Block:
    """Bounds of n rows against some columns.

    Attributes:
        columns: the boxes.
        runs: their groups.
        slopes: [n, 2d] of the planes, and base: [n] their values less the rows' volumes and the
            slack for rounding.
        distances: [2d, m].
        bounds: [n, runs] the smallest over the columns of a group.
    """

    columns: Side
    runs: list[tuple[int, slice]]
    base: Tensor
    slopes: Tensor
    distances: Tensor
    bounds: Tensor
    across: _Across | None = None

    def of(self, rows: Tensor, run: slice) -> Tensor:
        """[k, columns of the run]: bounds of single entries."""
        found = self.slopes[rows] @ self.distances[:, run] + self.base[rows, None]
        return found if self.across is None else torch.maximum(found, self.across.of(rows, run))


@dataclass
class _Search:
    boxes: Boxes
    second: Side
    groups: Groups
    sign: int
    found: Tensor = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.groups.count, self.groups.count)
        self.found = self.second.corners.lower.new_full(shape, torch.inf)

    def visit(self, first: Side) -> None:
        """Lowers ``found`` by all entries of some rows."""
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

    def _bound_across(self, first: Side, volumes: Tensor, block: _Block) -> _Block:
        """Return the block with the planes of its columns over the rows, too."""
        planes = self._planes(block.columns.corners, first.corners)
        base = planes.value - planes.slack(first.corners)
        distances = planes.distances(first.corners).T
        across = _Across(planes.slopes.T, base, distances, self.sign * volumes)
        return replace(block, across=across)

    def _compute_promising(self, first: Side, block: _Block) -> None:
        """Of each pair of groups the entry with the smallest bound."""
        best = torch.stack([block.bounds[s].argmin(0) + s.start for _, s in first.runs()])
        rows, places = torch.unique(best, return_inverse=True)
        product = block.slopes[rows] @ block.distances
        columns = [product[:, run].argmin(1) + run.start for _, run in block.runs]
        chosen = torch.stack(columns, dim=1).gather(0, places)
        self.compute(first, block.columns, best.flatten(), chosen.flatten())

    def _compute_possible(self, first: Side, volumes: Tensor, block: _Block) -> None:
        """The entries whose bound is below what they must go below."""
        limits = self._limits(first, block)
        active = block.bounds < limits
        sizes = torch.tensor([run.stop - run.start for _, run in block.runs], device=active.device)
        if float((active.sum(0) * sizes).sum()) > MANY * len(first) * len(block.columns):
            block = self._bound_across(first, volumes, block)
        places, rows, columns, margins = [], [], [], []
        for place in active.any(0).nonzero()[:, 0].tolist():
            run = block.runs[place][1]
            for some in torch.split(active[:, place].nonzero()[:, 0], CHUNK // COLUMNS):
                margin = block.of(some, run) - limits[some, place, None]
                row, column = (margin < 0).nonzero(as_tuple=True)
                if margin.numel() >= TABLE and len(row) * DENSE > margin.numel():
                    self.compute_table(first.take(some), block.columns.take(run))
                    continue
                places.append(torch.full_like(row, place))
                rows.append(some[row])
                columns.append(column + run.start)
                margins.append(margin[row, column])
        if places:
            parts = (torch.cat(part) for part in (places, rows, columns, margins))
            self._compute_by_promise(first, block, limits, *parts)

    def _limits(self, first: Side, block: _Block) -> Tensor:
        """[n, runs]: what an entry must go below."""
        of_runs = torch.tensor([group for group, _ in block.runs], device=first.groups.device)
        return self.groups.thresholds(self.found)[first.groups][:, of_runs]

    def _compute_by_promise(
        self,
        first: Side,
        block: _Block,
        limits: Tensor,
        places: Tensor,
        rows: Tensor,
        columns: Tensor,
        margins: Tensor,
    ) -> None:
        """Entries by how far their bound lies below the limit, which falls meanwhile."""
        order = margins.argsort()
        bounds = margins + limits[rows, places]
        step = FIRST
        while len(order):
            now, order = order[:step], order[step:]
            self.compute(first, block.columns, rows[now], columns[now])
            limits, step = self._limits(first, block), 2 * step
            order = order[bounds[order] < limits[rows[order], places[order]]]

    def compute(self, first: Side, second: Side, rows: Tensor, columns: Tensor) -> None:
        """Lowers ``found`` by single entries."""
        both = (torch.split(places, 2**16) for places in (rows, columns))
        for row, column in zip(*both, strict=True):
            x, y = first.take(row), second.take(column)
            values = overlaps(self.boxes, x, y) * self.sign
            lower(self.found, x.groups * self.groups.count + y.groups, values)

    def compute_table(self, first: Side, second: Side) -> None:
        """Lowers ``found`` by all entries of some rows and columns."""
        table = self.boxes.log_overlap_table(first.corners, second.corners)
        table = (table - self.boxes.log_volume(first.corners)[:, None]).mul_(self.sign)
        lower_by_table(self.found, table, first, second)


def every_entry(boxes: Boxes, first: Side, second: Side, groups: Groups) -> Tensor:
    """[2, G, G]: as ``smallest`` with signs 1 and -1, from all entries, some rows at a time."""
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
    """Minimum of ``found``, [G, G], and a table of values by the groups of rows and columns."""
    runs = second.runs()
    least = torch.stack([table[:, columns].amin(1) for _, columns in runs], dim=1)
    columns = torch.tensor([group for group, _ in runs], device=table.device)
    places = first.groups[:, None] * found.shape[1] + columns
    lower(found, places.flatten(), least.flatten())


def overlaps(boxes: Boxes, first: Side, second: Side) -> Tensor:
    """[n]: log Vol(b_i and b'_i) - log Vol(b_i)."""
    return boxes.log_overlap(first.corners, second.corners) - boxes.log_volume(first.corners)


def lower(found: Tensor, places: Tensor, values: Tensor) -> None:
    """Minimum of ``found``, flattened, and the values at their places."""
    found.view(-1).scatter_reduce_(0, places, values, "amin")
