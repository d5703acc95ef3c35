"""Search spaces: settings that training depends on, readouts, objective, known points."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sentune.errors import InvalidValue
from sentune.formatting import is_number
from sentune.readouts.grid import Grid, Readout, grid_of
from sentune.study.space.domains import (
    Choice,
    Conditions,
    Dimension,
    Integer,
    Uniform,
    Value,
    active,
    check_conditions,
    dimension_from_dict,
    narrowed,
    needed,
    parse_number,
    settled,
)

_KNOWN_POINTS = ("published", "starts", "grids", "tried", "suited", "history")

ENCODERS = {
    "scratch": "an encoder from scratch",
    "small": "a small pretrained encoder",
    "base": "a pretrained encoder of base size",
}
"""Classes of encoders, of which a space may have a start each."""

STEPS = 100
"""Fewest steps of a trial at a first point, where the budget and the space's batch sizes allow."""

ReadoutGrid: TypeAlias = Grid | Mapping[str, Mapping[str, Grid]]

__all__ = ["Choice", "Dimension", "Integer", "SearchSpace", "Uniform", "Value"]


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """One method's search.

    Attributes:
        method: name in ``sentune.methods``; empty: the one that is tuned, of a user's own class.
        objective: metric by which trials are compared, ``task/metric``.
        settings: name -> values that may be taken; a training run is paid for each draw. They
            stand after those that they depend on.
        conditions: setting -> another one, a Choice -> its values under which the first one is
            active. Where that can never be, the setting is not part of the space.
        readouts: what is swept on the trained model instead: name -> values, or a setting -> its
            value -> values; none: found exactly. One that is missing has the method's own grid.
        searched_readouts: readouts that are drawn like settings (``--search-readouts``).
        mode: whether more (``max``) or less (``min``) of the objective is better.
        published: the paper's own best values, tried first where the space still holds them.
        starts: a point to try before, by the class of encoder that it suits (``ENCODERS``); what
            it leaves out is as published.
        grids: the paper's own grids by name, setting -> values.
        live: settings that may change while a model is trained; population-based training does.
        fixed: settings with one value.
        narrowed_names: settings that a user has narrowed; a named grid keeps to them.
        tried: points to try before all others.
        suited: class of the encoder and examples of a trial that the first points suit; None: no
            start is tried, and the published point is as it is.
        history: points to try after those of ``tried``, by the study that found them best.
    """

    method: str = ""
    objective: str
    settings: Mapping[str, Dimension]
    conditions: Conditions = field(default_factory=dict)
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
                fix = "give a Choice, Uniform or Integer, of one value Choice(VALUE)"
                raise InvalidValue(f"settings[{name}]", dimension, fix)
        check_conditions(self.settings, self.fixed, self.conditions)
        settings, conditions = settled(self.settings, self.fixed, self.conditions)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "conditions", conditions)

    @property
    def size(self) -> int | None:
        """Number of configurations, None where a range is continuous."""
        if any(isinstance(dimension, Uniform) for dimension in self.settings.values()):
            return None
        return self._count(list(self.settings), {})

    def _count(self, names: list[str], point: dict[str, Value]) -> int:
        """Count from a setting on; only what others depend on is walked value by value."""
        if not names:
            return 1
        name, *rest = names
        dimension = self.settings[name]
        if not active(name, point, self.conditions) or isinstance(dimension, Uniform):
            return self._count(rest, point)
        if any(name in asked for asked in self.conditions.values()):
            return sum(self._count(rest, {**point, name: value}) for value in dimension.values)
        return dimension.size * self._count(rest, point)

    def draw(self, suggest: Callable[[str, Dimension], Value]) -> dict[str, Value]:
        """Return a value of every active setting, each after those that it depends on."""
        point: dict[str, Value] = {}
        for name, dimension in self.settings.items():
            if active(name, point, self.conditions):
                point[name] = suggest(name, dimension)
        return point

    def with_points(self, points: Sequence[Mapping[str, Value]]) -> SearchSpace:
        """Return the space with points to try before its own first one, which fills their gaps.

        Raises:
            InvalidValue: a setting that is unknown, not active or missing, or a value that the
                space does not hold; names the setting.
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
                fix = needed(name, self.conditions)
            elif name not in known or not dimension.contains(value):
                fix = f"add {name}=VALUE (allowed: {dimension})"
            if fix:
                raise InvalidValue(f"--try-first {name}", value, fix)
        return point

    @property
    def _searched(self) -> str:
        return f"what is searched is {', '.join(self.settings)}"

    def parse_point(self, text: str) -> dict[str, Value]:
        """Return the point that ``--try-first key=value,key=value`` stands for.

        Raises:
            InvalidValue: another form, an unknown or doubled setting, or a value outside the space.
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
        """Return the space that ``--set`` leaves.

        Args:
            wanted: setting -> text: ``value`` fixes, ``a,b,c`` chooses, ``low..high`` narrows. For
                a readout the text is its grid, which may be wider than the method's; a searched
                setting's value that leaves a single one still does.
            others: all settings of the method and its training; those outside the space may be
                fixed, or chosen from values.
            readouts: of the method.
            typed: (setting, text) -> the value that the method's own settings make of it, which
                may lie outside the space; None: the space's values are all there are.

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
                settings[name] = narrowed(name, settings[name], text, own_values)
            elif name in others and typed is not None:
                values = dict.fromkeys(typed(name, part.strip()) for part in text.split(","))
                settings[name] = Choice(*values)
            elif name in fixed:
                fixed[name] = _number(name, text) if is_number(fixed[name]) else text
            else:
                known = ", ".join(sorted({*self.settings, *self.fixed, *others, *own}))
                raise InvalidValue(f"--set {name}", text, f"the settings are {known}")
        names = self.narrowed_names | set(wanted)
        active_ones, conditions = settled(settings, fixed, self.conditions)
        for name in wanted:
            if name in settings and name not in active_ones:
                raise InvalidValue(f"--set {name}", wanted[name], needed(name, self.conditions))
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
        """Return the space with readouts as settings: a range for one that is found exactly, else
        a choice. Each draw of them costs a training run."""
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
        """Return a trial's settings without drawn readouts, and the grids of its readouts: of a
        drawn one its value."""
        kept = {k: v for k, v in settings.items() if k not in self.searched_readouts}
        drawn = {name: (settings[name],) for name in self.searched_readouts}
        return kept, {**self.grids_for(kept), **drawn}

    def grids_for(self, settings: Mapping[str, Any]) -> dict[str, Grid]:
        """Return the grids of the readouts beside these settings, as far as they say."""
        found: dict[str, Grid] = {}
        for name, grid in self.readouts.items():
            if isinstance(grid, tuple):
                found[name] = grid
            else:
                for setting, by_value in grid.items():
                    if settings.get(setting) in by_value:
                        found[name] = by_value[settings[setting]]
        return found

    def for_trials(self, encoder: str, examples: int) -> SearchSpace:
        """Return the space whose first points suit an encoder and a trial's budget.

        Args:
            encoder: its class, of ``ENCODERS``; another text: none of them.
            examples: of a full trial.
        """
        return replace(self, suited=(encoder, examples))

    def first_points(self) -> list[dict[str, Value]]:
        """Return the points to try: those of ``with_points``, of earlier studies, the start of the
        encoder's class and the published one, as far as the space holds them, each once."""
        points: list[dict[str, Value]] = []
        for point in (*map(self._nearest, self.tried), *(at for _, _, at in self._own_points())):
            if point and point not in points:
                points.append(point)
        return points

    @property
    def prior(self) -> dict[str, Value]:
        """The first point of the space's own, around which good settings are expected; empty where
        it has none."""
        return next((point for _, _, point in self._own_points() if point is not None), {})

    def first_note(self) -> str:
        """Return which points of its own the space tries first, and what is changed about them by
        its narrowing or a trial's budget; empty for the published one as it is."""
        said = []
        for name, values, point in self._own_points():
            if point is None:
                own = self.settings.items()
                lacks = ", ".join(n for n, d in own if not d.contains(values.get(n)))
                said.append(f"{name} is not tried: the space does not hold its {lacks}")
                continue
            changed = [
                f"{setting} {_shown(values[setting])} -> {_shown(value)}"
                for setting, value in {**point, **self.fixed}.items()
                if setting in values and values[setting] != value
            ]
            said.append(f"{name}, changed: {', '.join(changed)}" if changed else name)
        return "" if said == ["the published point"] else "; then ".join(said)

    def _own_points(self) -> Iterator[tuple[str, Mapping[str, Value], dict[str, Value] | None]]:
        """Yield the name of a first point, its values, and what the space and the budget make of
        them, each point once."""
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
        """Return a point with the largest batch that gives a trial of so many examples ``STEPS``
        steps, at most its own; learning rates shrink with the root of the batch.

        The root keeps the noise of a step with Adam (Malladi et al. 2022, "On the SDEs and Scaling
        Rules for Adaptive Gradient Algorithms").
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
        """Return a known point with numbers moved into the space; None where a setting has no value
        or nothing is near it (another pooling, say)."""

        def nearest(name: str, dimension: Dimension) -> Value:
            value = values[name]
            return value if dimension.contains(value) else dimension.nearest(value)

        try:
            return self.draw(nearest)
        except (KeyError, ValueError):
            return None

    def on_grid(self, name: str) -> SearchSpace:
        """Return a named grid as a space; settings that it leaves out take their published value.

        Raises:
            InvalidValue: no such grid, or a setting without any value.
        """
        if name not in self.grids:
            known = ", ".join(f"grid:{own}" for own in sorted(self.grids)) or "none has a name"
            raise InvalidValue("--sampler", f"grid:{name}", f"grids of this space: {known}")
        settings: dict[str, Dimension] = {}
        fixed, grid = dict(self.fixed), self.grids[name]
        for setting, dimension in self.settings.items():
            narrowed = setting in self.narrowed_names
            if setting in grid:
                left = [v for v in grid[setting] if not narrowed or dimension.contains(v)]
                if not left:
                    fix = f"grid:{name} has {grid[setting]} there"
                    raise InvalidValue(f"--set {setting}", str(dimension), fix)
                settings[setting] = Choice(*left)
            elif narrowed and dimension.size is not None:
                settings[setting] = dimension
            elif setting not in self.published:
                fix = f"the grid says nothing of {setting}; add --set {setting}=VALUE"
                raise InvalidValue("--sampler", f"grid:{name}", fix)
            elif setting in self.conditions:
                settings[setting] = Choice(self.published[setting])
            else:
                fixed[setting] = self.published[setting]
        settings, conditions = settled(settings, fixed, self.conditions)
        return replace(self, settings=settings, conditions=conditions, fixed=fixed)

    def points(self) -> list[dict[str, Value]]:
        """Return every configuration, the last setting changing fastest.

        Raises:
            InvalidValue: a range is continuous.
        """
        found: list[dict[str, Value]] = [{}]
        for name, dimension in self.settings.items():
            if isinstance(dimension, Uniform):
                fix = f"{name} is a range; choose values with --set {name}=a,b,c or give grid:NAME"
                raise InvalidValue("--sampler", "grid", fix)
            longer: list[dict[str, Value]] = []
            for point in found:
                if active(name, point, self.conditions):
                    longer += ({**point, name: value} for value in dimension.values)
                else:
                    longer.append(point)
            found = longer
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types, from which ``from_dict`` makes the same space."""
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
            "settings": {name: dimension_from_dict(d) for name, d in data["settings"].items()},
            "searched_readouts": frozenset(data["searched_readouts"]),
            "live": frozenset(data.get("live", ())),
        }
        return cls(**known)

    def identity(self) -> dict[str, Any]:
        """Return what two studies must share to be one; points to try first do not belong to it."""
        return {name: at for name, at in self.to_dict().items() if name not in _KNOWN_POINTS}


def _within(own: ReadoutGrid, grid: ReadoutGrid, searched: Collection[str]) -> ReadoutGrid:
    """Return a user's grid of a readout, but for searched values of a setting that leave one."""
    if isinstance(own, tuple) or not isinstance(grid, tuple) or own.keys().isdisjoint(searched):
        return grid
    kept = {
        setting: {value: g if len(g) == 1 else grid for value, g in by_value.items()}
        for setting, by_value in own.items()
    }
    return kept if any(len(g) == 1 for of in own.values() for g in of.values()) else grid


def _shown(value: Value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _number(name: str, text: str) -> float:
    try:
        return parse_number(text)
    except ValueError as error:
        raise InvalidValue(f"--set {name}", text, str(error)) from None


def _with_tuples(data: Any) -> Any:
    """Return JSON types with a tuple in place of each list."""
    if isinstance(data, Mapping):
        return {name: _with_tuples(value) for name, value in data.items()}
    return tuple(map(_with_tuples, data)) if isinstance(data, list | tuple) else data
