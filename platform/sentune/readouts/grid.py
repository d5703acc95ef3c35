"""Readouts: hyperparameters that are applied to a trained model, and their default grids.

A job sweeps the grids of its file in ``search_spaces``; the grids here, which are equal, apply
without a search space. Alphas are decimal literals, because sums of 0.1 are inexact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sentune.errors import InvalidValue

Value: TypeAlias = int | float | str
Grid: TypeAlias = tuple[Value, ...]
Grids: TypeAlias = Mapping[str, Grid]
"""Readout -> values to sweep. A missing readout uses its own grid. An empty grid means that the
best value is found exactly."""


@dataclass(frozen=True, kw_only=True)
class Readout:
    """A hyperparameter that is swept on a trained model, without retraining.

    Attributes:
        name: name such as ``alpha_1``; a task reports the value as ``task/alpha_1``.
        grid: values to sweep in order without a search space. If it is empty, the best value is
            found exactly from the sorted scores.
        low, high: inclusive bounds of numbers; None for words, of which only those of the grid are
            allowed.
        integer: whether only whole numbers are allowed.
    """

    name: str
    grid: Grid
    low: float | None = None
    high: float | None = None
    integer: bool = False

    def parse(self, text: str) -> Grid:
        """Parse a grid from a text: ``0.5``, ``0.3,0.5``, or ``1..150`` for whole numbers.

        Numbers outside the readout's own grid are allowed between ``low`` and ``high``.

        Raises:
            InvalidValue: the text has another form, or a value is not allowed.
        """
        between = re.fullmatch(r"(\d+)\.\.(\d+)", text)
        if between and self.integer:
            first, last = int(between[1]), int(between[2])
            if first > last:
                raise InvalidValue(f"readout {self.name}", text, "give the smaller number first")
            self.checked((last,))  # before a tuple of any length is made
            return self.checked(tuple(range(first, last + 1)))
        return self.checked(tuple(self._value(part.strip()) for part in text.split(",")))

    def checked(self, values: Grid) -> Grid:
        """Return the values unchanged if each is allowed and none occurs twice.

        Raises:
            InvalidValue: a value is not allowed or occurs twice.
        """
        for value in values:
            if not self._allows(value):
                raise InvalidValue(f"readout {self.name}", value, self._fix())
        if len(set(values)) < len(values):
            raise InvalidValue(f"readout {self.name}", list(values), "give each value once")
        return values

    def _allows(self, value: Value) -> bool:
        if self.low is None or self.high is None:
            return value in self.grid
        if isinstance(value, str | bool) or not self.low <= value <= self.high:
            return False
        return not self.integer or value == int(value)

    def _value(self, text: str) -> Value:
        if self.low is None:
            return text
        try:
            return int(text) if self.integer else float(text)
        except ValueError:
            raise InvalidValue(f"readout {self.name}", text, self._fix()) from None

    def _fix(self) -> str:
        if self.low is None or self.high is None:
            return f"use {' or '.join(str(value) for value in self.grid)}"
        kind = "whole numbers" if self.integer else "numbers"
        return f"use {kind} from {self.low:g} to {self.high:g}"


def grid_of(readout: Readout, grids: Grids) -> Grid:
    """Return the requested grid of a readout, or the readout's own grid if there is none."""
    return grids.get(readout.name, readout.grid)


REPRESENTATION = Readout(
    name="representation", grid=("ensemble", "ensemble_scaled", "z_en", "z_de")
)
"""Sentence vector of an invertible model: the ensemble of encoder and inverse decoder, unscaled or
scaled, or one of the two."""
ALPHA_1 = Readout(name="alpha_1", grid=(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), low=0.0, high=1.0)
"""Coverage that an interpretation must exceed."""
ALPHA_2 = Readout(name="alpha_2", grid=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), low=0.0, high=1.0)
"""Coverage that an interpretation must stay below."""
REFERENCES = Readout(
    name="references",
    grid=(5_000, 10_000, 50_000, 100_000, 200_000),
    low=1,
    high=10_000_000,
    integer=True,
)
"""n, the number of training triplets whose sentences are the references."""
INTERSECTION = Readout(name="intersection", grid=("gumbel", "hard"))
"""Intersection of boxes that is applied to the trained model."""
BETA = Readout(name="beta", grid=(), low=0.0, high=1.0)
"""Threshold of entailment, found exactly."""
INTERPRETATION = (ALPHA_1, ALPHA_2, REFERENCES, INTERSECTION, BETA)
"""Readouts of interpretation embeddings (GumbelCSE sections 3.2, 4.4 and 5)."""
