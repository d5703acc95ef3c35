"""The readouts of C-STS with interpretations, swept over every allowed combination.

Legend: N = pairs, R = references, D = packed width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.geometry.boxes import Boxes
from sentune.readouts.cells import Cells
from sentune.readouts.grid import Grid
from sentune.readouts.sweep import Sweep
from sentune.tasks.conditioned import Choices, Views, choices, similarities
from sentune.tasks.sts import correlations

Floats = NDArray[np.float64]
AXES = ("intersection", "references", "alpha_1", "alpha_2")


@dataclass(frozen=True, kw_only=True)
class Conditioned:
    """What conditioned pairs are measured on.

    Attributes:
        boxes: as trained.
        embeddings: [*, D] that the rows of ``views`` point into.
        references: [R, D] embeddings, in the order of their drawing.
        sizes: n -> how many of them it has.
        views: sentences and conditions of the N pairs.
        scores: [N].
    """

    boxes: Boxes
    embeddings: Tensor
    references: Tensor
    sizes: Mapping[int, int]
    views: Views
    scores: Floats

    def sweep(self, metric: str, grids: Mapping[str, Grid]) -> CstsSweepResult:
        """Return the Spearman correlation of every combination with alpha_1 below alpha_2.

        Args:
            metric: its name.
            grids: of ``AXES``; those of ``references`` increasing.

        Raises:
            InvalidValue: no alpha_1 is below an alpha_2.
        """
        places = _allowed(grids)
        values = np.full([len(grids[axis]) for axis in AXES], np.nan)
        measured = [self._measure(way, grids, places) for way in grids["intersection"]]
        for at, found in enumerate(measured):
            spearman = correlations(found.similarities, self.scores, "spearman")
            # an undefined correlation counts as 0; NaN means that a combination is not allowed
            values[(at, *np.array(places).T)] = np.nan_to_num(spearman, nan=0.0)
        axes = {axis: grids[axis] for axis in AXES}
        return self._best(Sweep(metric=metric, axes=axes, values=values), measured, places)

    def _measure(
        self, intersection: Any, grids: Mapping[str, Grid], places: list[Place]
    ) -> _Measured:
        """All combinations of n and alphas with one intersection."""
        boxes = replace(self.boxes, intersection=intersection)
        cells = Cells([float(alpha) for axis in ALPHAS for alpha in grids[axis]])
        sizes = [self.sizes[int(n)] for n in grids["references"]]
        found = choices(boxes, self.embeddings, self.references, self.views, cells, sizes)
        blocks = [_block(cells, grids, place) for place in places]
        chosen = np.stack([found.of(*block) for block in blocks])
        alike = similarities(boxes, self.embeddings, self.references, self.views, chosen)
        return _Measured(found, blocks, alike)

    def _best(
        self, sweep: Sweep, measured: list[_Measured], places: list[Place]
    ) -> CstsSweepResult:
        intersection, *place = sweep.place
        found, at = measured[intersection], places.index((place[0], place[1], place[2]))
        count = found.choices.interpretations(*found.blocks[at])
        counts = {
            "sentences": len(count),
            "references": self.sizes[int(sweep.chosen["references"])],
            "interpretations": float(count.mean()),
            "without_interpretation": float((count == 0).mean()),
        }
        return CstsSweepResult(sweep, found.similarities[at], counts)


@dataclass(frozen=True)
class CstsSweepResult:
    """A sweep, and what its best combination gave.

    Attributes:
        similarities: [N].
        counts: of distinct sentences and of references, interpretations of a sentence (their mean
            number), and the share of sentences that have none.
    """

    sweep: Sweep
    similarities: Floats
    counts: dict[str, Any]


ALPHAS = ("alpha_1", "alpha_2")
Place = tuple[int, int, int]
Block = tuple[slice, int]


@dataclass(frozen=True)
class _Measured:
    choices: Choices
    blocks: list[Block]
    similarities: Floats


def _allowed(grids: Mapping[str, Grid]) -> list[Place]:
    """Indices of n, alpha_1 and alpha_2 with alpha_1 below alpha_2."""
    low, high = grids["alpha_1"], grids["alpha_2"]
    sides = (range(len(grids[axis])) for axis in AXES[1:])
    places = [(n, i, j) for n, i, j in product(*sides) if float(low[i]) < float(high[j])]
    if not places:
        raise InvalidValue("alpha_1", list(low), f"none is below an alpha_2 ({list(high)})")
    return places


def _block(cells: Cells, grids: Mapping[str, Grid], place: Place) -> Block:
    """Return the cells and the prefix of one combination."""
    n, i, j = place
    return cells.between(float(grids["alpha_1"][i]), float(grids["alpha_2"][j])), n
