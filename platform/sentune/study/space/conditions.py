"""Settings that exist only where another one has certain values.

The number of coupling layers means nothing to a linear decoder: a trial without them is one
configuration, not four.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from sentune.errors import InvalidValue
from sentune.study.space.domains import Choice, Dimension, Value

Conditions: TypeAlias = Mapping[str, Mapping[str, tuple[Value, ...]]]
"""Setting -> another one -> the values of it under which the setting is active."""


def check(
    settings: Mapping[str, Dimension], fixed: Mapping[str, Value], conditions: Conditions
) -> None:
    """Whether every condition is one on a Choice of the same space and on values that it has.

    Raises:
        InvalidValue: naming the setting that depends, or the one that is depended upon.
    """
    for name, asked in conditions.items():
        if name not in settings:
            raise InvalidValue(name, dict(asked), "a condition is for a setting that is searched")
        for other, values in asked.items():
            if other not in fixed:
                _check_values(name, other, values, settings)


def _check_values(
    name: str, other: str, values: tuple[Value, ...], settings: Mapping[str, Dimension]
) -> None:
    dimension = settings.get(other)
    if not isinstance(dimension, Choice) or other == name:
        known = [n for n, d in settings.items() if isinstance(d, Choice) and n != name]
        fix = f"{name} may depend on {' or '.join(known) or 'nothing here'}, not on {other}"
        raise InvalidValue(name, {other: values}, fix)
    strange = [value for value in values if not dimension.contains(value)]
    if strange:
        fix = f"{name} depends on {other}, which has {dimension}"
        raise InvalidValue(name, {other: strange[0]}, fix)


def settled(
    settings: Mapping[str, Dimension], fixed: Mapping[str, Value], conditions: Conditions
) -> tuple[dict[str, Dimension], dict[str, Mapping[str, tuple[Value, ...]]]]:
    """What can still be active, every setting after those it depends on, and open conditions.

    A condition that always holds is none; a setting whose condition can never hold is left out.

    Raises:
        InvalidValue: settings that depend on each other in a circle.
    """
    kept: dict[str, Dimension] = {}
    open_ones: dict[str, Mapping[str, tuple[Value, ...]]] = {}
    for name in _ordered(settings, conditions):
        asked = conditions.get(name, {})
        left = {
            other: values
            for other, values in asked.items()
            if other in open_ones or not _always(other, values, kept, fixed)
        }
        if all(_ever(other, values, kept) for other, values in left.items()):
            kept[name] = settings[name]
            if left:
                open_ones[name] = {other: _held(left[other], kept[other]) for other in left}
    return kept, open_ones


def _held(values: tuple[Value, ...], dimension: Dimension) -> tuple[Value, ...]:
    return tuple(value for value in values if dimension.contains(value))


def active(name: str, point: Mapping[str, Value], conditions: Conditions) -> bool:
    """Return whether a setting is active beside what has been drawn before it."""
    asked = conditions.get(name, {})
    return all(other in point and point[other] in values for other, values in asked.items())


def needed(name: str, conditions: Conditions) -> str:
    """Return what a setting is for, for an error's end."""
    asked = [f"{k} {' or '.join(str(v) for v in vs)}" for k, vs in conditions[name].items()]
    return f"{name} is for {' and '.join(asked)}"


def _ordered(settings: Mapping[str, Dimension], conditions: Conditions) -> list[str]:
    order: list[str] = []
    waiting = list(settings)
    while waiting:
        ready = [n for n in waiting if not any(other in waiting for other in conditions.get(n, {}))]
        if not ready:
            circle = ", ".join(waiting)
            raise InvalidValue(
                waiting[0], circle, "these settings depend on each other in a circle"
            )
        order.append(ready[0])
        waiting.remove(ready[0])
    return order


def _always(
    other: str, values: tuple[Value, ...], kept: Mapping[str, Dimension], fixed: Mapping[str, Value]
) -> bool:
    if other in fixed:
        return fixed[other] in values
    dimension = kept.get(other)
    return isinstance(dimension, Choice) and all(own in values for own in dimension.values)


def _ever(other: str, values: tuple[Value, ...], kept: Mapping[str, Dimension]) -> bool:
    dimension = kept.get(other)
    return isinstance(dimension, Choice) and any(own in values for own in dimension.values)
