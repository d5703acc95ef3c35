"""One searched setting: the values it may take, and how a user's text narrows them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeGuard

from sentune.errors import InvalidValue

Value: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, init=False)
class Choice:
    """One of the given values."""

    values: tuple[Value, ...]

    def __init__(self, *values: Value) -> None:
        if not values:
            raise ValueError("a Choice needs at least one value")
        object.__setattr__(self, "values", values)

    def __str__(self) -> str:
        return ", ".join(str(value) for value in self.values)

    @property
    def size(self) -> int:
        """Number of values; a ``Uniform`` has none, its ``size`` is None."""
        return len(self.values)

    def contains(self, value: Value) -> bool:
        """Return whether the value may be taken."""
        return value in self.values

    def parse(self, text: str) -> Value:
        """Return the value that the text stands for (``5e-05``: 5e-5); ValueError if none."""
        for value in self.values:
            if text == str(value) or _same_number(text, value):
                return value
        raise ValueError(f"give one of {self}")

    def between(self, low: str, high: str) -> Dimension:
        """Return what lies from ``low`` to ``high``; ValueError if nothing does."""
        numbers = [value for value in self.values if is_number(value)]
        inside = [n for n in numbers if _number(low) <= float(n) <= _number(high)]
        if not inside:
            raise ValueError(f"none of {self} lies there")
        return Choice(*inside)

    def nearest(self, value: Value) -> Value:
        """Return the allowed number nearest to ``value``; ValueError where one is no number."""
        numbers = [own for own in self.values if is_number(own)]
        if not is_number(value) or len(numbers) < len(self.values):
            raise ValueError(f"nothing among {self} is near {value!r}")
        return min(numbers, key=lambda own: abs(float(own) - float(value)))

    def at(self, share: float) -> Value:
        """Return the value at a share of the way through them, from 0 to below 1."""
        return self.values[int(share * len(self.values))]

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {"choice": list(self.values)}


@dataclass(frozen=True)
class Uniform:
    """A float from ``low`` to ``high``, uniform, or uniform in its logarithm."""

    low: float
    high: float
    log: bool = False
    size: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.log)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    def contains(self, value: Value) -> bool:
        return is_number(value) and self.low <= float(value) <= self.high

    def parse(self, text: str) -> float:
        value = _number(text)
        if not self.contains(value):
            raise ValueError(f"give numbers in {self}")
        return value

    def between(self, low: str, high: str) -> Dimension:
        return Uniform(self.parse(low), self.parse(high), self.log)

    def nearest(self, value: Value) -> Value:
        if not is_number(value):
            raise ValueError(f"nothing in {self} is near {value!r}")
        return min(max(float(value), self.low), self.high)

    def at(self, share: float) -> float:
        """Return the value at a share of the range, of its logarithm where ``log`` is set."""
        if not self.log:
            return self.low + share * (self.high - self.low)
        low, high = math.log(self.low), math.log(self.high)
        return min(max(math.exp(low + share * (high - low)), self.low), self.high)

    def to_dict(self) -> dict[str, Any]:
        return {"uniform": [self.low, self.high], "log": self.log}


@dataclass(frozen=True)
class Integer:
    """A whole number from ``low`` to ``high``, both included."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.log)
        if self.step < 1 or (self.log and self.step != 1):
            raise ValueError(f"step {self.step}: give a positive one, 1 where log is set")

    def __str__(self) -> str:
        by = f" in steps of {self.step}" if self.step > 1 else ""
        return f"{self.low}..{self.high}{by}"

    @property
    def allowed(self) -> range:
        """The numbers, in order."""
        return range(self.low, self.high + 1, self.step)

    @property
    def size(self) -> int:
        return len(self.allowed)

    def contains(self, value: Value) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value in self.allowed

    def parse(self, text: str) -> int:
        value = _number(text)
        if value != int(value) or int(value) not in self.allowed:
            raise ValueError(f"give whole numbers in {self}")
        return int(value)

    def between(self, low: str, high: str) -> Dimension:
        return Integer(self.parse(low), self.parse(high), self.log, self.step)

    def nearest(self, value: Value) -> Value:
        if not is_number(value):
            raise ValueError(f"nothing in {self} is near {value!r}")
        place = round((float(value) - self.low) / self.step)
        return self.allowed[min(max(place, 0), len(self.allowed) - 1)]

    def at(self, share: float) -> Value:
        if self.log:
            return int(Uniform(self.low, self.high + 1, log=True).at(share))
        return self.low + self.step * int(share * len(self.allowed))

    def to_dict(self) -> dict[str, Any]:
        return {"integer": [self.low, self.high], "log": self.log, "step": self.step}


