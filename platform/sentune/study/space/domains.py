"""One searched setting: the values it may take, and how a user's text narrows them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

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
    def size(self) -> int | None:
        """Number of values."""
        return len(self.values)

    def contains(self, value: Value) -> bool:
        """Return whether the value may be taken."""
        return value in self.values

    def parse(self, text: str) -> Value:
        """The value that the text stands for (``5e-05`` is 5e-5); ValueError if there is none."""
        for value in self.values:
            if text == str(value) or _same_number(text, value):
                return value
        raise ValueError(f"give one of {self}")

    def between(self, low: str, high: str) -> Dimension:
        """Return the numbers from ``low`` to ``high``."""
        numbers = [value for value in self.values if _is_number(value)]
        inside = [n for n in numbers if _number(low) <= float(n) <= _number(high)]  # type: ignore[arg-type]
        if not inside:
            raise ValueError(f"none of {self} lies there")
        return Choice(*inside)

    def nearest(self, value: Value) -> Value:
        """Return the number nearest to ``value``; ValueError between things that are no numbers."""
        if not (_is_number(value) and all(_is_number(own) for own in self.values)):
            raise ValueError(f"nothing among {self} is near {value!r}")
        return min(self.values, key=lambda own: abs(float(own) - float(value)))  # type: ignore[arg-type]

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

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.log)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    @property
    def size(self) -> int | None:
        """None: not countable."""
        return None

    def contains(self, value: Value) -> bool:
        """Return whether the value may be taken."""
        return _is_number(value) and self.low <= float(value) <= self.high  # type: ignore[arg-type]

    def parse(self, text: str) -> Value:
        """Return the text as a float inside the range."""
        value = _number(text)
        if not self.contains(value):
            raise ValueError(f"give numbers in {self}")
        return value

    def between(self, low: str, high: str) -> Dimension:
        """Return the part of the range from ``low`` to ``high``."""
        return Uniform(float(self.parse(low)), float(self.parse(high)), self.log)  # type: ignore[arg-type]

    def nearest(self, value: Value) -> Value:
        """Return the end of the range nearest to a number outside it."""
        if not _is_number(value):
            raise ValueError(f"nothing in {self} is near {value!r}")
        return min(max(float(value), self.low), self.high)  # type: ignore[arg-type]

    def at(self, share: float) -> Value:
        """Return the value at a share of the range, of its logarithm where ``log`` is set."""
        if not self.log:
            return self.low + share * (self.high - self.low)
        low, high = math.log(self.low), math.log(self.high)
        return min(max(math.exp(low + share * (high - low)), self.low), self.high)

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
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
    def size(self) -> int | None:
        """Number of values."""
        return (self.high - self.low) // self.step + 1

    def contains(self, value: Value) -> bool:
        """Return whether the value may be taken."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and value in range(self.low, self.high + 1, self.step)

    def parse(self, text: str) -> Value:
        """Return the text as a whole number inside the range."""
        number = _number(text)
        value = int(number) if number == int(number) else number
        if not self.contains(value):
            raise ValueError(f"give whole numbers in {self}")
        return value

    def between(self, low: str, high: str) -> Dimension:
        """Return the part of the range from ``low`` to ``high``."""
        return Integer(int(self.parse(low)), int(self.parse(high)), self.log, self.step)  # type: ignore[arg-type]

    def nearest(self, value: Value) -> Value:
        """Return the allowed whole number nearest to ``value``."""
        if not _is_number(value):
            raise ValueError(f"nothing in {self} is near {value!r}")
        allowed = range(self.low, self.high + 1, self.step)
        place = round((float(value) - self.low) / self.step)  # type: ignore[arg-type]
        return allowed[min(max(place, 0), len(allowed) - 1)]

    def at(self, share: float) -> Value:
        """Return the whole number at a share of the way through them, from 0 to below 1."""
        if self.log:
            return int(float(Uniform(self.low, self.high + 1, log=True).at(share)))  # type: ignore[arg-type]
        return self.low + self.step * int(share * (self.size or 1))

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {"integer": [self.low, self.high], "log": self.log, "step": self.step}


Dimension: TypeAlias = Choice | Uniform | Integer


def dimension_from_dict(data: dict[str, Any]) -> Dimension:
    """Return the dimension that ``to_dict`` wrote."""
    if "choice" in data:
        return Choice(*data["choice"])
    if "uniform" in data:
        low, high = data["uniform"]
        return Uniform(low, high, data["log"])
    first, last = data["integer"]
    return Integer(first, last, data["log"], data["step"])


def narrowed(dimension: Dimension, text: str) -> Dimension | tuple[Value]:
    """Return what ``--set key=TEXT`` makes of a dimension.

    Args:
        dimension: the values allowed so far.
        text: ``value`` fixes, ``a,b,c`` chooses, ``low..high`` narrows.

    Returns:
        A dimension, or the one value that is left, as a tuple of one.

    Raises:
        ValueError: saying what is allowed.
    """
    low, dots, high = text.partition("..")
    if dots:
        left: Dimension = dimension.between(low, high)
    else:
        left = Choice(*dict.fromkeys(dimension.parse(part.strip()) for part in text.split(",")))
    return _settled(left)


def replaced(
    dimension: Dimension, text: str, typed: Callable[[str], Value]
) -> Dimension | tuple[Value]:
    """What ``--set key=TEXT`` puts in place of a dimension that does not hold the text's values.

    Args:
        dimension: the values allowed so far; a range stays logarithmic or not, and in its steps.
        text: ``value`` fixes, ``a,b,c`` chooses, ``low..high`` is a range of numbers.
        typed: the value that a text stands for in the method's own settings.

    Returns:
        As ``narrowed``.

    Raises:
        ValueError: the method takes no such value, or it makes no range.
    """

    def value(part: str) -> Value:
        found = typed(part.strip())
        if isinstance(found, float) and not math.isfinite(found):
            raise ValueError("give a finite number")
        return found

    low, dots, high = text.partition("..")
    if not dots:
        return _settled(Choice(*dict.fromkeys(map(value, text.split(",")))))
    first, last = value(low), value(high)
    if isinstance(dimension, Choice) or not (_is_number(first) and _is_number(last)):
        raise ValueError(f"none of {dimension} lies there; give values, as in a,b,c")
    if isinstance(dimension, Integer):
        return _settled(Integer(int(first), int(last), dimension.log, dimension.step))  # type: ignore[arg-type]
    return _settled(Uniform(float(first), float(last), dimension.log))  # type: ignore[arg-type]


def _settled(left: Dimension) -> Dimension | tuple[Value]:
    return (_only(left),) if left.size == 1 or _is_point(left) else left


def _only(dimension: Dimension) -> Value:
    return dimension.values[0] if isinstance(dimension, Choice) else dimension.low


def _is_point(dimension: Dimension) -> bool:
    return isinstance(dimension, Uniform) and dimension.low == dimension.high


def _is_number(value: Value) -> bool:
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
        return _is_number(value) and float(text) == value
    except ValueError:
        return isinstance(value, bool) and text.lower() == str(value).lower()


def _check_range(low: float, high: float, log: bool) -> None:
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise ValueError(f"{low}..{high} is no range")
    if log and low <= 0:
        raise ValueError(f"{low}..{high}: a logarithmic range starts above 0")
