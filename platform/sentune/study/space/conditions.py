"""Settings that exist only where another one has certain values, such as the number of coupling
layers: a trial with a linear decoder is one configuration, not four."""

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
    """Check that conditions are on values of a Choice of the same space.

    Raises:
        InvalidValue: names the setting that depends, and what it depends on.
    """
    for name, asked in conditions.items():
        for other, values in asked.items():
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
    """Return what can still be active, every setting after those it depends on, and conditions.

    A condition that always holds is none; a setting whose condition can never hold is left out.

    Raises:
        InvalidValue: settings that depend on each other in a circle.
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
            fix = "these settings depend on each other in a circle"
            raise InvalidValue(waiting[0], ", ".join(waiting), fix)
        order.append(ready[0])
        waiting.remove(ready[0])
    return order