Dimension: TypeAlias = Choice | Uniform | Integer
"""They have the same methods; what is not said of one is as ``Choice`` says it."""


def dimension_from_dict(data: dict[str, Any]) -> Dimension:
    """Return the dimension that ``to_dict`` wrote."""
    if "choice" in data:
        return Choice(*data["choice"])
    if "uniform" in data:
        low, high = data["uniform"]
        return Uniform(low, high, data["log"])
    first, last = data["integer"]
    return Integer(first, last, data["log"], data["step"])


def narrowed(
    name: str, dimension: Dimension, text: str, typed: Callable[[str, str], Value] | None = None
) -> Dimension:
    """Return what ``--set NAME=TEXT`` makes of a dimension.

    Args:
        name: of the setting.
        dimension: the values allowed so far.
        text: ``value`` fixes, ``a,b,c`` chooses, ``low..high`` narrows.
        typed: (setting, text) -> value of the method's own settings, which takes the place of
            values that the dimension does not hold; None: those are all there are.

    Raises:
        InvalidValue: says what is allowed.
    """
    low, dots, high = text.partition("..")
    try:
        if dots:
            left = dimension.between(low, high)
        else:
            left = Choice(*dict.fromkeys(dimension.parse(part.strip()) for part in text.split(",")))
    except ValueError as error:
        if typed is None:
            fix = f"{error} (allowed: {dimension})"
            raise InvalidValue(f"--set {name}", text, fix) from None
        try:
            left = _replaced(name, dimension, text, typed)
        except ValueError as refusal:
            fix = refusal.fix if isinstance(refusal, InvalidValue) else str(refusal)
            raise InvalidValue(f"--set {name}", text, fix) from None
    single = left.size == 1 or (isinstance(left, Uniform) and left.low == left.high)
    return Choice(left.at(0.0)) if single else left


def _replaced(
    name: str, dimension: Dimension, text: str, typed: Callable[[str, str], Value]
) -> Dimension:
    """Return what a text makes of the method's own values; a range stays logarithmic or not.

    Raises:
        ValueError: the method takes no such value, or it makes no range.
    """

    def value(part: str) -> Value:
        found = typed(name, part.strip())
        if isinstance(found, float) and not math.isfinite(found):
            raise ValueError("give a finite number")
        return found

    low, dots, high = text.partition("..")
    if not dots:
        return Choice(*dict.fromkeys(map(value, text.split(","))))
    first, last = value(low), value(high)
    if isinstance(dimension, Choice) or not (is_number(first) and is_number(last)):
        raise ValueError(f"none of {dimension} lies there; give values, as in a,b,c")
    if isinstance(dimension, Integer):
        return Integer(int(first), int(last), dimension.log, dimension.step)
    return Uniform(float(first), float(last), dimension.log)


def is_number(value: Value) -> TypeGuard[int | float]:
    """Return whether the value is a number; ``True`` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> float:
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


def _check_range(low: float, high: float, log: bool) -> None:
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise ValueError(f"{low}..{high} is no range")
    if log and low <= 0:
        raise ValueError(f"{low}..{high}: a logarithmic range starts above 0")
