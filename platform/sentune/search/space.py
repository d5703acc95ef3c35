"""What a study searches: settings that training depends on, readouts, objective, known points."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from sentune.errors import InvalidValue
from sentune.readouts.grid import Grid, Readout, grid_of
from sentune.search.dimensions import (
    Choice,
    Dimension,
    Integer,
    Uniform,
    Value,
    dimension_from_dict,
    narrowed,
)

_KNOWN_POINTS = ("published", "starts", "grids")

__all__ = ["Choice", "Dimension", "Integer", "SearchSpace", "Uniform", "Value"]


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """One method's search.

    Attributes:
        method: name in ``sentune.methods.REGISTRY``.
        objective: metric by which trials are compared, ``task/metric``.
        settings: name -> values that may be taken; a training run is paid for each draw.
        readouts: what is swept on the trained model instead, where the grid differs from the
            method's own: name -> values; none: found exactly.
        searched_readouts: readouts that are drawn like settings (``--search-readouts``).
        mode: whether more (``max``) or less (``min``) of the objective is better.
        published: the paper's own best values, the first trial where the space still holds them.
        starts: more points to try first, by the encoder that they suit (``builtin:tiny``); what
            they leave out is as published.
        grids: the paper's own grids by name, setting -> values.
        fixed: settings with one value.
        narrowed_names: settings that a user has narrowed; a named grid keeps to them.
    """

    method: str
    objective: str
    settings: Mapping[str, Dimension]
    readouts: Mapping[str, Grid] = field(default_factory=dict)
    searched_readouts: frozenset[str] = frozenset()
    mode: str = "max"
    published: Mapping[str, Value] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    grids: Mapping[str, Mapping[str, tuple[Value, ...]]] = field(default_factory=dict)
    fixed: Mapping[str, Value] = field(default_factory=dict)
    narrowed_names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.mode not in ("max", "min"):
            raise InvalidValue("mode", self.mode, "give max or min")

    @property
    def size(self) -> int | None:
        """Number of configurations, None where a range is continuous."""
        sizes = [dimension.size for dimension in self.settings.values()]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    def narrow(
        self,
        wanted: Mapping[str, str],
        others: Collection[str] = (),
        readouts: Sequence[Readout] = (),
    ) -> SearchSpace:
        """The space that ``--set`` leaves.

        Args:
            wanted: setting -> text: ``value`` fixes, ``a,b,c`` chooses, ``low..high`` narrows. For
                a readout the text is its grid, which may be wider than the method's.
            others: settings outside the space that may be fixed; whoever builds the trial checks
                their values.
            readouts: of the method.

        Raises:
            InvalidValue: an unknown setting, or a value that the space does not hold.
        """
        settings, fixed, grids = dict(self.settings), dict(self.fixed), dict(self.readouts)
        own = {readout.name: readout for readout in readouts}
        for name, text in wanted.items():
            if name in own:
                grids[name] = own[name].parse(text)
            elif name in settings:
                left = _narrow_one(name, settings[name], text)
                if isinstance(left, tuple):
                    del settings[name]
                    (fixed[name],) = left
                else:
                    settings[name] = left
            elif name in others or name in fixed:
                fixed[name] = yaml_scalar(text)
            else:
                known = ", ".join(sorted({*self.settings, *self.fixed, *others, *own}))
                raise InvalidValue(f"--set {name}", text, f"the settings are {known}")
        names = self.narrowed_names | set(wanted)
        return replace(self, settings=settings, fixed=fixed, readouts=grids, narrowed_names=names)

    def searching(self, readouts: Sequence[Readout]) -> SearchSpace:
        """With the readouts as ordinary dimensions: each draw of them costs a training run.

        What a sweep finds exactly becomes a range, a grid a choice.
        """
        drawn: dict[str, Dimension] = {}
        for readout in readouts:
            grid = grid_of(readout, self.readouts)
            if grid:
                drawn[readout.name] = Choice(*grid)
            elif readout.low is not None and readout.high is not None:
                drawn[readout.name] = Uniform(readout.low, readout.high)
        return replace(
            self,
            settings={**self.settings, **drawn},
            readouts={name: self.readouts[name] for name in self.readouts if name not in drawn},
            searched_readouts=frozenset(drawn),
        )

    def apart(self, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Grid]]:
        """A trial's settings without drawn readouts, and the grids that differ from the method's.

        A drawn readout's grid is its one value.
        """
        kept = {k: v for k, v in settings.items() if k not in self.searched_readouts}
        drawn = {name: (settings[name],) for name in self.searched_readouts}
        return kept, {**self.readouts, **drawn}

    def for_encoder(self, encoder: str) -> SearchSpace:
        """With the starts that suit an encoder, and no others."""
        suiting = {name: point for name, point in self.starts.items() if encoder.startswith(name)}
        return replace(self, starts=suiting)

    def first_points(self) -> list[dict[str, Value]]:
        """The published values and the starts, as far as the space holds them, without doubles."""
        if not self.settings:
            return []
        known = [self.published, *({**self.published, **start} for start in self.starts.values())]
        points: list[dict[str, Value]] = []
        for values in known:
            point, _ = self._projected(values)
            if point is not None and point not in points:
                points.append(point)
        return points

    def published_note(self) -> str:
        """What a narrowed space changes about the published point; empty if nothing."""
        return self._projected(self.published)[1] if self.published and self.settings else ""

    def _projected(self, values: Mapping[str, Value]) -> tuple[dict[str, Value] | None, str]:
        """A known point inside this space, and what had to be changed about it.

        A number outside the narrowed space moves to the nearest one inside; where nothing is near
        (another pooling, say), there is no point.
        """
        point: dict[str, Value] = {}
        changed: list[str] = []
        for name, dimension in self.settings.items():
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
            for name, value in self.fixed.items()
            if name in values and values[name] != value
        ]
        return point, f"the published point, changed: {', '.join(changed)}" if changed else ""

    def on_grid(self, name: str) -> SearchSpace:
        """A named grid as a space; settings that it leaves out take their published value.

        Raises:
            InvalidValue: no such grid, or a setting without any value.
        """
        if name not in self.grids:
            known = ", ".join(f"grid:{own}" for own in sorted(self.grids)) or "none has a name"
            raise InvalidValue("--sampler", f"grid:{name}", f"grids of this space: {known}")
        settings: dict[str, Dimension] = {}
        fixed = dict(self.fixed)
        for setting, dimension in self.settings.items():
            if setting in self.grids[name]:
                settings[setting] = self._grid_axis(name, setting, dimension)
            elif setting in self.narrowed_names and dimension.size is not None:
                settings[setting] = dimension
            elif setting in self.published:
                fixed[setting] = self.published[setting]
            else:
                fix = f"the grid says nothing of {setting}; add --set {setting}=VALUE"
                raise InvalidValue("--sampler", f"grid:{name}", fix)
        return replace(self, settings=settings, fixed=fixed)

    def _grid_axis(self, grid: str, setting: str, dimension: Dimension) -> Choice:
        values = self.grids[grid][setting]
        if setting in self.narrowed_names:
            values = tuple(value for value in values if dimension.contains(value))
        if not values:
            fix = f"grid:{grid} has {self.grids[grid][setting]} there"
            raise InvalidValue(f"--set {setting}", str(dimension), fix)
        return Choice(*values)

    def points(self) -> Iterator[dict[str, Value]]:
        """Every configuration, the last setting changing fastest.

        Raises:
            InvalidValue: a range is continuous.
        """
        axes: list[tuple[Value, ...]] = []
        for name, dimension in self.settings.items():
            if isinstance(dimension, Uniform):
                fix = f"{name} is a range; choose values with --set {name}=a,b,c or give grid:NAME"
                raise InvalidValue("--sampler", "grid", fix)
            if isinstance(dimension, Integer):
                axes.append(tuple(range(dimension.low, dimension.high + 1, dimension.step)))
            else:
                axes.append(dimension.values)
        for values in itertools.product(*axes):
            yield dict(zip(self.settings, values, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """As JSON types, complete: ``from_dict`` makes the same space."""
        return {
            "method": self.method,
            "objective": self.objective,
            "mode": self.mode,
            "settings": {name: d.to_dict() for name, d in self.settings.items()},
            "fixed": dict(self.fixed),
            "readouts": _plain(self.readouts),
            "searched_readouts": sorted(self.searched_readouts),
            "published": dict(self.published),
            "starts": _plain(self.starts),
            "grids": _plain(self.grids),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SearchSpace:
        """The space that ``to_dict`` wrote."""
        settings = {name: dimension_from_dict(d) for name, d in data["settings"].items()}
        grids = {
            name: {setting: tuple(values) for setting, values in grid.items()}
            for name, grid in data["grids"].items()
        }
        readouts = {name: tuple(grid) for name, grid in data["readouts"].items()}
        searched = frozenset(data["searched_readouts"])
        return cls(
            **{
                **data,
                "settings": settings,
                "grids": grids,
                "readouts": readouts,
                "searched_readouts": searched,
            }
        )

    def identity(self) -> dict[str, Any]:
        """What two studies must share to be one; points to try first do not belong to it."""
        shown = self.to_dict()
        return {name: shown[name] for name in shown if name not in _KNOWN_POINTS}

    def fingerprint(self) -> str:
        """Hash of the identity."""
        text = json.dumps(self.identity(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def yaml_scalar(text: str) -> Value:
    """``2`` -> 2, ``1e-4`` -> 0.0001, ``true`` -> True, ``null`` -> None, else the text."""
    try:
        return float(text) if "e" in text.lower() else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return text


def _narrow_one(name: str, dimension: Dimension, text: str) -> Dimension | tuple[Value]:
    try:
        return narrowed(dimension, text)
    except ValueError as error:
        raise InvalidValue(f"--set {name}", text, f"{error} (allowed: {dimension})") from None


def _plain(data: Any) -> Any:
    return json.loads(json.dumps(data))
