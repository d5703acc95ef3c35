"""The settings that a study varied, as axes of a picture or columns of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sentune.records import StudySummary, TrialRecord

MOST_TICKS = 6


@dataclass(frozen=True)
class Axis:
    """One setting: a range from 0 to 1, linear or logarithmic, or values in equal steps.

    Attributes:
        choices: the values of a choice, in order; empty for a range.
        low, high: ends of a range.
        log: the range is uniform in its logarithm.
    """

    name: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 1.0
    log: bool = False

    def position(self, value: Any) -> float | None:
        """Where a value stands, from 0 to 1; None for one that is missing or no number."""
        if self.choices:
            if value not in self.choices:
                return None
            return _share(self.choices.index(value), 0, len(self.choices) - 1)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        if self.log:
            return _share(math.log(value), math.log(self.low), math.log(self.high))
        return _share(value, self.low, self.high)

    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels, at most ``MOST_TICKS``."""
        values = self._tick_values()
        placed = ((self.position(value), _label(value)) for value in values)
        return [(position, label) for position, label in placed if position is not None]

    def _tick_values(self) -> list[Any]:
        if self.choices:
            every = math.ceil(len(self.choices) / MOST_TICKS)
            return list(self.choices[::every])
        if self.low == self.high:
            return [self.low]
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            decades = [10.0**power for power in range(first, last + 1)]
            inner = [d for d in decades if self.low * 2 < d < self.high / 2]
            return [self.low, *inner, self.high]
        return [self.low + share * (self.high - self.low) for share in (0, 0.25, 0.5, 0.75, 1)]


def axes_of(summary: StudySummary) -> list[Axis]:
    """Axes of the settings that took more than one value, in the order of the space.

    A setting whose space is not known (a summary from elsewhere) gets its axis from its values.
    """
    declared: dict[str, Any] = summary.space.get("settings", {})
    names = [*declared, *_others(summary.trials, declared)]
    axes = []
    for name in names:
        values = [t.settings[name] for t in summary.trials if name in t.settings]
        if len({repr(value) for value in values}) > 1:
            axes.append(_declared(name, declared.get(name), values) or _observed(name, values))
    return axes


def _others(trials: Sequence[TrialRecord], declared: dict[str, Any]) -> list[str]:
    return sorted({name for trial in trials for name in trial.settings} - declared.keys())


def _declared(name: str, dimension: Any, values: list[Any]) -> Axis | None:
    if not isinstance(dimension, dict):
        return None
    if "choice" in dimension:
        return _choices(name, [*dimension["choice"], *values])
    numbers = _numbers(values)
    ends = dimension.get("uniform") or dimension.get("integer")
    if ends is None or numbers is None:
        return None
    low, high = min([*ends, *numbers]), max([*ends, *numbers])
    return Axis(name, low=low, high=high, log=bool(dimension.get("log")) and low > 0)


def _observed(name: str, values: list[Any]) -> Axis:
    """A range that spans more than a factor of 20 is taken as logarithmic."""
    numbers = _numbers(values)
    if numbers is None:
        return _choices(name, values)
    low, high = min(numbers), max(numbers)
    return Axis(name, low=low, high=high, log=low > 0 and high / low > 20)


def _choices(name: str, values: list[Any]) -> Axis:
    distinct: list[Any] = []
    for value in values:  # a list as a value cannot be hashed
        if value not in distinct:
            distinct.append(value)
    ordered = sorted(distinct) if _numbers(distinct) is not None else distinct
    return Axis(name, choices=tuple(ordered))


def _numbers(values: list[Any]) -> list[float] | None:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    finite = [float(v) for v in numbers if math.isfinite(v)]
    return finite if len(finite) == len(values) and finite else None


def _share(value: float, low: float, high: float) -> float:
    return 0.5 if high == low else (value - low) / (high - low)


def _label(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.0e}".replace("e-0", "e-") if 0 < abs(value) < 1e-3 else f"{value:.3g}"
    return str(value) if len(str(value)) <= 14 else f"{str(value)[:13]}…"
