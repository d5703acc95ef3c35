"""The result of a sweep: a metric for each combination of readouts, and the best combination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentune.errors import InvalidValue
from sentune.readouts.grid import Grid, Value

SWEEP_FILE = "sweep.json"
"""File name of a sweep among a result's tables, as in ``TASK/sweep.json``."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The values of one metric over a grid of readouts; higher is better.

    Attributes:
        metric: ``task/metric`` that was swept.
        axes: readout -> its values, in the order of the dimensions of ``values``.
        values: metric of each combination; NaN if the combination is not allowed (``alpha_1`` not
            below ``alpha_2``).
        exact: readout that was found exactly -> its best value for each combination, shaped as
            ``values``.
        barred: combinations that are measured but must not be chosen, broadcast to ``values``;
            ignored if it bars every combination.

    Raises:
        InvalidValue: the shape of ``values`` differs from the axes, or every value is NaN.
    """

    metric: str
    axes: Mapping[str, Grid]
    values: NDArray[np.float64]
    exact: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    barred: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        shape = tuple(len(grid) for grid in self.axes.values())
        if self.values.shape != shape:
            fix = f"its shape must be {shape}, as the axes have it"
            raise InvalidValue(f"sweep of {self.metric}", self.values.shape, fix)
        if not np.isfinite(self.values).any():
            fix = "no combination of the readouts is allowed; widen a grid"
            raise InvalidValue(f"sweep of {self.metric}", dict(self.axes), fix)

    @property
    def place(self) -> tuple[int, ...]:
        """The indices of the best combination, the first one if several are equal."""
        open_ = self.values if self.barred is None else np.where(self.barred, np.nan, self.values)
        flat = int(np.nanargmax(open_ if np.isfinite(open_).any() else self.values))
        return tuple(int(i) for i in np.unravel_index(flat, self.values.shape))

    @property
    def best(self) -> float:
        """The value of the metric at the best combination."""
        return float(self.values[self.place])

    @property
    def chosen(self) -> dict[str, Value]:
        """Readout -> value at the best combination, including readouts found exactly."""
        places = zip(self.axes.items(), self.place, strict=True)
        on_grid = {name: grid[index] for (name, grid), index in places}
        return {**on_grid, **{name: float(found[self.place]) for name, found in self.exact.items()}}

    def to_table(self) -> dict[str, Any]:
        """Return the sweep as JSON types; combinations that are not allowed are null."""
        return {
            "metric": self.metric,
            "axes": {name: list(grid) for name, grid in self.axes.items()},
            "values": _plain(self.values),
            "exact": {name: _plain(found) for name, found in self.exact.items()},
            "best": {"value": self.best, **self.chosen},
        }


def sweeps_among(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a result's tables that are sweeps."""
    return {name: table for name, table in tables.items() if name.endswith(f"/{SWEEP_FILE}")}


def _plain(values: NDArray[np.float64]) -> Any:
    """Return nested lists with None for NaN."""
    return np.where(np.isnan(values), np.array(None), values).tolist()
