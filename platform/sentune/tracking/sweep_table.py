"""A sweep's table as pictures need it: what can be drawn, and cuts through its best values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEAT = ("alpha_1", "alpha_2")
"""Readouts of a heat map: rows, columns."""
FEWEST = 2
"""Values that a readout needs for a curve."""
MARKED = 20
"""Values up to which each has a mark on a curve."""


@dataclass(frozen=True, kw_only=True)
class SweepTable:
    """What ``Sweep.to_table()`` has written.

    Attributes:
        metric: that was measured.
        axes: readout -> its values.
        best: readout -> its best value; ``value`` is the metric there.
        values: the metric, an axis for each readout; NaN where values do not go together.
    """

    metric: str
    axes: Mapping[str, Sequence[Any]]
    best: Mapping[str, Any]
    values: NDArray[np.float64]

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> SweepTable:
        """The table from its JSON types."""
        values = np.array(table["values"], dtype=np.float64)
        return cls(metric=table["metric"], axes=table["axes"], best=table["best"], values=values)

    @property
    def has_heat(self) -> bool:
        """Whether both alphas were swept."""
        return all(len(self.axes.get(name, ())) >= FEWEST for name in HEAT)

    @property
    def curves(self) -> list[str]:
        """The other readouts that are numbers and took values enough for a curve."""
        return [
            name
            for name, grid in self.axes.items()
            if name not in HEAT and len(grid) >= FEWEST and not isinstance(grid[0], str)
        ]

    def at_best(self, *shown: str) -> NDArray[np.float64]:
        """The metric over the readouts that are shown, in that order, the others at their best."""
        place = tuple(
            slice(None) if name in shown else grid.index(self.best[name])
            for name, grid in self.axes.items()
        )
        kept = [name for name in self.axes if name in shown]
        return self.values[place].transpose([kept.index(name) for name in shown])

    def fixed(self, *shown: str) -> dict[str, Any]:
        """What the readouts that are not shown stand at."""
        return {name: at for name, at in self.best.items() if name not in (*shown, "value")}


def dark_cells(plane: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where a cell of a heat map takes light text; false where it is empty."""
    low, high = np.nanmin(plane), np.nanmax(plane)
    dark: NDArray[np.bool_] = plane < low + 0.6 * (high - low)
    return dark


def scale_of(grid: Sequence[float]) -> str:
    """Matplotlib's scale: logarithmic for values far apart; a range of all integers is linear."""
    gaps = max(grid) - min(grid) > len(grid) - 1
    if not gaps or max(grid) <= 20 * max(min(grid), 1):
        return "linear"
    return "symlog" if min(grid) == 0 else "log"
