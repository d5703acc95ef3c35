"""What a readout is: a hyperparameter that is applied to a trained model, and its grid.

A job sweeps the grids of ``search_spaces``; those here serve where there is no search space and
are the same. Alphas are decimals from a list, never sums of 0.1.
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
"""Readout -> the values it is swept over. A readout that is missing has its method's own grid; an
empty grid means that the best value is found exactly."""


@dataclass(frozen=True, kw_only=True)
class Readout:
    """A hyperparameter that needs no retraining.

    Attributes:
        name: ``alpha_1``; a task reports it as ``task/alpha_1``.
        grid: what it is swept over where there is no search space, in order; empty: the best value
            is found exactly from the sorted scores. A test holds it to the search space's.
        low, high: the numbers that are allowed, both included; for words None, and the grid's
            words are all there are.
        integer: whole numbers only.
    """

    name: str
    grid: Grid
    low: float | None = None
    high: float | None = None
    integer: bool = False

    def parse(self, text: str) -> Grid:
        """The grid that a text stands for: ``0.5``, ``0.3,0.5``, or ``1..150`` for whole numbers.

        Values outside the readout's own grid are allowed (a grid may be widened).

        Raises:
            InvalidValue: the text is none of these, or a value is not allowed.
        """
        between = re.fullmatch(r"(\d+)\.\.(\d+)", text)
        if between and self.integer:
            first, last = int(between[1]), int(between[2])
            if first > last:
                raise InvalidValue(f"readout {self.name}", text, "give the smaller number first")
            return self.checked(tuple(range(first, last + 1)))
        return self.checked(tuple(self._value(part.strip()) for part in text.split(",")))

    def checked(self, values: Grid) -> Grid:
        """Return the values, each allowed and none twice, in the order given.

        Raises:
            InvalidValue: naming the readout, the value and what is allowed.
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
        if isinstance(value, str | bool) or (self.integer and value != int(value)):
            return False
        return self.low <= value <= self.high

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
    """Return the grid that a sweep takes: the one that was asked for, else the readout's own."""
    return grids.get(readout.name, readout.grid)


REPRESENTATION = Readout(
    name="representation", grid=("ensemble", "ensemble_scaled", "z_en", "z_de")
)
"""Of a model with several encoders: ensemble of encoder and inverse decoder, as they are or scaled,
or one of them."""
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
"""n, the training triplets whose sentences are the references."""
INTERSECTION = Readout(name="intersection", grid=("gumbel", "hard"))
"""Intersection of boxes on the trained model."""
BETA = Readout(name="beta", grid=(), low=0.0, high=1.0)
"""Threshold of entailment; found exactly."""
INTERPRETATION = (ALPHA_1, ALPHA_2, REFERENCES, INTERSECTION, BETA)
"""Of interpretation embeddings (GumbelCSE sections 3.2, 4.4 and 5)."""
