"""Search space of a method: searched settings, readouts, objective and known points."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sentune.errors import InvalidValue
from sentune.formatting import is_number
from sentune.readouts.grid import Grid, Readout, grid_of
from sentune.study.space import domains
from sentune.study.space.domains import Choice, Dimension, Integer, Uniform, Value

_KNOWN_POINTS = ("published", "starts", "grids", "tried", "suited", "history")

ENCODERS = {
    "scratch": "an encoder from scratch",
    "small": "a small pretrained encoder",
    "base": "a pretrained encoder of base size",
}
"""Class of encoders -> its description; a space may have a start for each."""

STEPS = 100
"""Fewest steps of a trial at a first point, if the budget and the space's batch sizes allow it."""

ReadoutGrid: TypeAlias = Grid | Mapping[str, Mapping[str, Grid]]

__all__ = ["Choice", "Dimension", "Integer", "SearchSpace", "Uniform", "Value"]


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """Search space of one method.

    Attributes:
        method: name in ``sentune.methods``; empty if the tuned method is a user's own class.
        objective: metric by which trials are compared, ``task/metric``.
        settings: name -> dimension; each draw costs a training run. Settings are ordered after
            those that they depend on.
        conditions: setting -> other setting (a Choice) -> its values under which the first one is
            active. A setting that can never be active is not part of the space.
        readouts: readout -> values to sweep on the trained model, or readout -> setting -> value
            of the setting -> values to sweep; no values if the best is found exactly. A missing
            readout has the method's own grid.
        searched_readouts: readouts that are drawn like settings (``--search-readouts``).
        mode: ``max`` if more of the objective is better, ``min`` if less is.
        published: the paper's best values, tried first if the space contains them.
        starts: class of encoders (``ENCODERS``) -> point to try before the published one; missing
            settings are as published.
        grids: name of a grid of the paper -> setting -> values.
        live: settings that population-based training may change during training.
        fixed: settings with one value.
        narrowed_names: settings that a user has narrowed; named grids respect them.
        tried: points to try before all others.
        suited: class of the encoder (``ENCODERS``, or any other text for none of them) and examples
            of a full trial, to which first points are adapted; None: no start is tried, and the
            published point is not adapted.
        history: name of an earlier study -> its best point, tried after ``tried``.
    """

    method: str = ""
    objective: str
    settings: Mapping[str, Dimension]
    conditions: domains.Conditions = field(default_factory=dict)
    readouts: Mapping[str, ReadoutGrid] = field(default_factory=dict)
    searched_readouts: frozenset[str] = frozenset()
    mode: str = "max"
    published: Mapping[str, Value] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    grids: Mapping[str, Mapping[str, tuple[Value, ...]]] = field(default_factory=dict)
    live: frozenset[str] = frozenset()
    fixed: Mapping[str, Value] = field(default_factory=dict)
    narrowed_names: frozenset[str] = frozenset()
    tried: tuple[Mapping[str, Value], ...] = ()
    suited: tuple[str, int] | None = None
    history: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode not in ("max", "min"):
            raise InvalidValue("mode", self.mode, "give max or min")
        for name, dimension in self.settings.items():
            if not isinstance(dimension, Dimension):
                fix = "give a Choice, Uniform or Integer; for a single value Choice(VALUE)"
                raise InvalidValue(f"settings[{name}]", dimension, fix)
        domains.check_conditions(self.settings, self.fixed, self.conditions)
        settings, conditions = domains.settled(self.settings, self.fixed, self.conditions)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "conditions", conditions)

    def check_names(self, parameters: Collection[str], readouts: Sequence[Readout]) -> None:
        """Check the names in ``published``, ``live``, ``starts`` and ``readouts``.

        Args:
            parameters: all settings of the method and its training.
            readouts: of the method.

        Raises:
            InvalidValue: a name is unknown; names the field and the known names.
        """
        known = sorted({*parameters, *self.settings, *self.fixed})
        points = {f"starts[{kind}]": (point, known) for kind, point in self.starts.items()}
        fields: dict[str, tuple[Collection[str], Sequence[str]]] = {
            "published": (self.published, known),
            "live": (self.live, known),
            "starts": (self.starts, list(ENCODERS)),
            **points,
            "readouts": (self.readouts, [readout.name for readout in readouts]),
        }
        for field_name, (names, allowed) in fields.items():
            for name in sorted(set(names).difference(allowed)):
                fix = f"known names are {', '.join(allowed) or 'none'}"
                raise InvalidValue(f"SearchSpace.{field_name}", name, fix)

    @property
    def size(self) -> int | None:
        """Number of configurations; None if a range is continuous."""
        if any(isinstance(dimension, Uniform) for dimension in self.settings.values()):
            return None
        return self._count(list(self.settings), {})

    def _count(self, names: list[str], point: dict[str, Value]) -> int:
        """Count the configurations of ``names``, enumerating only settings with dependents."""
        if not names:
            return 1
        name, *rest = names
        dimension = self.settings[name]
        if not domains.active(name, point, self.conditions) or isinstance(dimension, Uniform):
            return self._count(rest, point)
        if any(name in asked for asked in self.conditions.values()):
            return sum(self._count(rest, {**point, name: value}) for value in dimension.values)
        return dimension.size * self._count(rest, point)

    def draw(self, suggest: Callable[[str, Dimension], Value]) -> dict[str, Value]:
        """Return a point: a value from ``suggest`` for every active setting."""
        point: dict[str, Value] = {}
        for name, dimension in self.settings.items():
            if domains.active(name, point, self.conditions):
                point[name] = suggest(name, dimension)
        return point

    def with_points(self, points: Sequence[Mapping[str, Value]]) -> SearchSpace:
        """Return the space with points to try first; its own first point fills missing settings.

        Raises:
            InvalidValue: a setting is unknown, inactive or missing, or its value is not in the
                space; names the setting.
        """
        return replace(self, tried=(*self.tried, *map(self._whole, points)))

    def _whole(self, values: Mapping[str, Value]) -> dict[str, Value]:
        known = {**self.published, **self.prior, **values}
        point = self.draw(lambda name, _: known.get(name))
        for name, value in {**point, **values}.items():
            dimension, fix = self.settings.get(name), ""
            if dimension is None:
                fix = self._searched
            elif name not in point:
                fix = domains.needed(name, self.conditions)
            elif name not in known or not dimension.contains(value):
                fix = f"add {name}=VALUE (allowed: {dimension})"
            if fix:
                raise InvalidValue(f"--try-first {name}", value, fix)
        return point

    @property
    def _searched(self) -> str:
        return f"the searched settings are {', '.join(self.settings)}"

    def parse_point(self, text: str) -> dict[str, Value]:
        """Return the point of a text ``key=value,key=value``, as ``--try-first`` takes it.

        Raises:
            InvalidValue: another form, an unknown or repeated setting, or a value outside the
                space.
        """
        point: dict[str, Value] = {}
        for part in text.split(","):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or not name or name in point:
                fix = "write setting=value,setting=value, each setting once"
                raise InvalidValue("--try-first", text, fix)
            if name not in self.settings:
                raise InvalidValue(f"--try-first {name}", value, self._searched)
            try:
                point[name] = self.settings[name].parse(value)
            except ValueError as error:
                allowed = str(self.settings[name])
                fix = str(error) if allowed in str(error) else f"{error} (allowed: {allowed})"
                raise InvalidValue(f"--try-first {name}", value, fix) from None
        return point

    def narrow(
        self,
        wanted: Mapping[str, str],
        others: Collection[str] = (),
        readouts: Sequence[Readout] = (),
        typed: Callable[[str, str], Value] | None = None,
    ) -> SearchSpace:
        """Return the space narrowed by ``--set``.

        Args:
            wanted: setting -> text: ``value`` fixes, ``a,b,c`` chooses, ``low..high`` narrows. For
                a readout the text is its grid, which may be wider than the method's. Where the
                space gives a readout a single value for a setting's value, that one stays.
            others: all settings of the method and its training; those outside the space may be
                fixed, or chosen from values.
            readouts: readouts of the method.
            typed: converts (setting, text) to a value by the method's own settings, also outside
                the space; if None, only values of the space are allowed.

        Raises:
            InvalidValue: an unknown setting, or a value that the method does not take.
        """
        settings, fixed, grids = dict(self.settings), dict(self.fixed), dict(self.readouts)
        own = {readout.name: readout for readout in readouts}
        for name, text in wanted.items():
            if name in own:
                grids[name] = own[name].parse(text)
            elif name in settings:
                own_values = typed if name in others else None
                settings[name] = domains.narrowed(name, settings[name], text, own_values)
            elif name in others and typed is not None:
                values = dict.fromkeys(typed(name, part.strip()) for part in text.split(","))
                settings[name] = Choice(*values)
            elif name in fixed:
                fixed[name] = _number(name, text) if is_number(fixed[name]) else text
            else:
                known = ", ".join(sorted({*self.settings, *self.fixed, *others, *own}))
                raise InvalidValue(f"--set {name}", text, f"the settings are {known}")
        names = self.narrowed_names | set(wanted)
        active_ones, conditions = domains.settled(settings, fixed, self.conditions)
        for name in wanted:
            if name in settings and name not in active_ones:
                fix = domains.needed(name, self.conditions)
                raise InvalidValue(f"--set {name}", wanted[name], fix)
            if name in active_ones and active_ones[name].size == 1 and name not in conditions:
                fixed[name] = active_ones.pop(name).at(0.0)  # a conditional one stays a setting
        for name in wanted.keys() & own.keys():
            grids[name] = _within(self.readouts.get(name, ()), grids[name], active_ones)
        return replace(
            self,
            settings=active_ones,
            conditions=conditions,
            fixed=fixed,
            readouts=grids,
            narrowed_names=names,
        )

    def searching(self, readouts: Sequence[Readout]) -> SearchSpace:
        """Return the space with readouts as settings, each draw of which costs a training run.

        A readout with a grid becomes a ``Choice``, one that is found exactly a ``Uniform``.
        """
        drawn: dict[str, Dimension] = {}
        for readout in readouts:
            grid = grid_of(readout, self.grids_for(self.fixed))
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
        """Split a trial's settings into those of training and the grids of its readouts.

        The grid of a drawn readout is its one value.
        """
        kept = {k: v for k, v in settings.items() if k not in self.searched_readouts}
        drawn = {name: (settings[name],) for name in self.searched_readouts}
        return kept, {**self.grids_for(kept), **drawn}

    def grids_for(self, settings: Mapping[str, Any]) -> dict[str, Grid]:
        """Return the grids of the readouts under these settings; some may be missing."""
        found: dict[str, Grid] = {}
        for name, grid in self.readouts.items():
            if isinstance(grid, tuple):
                found[name] = grid
            else:
                for setting, by_value in grid.items():
                    value: Any = settings.get(setting)
                    key: Any = value if value in by_value else json.dumps(value)  # from_dict's
                    if key in by_value:
                        found[name] = by_value[key]
        return found

    def for_trials(self, encoder: str, examples: int) -> SearchSpace:
        """Return the space with first points adapted to an encoder and a trial's budget."""
        return replace(self, suited=(encoder, examples))

    def first_points(self) -> list[dict[str, Value]]:
        """Return the points to try first, each once, as far as the space contains them.

        These are the points of ``with_points``, of earlier studies, the start of the encoder's
        class and the published one.
        """
        points: list[dict[str, Value]] = []
        for point in (*map(self._nearest, self.tried), *(at for _, _, at in self._own_points())):
            if point and point not in points:
                points.append(point)
        return points

    @property
    def prior(self) -> dict[str, Value]:
        """The space's own first point, around which good settings are expected; may be empty."""
        return next((point for _, _, point in self._own_points() if point is not None), {})

    def first_note(self) -> str:
        """Return a note on the space's own first points and their changes by ``--set`` or a budget.

        It is empty if the only one is the unchanged published point.
        """
        notes = []
        for name, values, point in self._own_points():
            if point is None:
                own = self.settings.items()
                lacks = ", ".join(n for n, d in own if not d.contains(values.get(n)))
                notes.append(f"{name} is not tried: its {lacks} is not in the space")
                continue
            changed = [
                f"{setting} {_shown(values[setting])} -> {_shown(value)}"
                for setting, value in {**point, **self.fixed}.items()
                if setting in values and values[setting] != value
            ]
            notes.append(f"{name}, changed: {', '.join(changed)}" if changed else name)
        return "" if notes == ["the published point"] else "; then ".join(notes)

    def _own_points(self) -> Iterator[tuple[str, Mapping[str, Value], dict[str, Value] | None]]:
        """Yield the name of each own first point, its values and the point adapted to the space.

        The adapted point is None if the space has none near it; each one comes once.
        """
        encoder, examples = self.suited or ("", 0)
        named: dict[str, Mapping[str, Value]]
        named = {f"the best of study {n}": point for n, point in self.history.items()}
        if encoder in self.starts:
            named[f"the start for {ENCODERS[encoder]}"] = {**self.published, **self.starts[encoder]}
        named["the published point"] = self.published
        seen: list[dict[str, Value]] = []
        for name, values in named.items() if self.settings else ():
            point = self._nearest(self._stepped(values, examples))
            if values and point not in seen:
                seen += [point] if point is not None else []
                yield name, values, point

    def _stepped(self, values: Mapping[str, Value], examples: int) -> Mapping[str, Value]:
        """Return a point with a batch small enough for ``STEPS`` steps in so many examples.

        Learning rates shrink with the square root of the batch size, which keeps the noise of
        Adam's steps (Malladi et al. 2022, "On the SDEs and Scaling Rules for Adaptive Gradient
        Algorithms").
        """
        size, sizes = values.get("batch_size"), self.settings.get("batch_size")
        if not examples or not isinstance(sizes, Choice) or not is_number(size):
            return values
        smaller = sorted(own for own in sizes.values if is_number(own) and own < size)
        if examples / size >= STEPS or not smaller:
            return values
        batch = max((own for own in smaller if examples / own >= STEPS), default=smaller[0])
        rates = {n: v for n, v in values.items() if n.endswith("learning_rate") and is_number(v)}
        scaled = {name: rate * (batch / size) ** 0.5 for name, rate in rates.items()}
        return {**values, **scaled, "batch_size": batch}

    def _nearest(self, values: Mapping[str, Value]) -> dict[str, Value] | None:
        """Return a point with its numbers moved into the space.

        None if a setting has no value, or a value that is no number and not in the space.
        """

        def nearest(name: str, dimension: Dimension) -> Value:
            value = values[name]
            return value if dimension.contains(value) else dimension.nearest(value)

        try:
            return self.draw(nearest)
        except (KeyError, ValueError):
            return None

    def on_grid(self, name: str) -> SearchSpace:
        """Return a named grid as a space; settings outside the grid take their published value.

        Raises:
            InvalidValue: there is no such grid, or a setting has no value.
        """
        if name not in self.grids:
            known = ", ".join(f"grid:{own}" for own in sorted(self.grids)) or "none"
            raise InvalidValue("--sampler", f"grid:{name}", f"grids of this space: {known}")
        settings: dict[str, Dimension] = {}
        fixed, grid = dict(self.fixed), self.grids[name]
        for setting, dimension in self.settings.items():
            narrowed = setting in self.narrowed_names
            if setting in grid:
                left = [v for v in grid[setting] if not narrowed or dimension.contains(v)]
                if not left:
                    fix = f"give values of grid:{name}: {', '.join(map(str, grid[setting]))}"
                    raise InvalidValue(f"--set {setting}", str(dimension), fix)
                settings[setting] = Choice(*left)
            elif narrowed and dimension.size is not None:
                settings[setting] = dimension
            elif setting not in self.published:
                fix = f"the grid has no value of {setting}; add --set {setting}=VALUE"
                raise InvalidValue("--sampler", f"grid:{name}", fix)
            elif setting in self.conditions:
                settings[setting] = Choice(self.published[setting])
            else:
                fixed[setting] = self.published[setting]
        settings, conditions = domains.settled(settings, fixed, self.conditions)
        return replace(self, settings=settings, conditions=conditions, fixed=fixed)

    def points(self) -> list[dict[str, Value]]:
        """Return every configuration; the last setting changes fastest.

        Raises:
            InvalidValue: a range is continuous.
        """
        found: list[dict[str, Value]] = [{}]
        for name, dimension in self.settings.items():
            if isinstance(dimension, Uniform):
                fix = f"{name} is a range; choose values with --set {name}=a,b,c or give grid:NAME"
                raise InvalidValue("--sampler", "grid", fix)
            added = [{name: value} for value in dimension.values]
            found = [
                {**point, **new}
                for point in found
                for new in (added if domains.active(name, point, self.conditions) else [{}])
            ]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the space as JSON types for ``from_dict``."""
        content = {name: value for name, value in vars(self).items() if name != "narrowed_names"}

        def as_json(value: Any) -> Any:
            return sorted(value) if isinstance(value, frozenset) else value.to_dict()

        plain: dict[str, Any] = json.loads(json.dumps(content, default=as_json))
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SearchSpace:
        """Return the space that ``to_dict`` wrote."""
        known = {
            **_with_tuples(data),
            "settings": {n: domains.dimension_from_dict(d) for n, d in data["settings"].items()},
            "searched_readouts": frozenset(data["searched_readouts"]),
            "live": frozenset(data.get("live", ())),
        }
        return cls(**known)

    def identity(self) -> dict[str, Any]:
        """Return the part of ``to_dict`` that all starts of a study must share: no known points."""
        return {name: at for name, at in self.to_dict().items() if name not in _KNOWN_POINTS}


def _within(own: ReadoutGrid, grid: ReadoutGrid, searched: Collection[str]) -> ReadoutGrid:
    """Return a user's ``grid`` of a readout; single values that the space's ``own`` one gives for
    ``searched`` settings stay."""
    if isinstance(own, tuple) or not isinstance(grid, tuple) or own.keys().isdisjoint(searched):
        return grid
    kept = {
        setting: {value: g if len(g) == 1 else grid for value, g in by_value.items()}
        for setting, by_value in own.items()
    }
    return kept if any(len(g) == 1 for of in own.values() for g in of.values()) else grid


def _shown(value: Value) -> str:
    """Return a value as text, floats with three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _number(name: str, text: str) -> float:
    try:
        return domains.parse_number(text)
    except ValueError as error:
        raise InvalidValue(f"--set {name}", text, str(error)) from None


def _with_tuples(data: Any) -> Any:
    """Return JSON types with lists replaced by tuples."""
    if isinstance(data, Mapping):
        return {name: _with_tuples(value) for name, value in data.items()}
    return tuple(map(_with_tuples, data)) if isinstance(data, list | tuple) else data
