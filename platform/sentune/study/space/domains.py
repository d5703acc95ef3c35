"""Dimensions of a search space: their values, narrowing by a user's text, and conditions.

A conditional setting is active only if another one has certain values. The number of coupling
layers means nothing to a linear decoder: without it such a trial is one configuration, not four.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar, Self, TypeAlias

from sentune.errors import InvalidValue
from sentune.formatting import is_number

Value: TypeAlias = str | int | float | bool | None


def python_number(value: Any) -> Any:
    """Return a scalar of numpy or torch as a Python number, anything else unchanged."""
    return value.item() if getattr(value, "shape", None) == () else value


@dataclass(frozen=True, init=False)
class Choice:
    """One of the given values."""

    values: tuple[Value, ...]

    def __init__(self, *values: Value) -> None:
        if not values:
            raise ValueError("a Choice needs at least one value")
        found = tuple(map(python_number, values))
        for value in found:
            if not (value is None or isinstance(value, str | int | float)):
                raise ValueError(
                    f"a Choice takes texts, numbers, booleans or None, not {value!r}; write values "
                    "without a list, as in Choice(32, 64)"
                )
        object.__setattr__(self, "values", found)

    def __str__(self) -> str:
        return ", ".join(str(value) for value in self.values)

    @property
    def size(self) -> int:
        """Number of values; None for a ``Uniform``."""
        return len(self.values)

    def contains(self, value: Value) -> bool:
        """Return whether the dimension has this value."""
        return value in self.values

    def parse(self, text: str) -> Value:
        """Return the value that a text (``5e-05``) stands for; ValueError if there is none."""
        for value in self.values:
            if text == str(value) or _same_number(text, value):
                return value
        raise ValueError(f"give one of {self}")

    def between(self, low: float, high: float) -> Choice:
        """Return the numbers from ``low`` to ``high``; ValueError if there are none."""
        inside = [own for own in self.values if is_number(own) and low <= own <= high]
        if not inside:
            raise ValueError(f"none of {self} is in that range; give values, as in a,b,c")
        return Choice(*inside)

    def nearest(self, value: Value) -> Value:
        """Return the number nearest to ``value``; ValueError if not all of them are numbers."""
        numbers = [own for own in self.values if is_number(own)]
        if not is_number(value) or len(numbers) < len(self.values):
            raise ValueError(f"{value!r} has no nearest value among {self}")
        return min(numbers, key=lambda own: abs(own - value))

    def at(self, share: float) -> Value:
        """Return the value at a share of the dimension, from 0 to below 1."""
        return self.values[int(share * len(self.values))]

    def to_dict(self) -> dict[str, Any]:
        """Return the dimension as JSON types."""
        return {"choice": list(self.values)}


@dataclass(frozen=True)
class _Range:
    """Numbers from ``low`` to ``high``, both included."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        low, high = python_number(self.low), python_number(self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if not (math.isfinite(low) and math.isfinite(high)) or low > high:
            raise ValueError(
                f"{low}..{high} is not a range: give finite numbers, the smaller first"
            )
        if self.log and low <= 0:
            raise ValueError(f"{low}..{high}: a logarithmic range starts above 0")

    def between(self, low: float, high: float) -> Self:
        """Return this dimension from ``low`` to ``high``, which may be wider."""
        return replace(self, low=low, high=high)

    def _near(self, value: Value) -> float:
        if not is_number(value):
            raise ValueError(f"{value!r} is not a number; give one in {self}")
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Uniform(_Range):
    """A float from ``low`` to ``high``, uniform, or uniform in its logarithm."""

    size: ClassVar[None] = None

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    def contains(self, value: Value) -> bool:
        return is_number(value) and self.low <= value <= self.high

    def parse(self, text: str) -> float:
        value = parse_number(text)
        if not self.contains(value):
            raise ValueError(f"give numbers in {self}")
        return value

    def nearest(self, value: Value) -> Value:
        return float(self._near(value))

    def at(self, share: float) -> float:
        """Return the value at a share of the range, or of its logarithm if ``log`` is set."""
        if not self.log:
            return self.low + share * (self.high - self.low)
        low, high = math.log(self.low), math.log(self.high)
        return min(max(math.exp(low + share * (high - low)), self.low), self.high)

    def to_dict(self) -> dict[str, Any]:
        return {"uniform": [self.low, self.high], "log": self.log}


