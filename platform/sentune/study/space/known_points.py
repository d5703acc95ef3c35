"""Points that are known before a search: the paper's own, and those that a user wants tried."""

from __future__ import annotations

from collections.abc import Mapping

from sentune.errors import InvalidValue
from sentune.study.space.conditions import Conditions, active, needed
from sentune.study.space.domains import Dimension, Value

_FORM = "write setting=value,setting=value"


def projected(
    values: Mapping[str, Value],
    settings: Mapping[str, Dimension],
    conditions: Conditions,
    fixed: Mapping[str, Value],
) -> tuple[dict[str, Value] | None, str]:
    """Return a known point inside a space, and what had to be changed about it.

    A number outside the narrowed space moves to the nearest one inside; where nothing is near
    (another pooling, say), there is no point. Settings that are not active have no value.
    """
    point: dict[str, Value] = {}
    changed: list[str] = []
    for name, dimension in settings.items():
        if not active(name, point, conditions):
            continue
        if name not in values:
            return None, f"no published value of {name}: the published point is not tried"
        value = values[name]
        try:
            point[name] = value if dimension.contains(value) else dimension.nearest(value)
        except ValueError as error:
            return None, f"the published point is not tried: {name}: {error}"
        if point[name] != value:
            changed.append(f"{name} {value} -> {point[name]}")
    changed += [
        f"{name} {values[name]} -> {value}"
        for name, value in fixed.items()
        if name in values and values[name] != value
    ]
    return point, f"the published point, changed: {', '.join(changed)}" if changed else ""


def parsed(text: str, settings: Mapping[str, Dimension]) -> dict[str, Value]:
    """Return the point that ``key=value,key=value`` stands for.

    Raises:
        InvalidValue: another form, an unknown or doubled setting, or a value outside the space.
    """
    point: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or name in point:
            raise InvalidValue("--try", text, f"{_FORM}, each setting once")
        if name not in settings:
            raise _unknown(name, value, settings)
        try:
            point[name] = settings[name].parse(value)
        except ValueError as error:
            raise InvalidValue(
                f"--try {name}", value, f"{error} (allowed: {settings[name]})"
            ) from None
    return point


def tried_point(
    values: Mapping[str, Value],
    published: Mapping[str, Value],
    settings: Mapping[str, Dimension],
    conditions: Conditions,
) -> dict[str, Value]:
    """A user's point, whole: what it leaves out is as published.

    Raises:
        InvalidValue: a setting that is unknown, not active or missing, or a value that the space
            does not hold; names the setting.
    """
    point: dict[str, Value] = {}
    for name, dimension in settings.items():
        if not active(name, point, conditions):
            continue
        if name not in values and name not in published:
            fix = f"add {name}=VALUE (allowed: {dimension})"
            raise InvalidValue("--try", ",".join(f"{k}={v}" for k, v in values.items()), fix)
        value = values.get(name, published.get(name))
        if not dimension.contains(value):
            raise InvalidValue(f"--try {name}", value, f"the space holds {dimension}")
        point[name] = value
    for name in values:
        if name not in settings:
            raise _unknown(name, values[name], settings)
        if name not in point:
            raise InvalidValue(f"--try {name}", values[name], needed(name, conditions))
    return point


def _unknown(name: str, value: Value, settings: Mapping[str, Dimension]) -> InvalidValue:
    return InvalidValue(f"--try {name}", value, f"what is searched is {', '.join(settings)}")
