"""Axes of the settings that a study varied, for figures and tables."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from sentune.formatting import is_number
from sentune.records import StudySummary

MOST_TICKS = 6


@dataclass(frozen=True)
class Axis:
    """Axis of one setting, which maps its values to positions from 0 to 1.

    Attributes:
        choices: the values of a categorical setting, at equal distances; empty for a range.
        low, high: ends of a range.
        log: whether the range is logarithmic.
    """

    name: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 1.0
    log: bool = False

    def position(self, value: Any) -> float | None:
        """Return the position of a value, from 0 to 1; None if the axis does not have it."""
        if self.choices:
            if value not in self.choices:
                return None
            value, low, high = self.choices.index(value), 0.0, len(self.choices) - 1.0
        elif not is_number(value) or not math.isfinite(value) or (self.log and value <= 0):
            return None
        elif self.log:
            value, low, high = math.log(value), math.log(self.low), math.log(self.high)
        else:
            low, high = self.low, self.high
        return 0.5 if high == low else float((value - low) / (high - low))

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions and labels of the ticks, for choices at most ``MOST_TICKS``."""
        values: list[Any]
        if self.choices:
            values = [*self.choices[:: math.ceil(len(self.choices) / MOST_TICKS)]]
        elif self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            decades = [10.0**power for power in range(first, last + 1)]
            inner = [d for d in decades if self.low * 2 < d < self.high / 2]
            values = [self.low, *inner, self.high]
        else:
            step = (self.high - self.low) / 4
            values = [self.low + place * step for place in range(5)]
        labels = {self.position(value): _label(value) for value in values}
        return [(position, label) for position, label in labels.items() if position is not None]


def axes_of(summary: StudySummary) -> list[Axis]:
    """Return an axis for each setting with more than one value, in the order of the space.

    The axis of a setting that the space does not declare is derived from its values.
    """
    declared: dict[str, Any] = summary.space.get("settings", {})
    others = {name for trial in summary.trials for name in trial.settings} - declared.keys()
    axes = []
    for name in [*declared, *sorted(others)]:
        values = [t.settings[name] for t in summary.trials if name in t.settings]
        if len({repr(value) for value in values}) > 1:
            axes.append(_axis(name, declared.get(name), values))
    return axes


def _axis(name: str, dimension: Any, values: list[Any]) -> Axis:
    """Return the axis of a setting; an undeclared range of more than a factor 20 is logarithmic."""
    declared = dimension if isinstance(dimension, dict) else {}
    if "choice" in declared or not _are_numbers(values):
        distinct: list[Any] = []
        for value in (*declared.get("choice", ()), *values):  # may be lists, so no set
            if value not in distinct:
                distinct.append(value)
        return Axis(name, tuple(sorted(distinct) if _are_numbers(distinct) else distinct))
    ends = declared.get("uniform") or declared.get("integer") or ()
    low, high = min((*ends, *values)), max((*ends, *values))
    log = declared.get("log", False) if ends else high > 20 * low
    return Axis(name, low=low, high=high, log=log and low > 0)


def _are_numbers(values: list[Any]) -> bool:
    return all(is_number(value) and math.isfinite(value) for value in values)


def _label(value: Any) -> str:
    if isinstance(value, float):
        digits = f"{value:.2e}" if 0 < abs(value) < 1e-3 else f"{value:.3g}"
        return re.sub(r"\.?0*e-0?", "e-", digits)
    return str(value) if len(str(value)) <= 14 else f"{str(value)[:13]}…"