@dataclass(frozen=True)
class Integer(_Range):
    """A whole number from ``low`` to ``high``, both included."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if int(self.low) != self.low or int(self.high) != self.high:
            raise ValueError(f"{self.low}..{self.high}: give whole numbers")
        object.__setattr__(self, "low", int(self.low))
        object.__setattr__(self, "high", int(self.high))
        if self.step < 1 or (self.log and self.step != 1):
            raise ValueError(f"step {self.step}: give a positive step, and 1 if log is set")

    def __str__(self) -> str:
        by = f" in steps of {self.step}" if self.step > 1 else ""
        return f"{self.low}..{self.high}{by}"

    @property
    def values(self) -> range:
        """The numbers, in order."""
        return range(self.low, self.high + 1, self.step)

    @property
    def size(self) -> int:
        return len(self.values)

    def contains(self, value: Value) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value in self.values

    def parse(self, text: str) -> int:
        value = parse_number(text)
        if value != int(value) or int(value) not in self.values:
            raise ValueError(f"give whole numbers in {self}")
        return int(value)

    def nearest(self, value: Value) -> Value:
        place = round((self._near(value) - self.low) / self.step)
        return self.values[min(place, len(self.values) - 1)]

    def at(self, share: float) -> Value:
        if self.log:
            return int(Uniform(self.low, self.high + 1, log=True).at(share))
        return self.low + self.step * int(share * len(self.values))

    def to_dict(self) -> dict[str, Any]:
        return {"integer": [self.low, self.high], "log": self.log, "step": self.step}


Dimension: TypeAlias = Choice | Uniform | Integer
"""A dimension of a search space. All have the methods of ``Choice``."""


def dimension_from_dict(data: dict[str, Any]) -> Dimension:
    """Return the dimension that ``to_dict`` wrote."""
    if "choice" in data:
        return Choice(*data["choice"])
    if "uniform" in data:
        low, high = data["uniform"]
        return Uniform(low, high, data["log"])
    low, high = data["integer"]
    return Integer(low, high, data["log"], data["step"])


def narrowed(
    name: str, dimension: Dimension, text: str, typed: Callable[[str, str], Value] | None = None
) -> Dimension:
    """Return a dimension narrowed by ``--set NAME=TEXT``.

    Args:
        text: ``value`` fixes, ``a,b,c`` chooses, ``low..high`` narrows.
        typed: converts (setting, text) to a value by the method's own settings, for values outside
            the dimension; if None, only values of the dimension are allowed.

    Raises:
        InvalidValue: the text has another form or a value that is not allowed; names the allowed.
    """

    def value(part: str) -> Value:
        try:
            return dimension.parse(part.strip())
        except ValueError:
            if typed is None:
                raise
        found = typed(name, part.strip())
        if isinstance(found, float) and not math.isfinite(found):
            raise ValueError("give a finite number")
        return found

    low, dots, high = text.partition("..")
    left: Dimension
    try:
        if not dots:
            left = Choice(*dict.fromkeys(map(value, text.split(","))))
        elif isinstance(dimension, Choice):
            left = dimension.between(parse_number(low), parse_number(high))
        else:
            first, last = value(low), value(high)
            if not (is_number(first) and is_number(last)):
                raise ValueError("give numbers, as in 1..4")
            left = dimension.between(first, last)
    except ValueError as error:
        fix = error.fix if isinstance(error, InvalidValue) else str(error)
        allowed = f" (allowed: {dimension})" if typed is None else ""
        raise InvalidValue(f"--set {name}", text, f"{fix}{allowed}") from None
    single = left.size == 1 or (isinstance(left, Uniform) and left.low == left.high)
    return Choice(left.at(0.0)) if single else left


def parse_number(text: str) -> float:
    """Return a text as a finite number; ValueError if it is none."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError("give a number") from None
    if not math.isfinite(number):
        raise ValueError("give a finite number")
    return number


def _same_number(text: str, value: Value) -> bool:
    try:
        return is_number(value) and float(text) == value
    except ValueError:
        return isinstance(value, bool) and text.lower() == str(value).lower()


Conditions: TypeAlias = Mapping[str, Mapping[str, tuple[Value, ...]]]
"""Setting -> other setting -> values of the other under which the setting is active."""


def check_conditions(
    settings: Mapping[str, Dimension], fixed: Mapping[str, Value], conditions: Conditions
) -> None:
    """Check that every condition refers to values of a Choice of the same space.

    Raises:
        InvalidValue: names the conditional setting and its condition.
    """
    for name, asked in conditions.items():
        for other, values in asked.items():
            if not isinstance(values, tuple | list):
                fix = f"give the values of {other} in a tuple, as in ({values!r},)"
                raise InvalidValue(name, {other: values}, fix)
            dimension = settings.get(other)
            known = dimension.values if isinstance(dimension, Choice) and other != name else ()
            if name not in settings or not (other in fixed or set(values) <= set(known)):
                choices = ", ".join(
                    f"{n} ({d})" for n, d in settings.items() if isinstance(d, Choice)
                )
                fix = f"a searched setting may depend on values of another one: {choices or 'none'}"
                raise InvalidValue(name, {other: values}, fix)


def settled(
    settings: Mapping[str, Dimension], fixed: Mapping[str, Value], conditions: Conditions
) -> tuple[dict[str, Dimension], dict[str, Mapping[str, tuple[Value, ...]]]]:
    """Return the settings that can be active, each after those it depends on, and the conditions.

    Conditions that always hold, and settings whose conditions can never hold, are left out.

    Raises:
        InvalidValue: settings depend on each other in a circle.
    """
    kept: dict[str, Dimension] = {}
    open_ones: dict[str, Mapping[str, tuple[Value, ...]]] = {}
    for name in _ordered(settings, conditions):
        left: dict[str, tuple[Value, ...]] = {}
        for other, values in conditions.get(name, {}).items():
            dimension = Choice(fixed[other]) if other in fixed else kept.get(other)
            own = dimension.values if isinstance(dimension, Choice) else ()
            if other in open_ones or not own or not set(own) <= set(values):
                left[other] = tuple(value for value in values if value in own)
        if all(left.values()):
            kept[name] = settings[name]
            if left:
                open_ones[name] = left
    return kept, open_ones


def active(name: str, point: Mapping[str, Value], conditions: Conditions) -> bool:
    """Return whether a setting is active, given the settings drawn before it."""
    asked = conditions.get(name, {})
    return all(other in point and point[other] in values for other, values in asked.items())


def needed(name: str, conditions: Conditions) -> str:
    """Return the condition of a setting as a clause for an error message."""
    asked = [f"{k} {' or '.join(str(v) for v in vs)}" for k, vs in conditions[name].items()]
    return f"{name} is for {' and '.join(asked)}"


def _ordered(settings: Mapping[str, Dimension], conditions: Conditions) -> list[str]:
    """Return the settings in an order with each one after those it depends on."""
    needs = {name: [n for n in conditions.get(name, ()) if n in settings] for name in settings}
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        names: list[str] = error.args[1]
        fix = "these settings depend on each other in a circle"
        raise InvalidValue(names[0], ", ".join(names), fix) from None
