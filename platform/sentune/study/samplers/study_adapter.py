"""What a sampler sees of a study: no copies of trials, ordered choices, and what did not end.

Batch sizes of 16, 32 and 64 are a Choice, for which samplers know no order; here they are places on
a line, so that 32 is nearer to 16 than 512 is.

TPE ranks stopped trials by the rung that they reached and knows constraints. GP, CMA-ES and NSGA-II
read complete trials only (Optuna 5.0.0), so a region that fits in no memory stays attractive to
them for ever, and GP ends with an error where trials differ in their constraints. They are shown
stopped trials and those that found no memory as if they were complete.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeAlias

import optuna
from optuna.distributions import IntDistribution
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.study.samplers.old import Old
from sentune.study.space.domains import Choice, Dimension, Value
from sentune.study.store.trial_codec import MEMORY, TWIN

Lines: TypeAlias = Mapping[str, tuple[Value, ...]]
"""Setting -> its values in their order, which samplers see as 0, 1, 2, ..."""

_PREFIX = "constraints:"  # Optuna's own name for Trial.set_constraint's system attributes


def lines_of(settings: Mapping[str, Dimension]) -> Lines:
    """The choices among numbers that are given in their order, upwards or downwards."""
    return {name: d.values for name, d in settings.items() if isinstance(d, Choice) and _ordered(d)}


def _ordered(choice: Choice) -> bool:
    values = choice.values
    if len(values) < 3 or any(
        isinstance(v, bool) or not isinstance(v, int | float) for v in values
    ):
        return False
    return list(values) in (sorted(values), sorted(values, reverse=True))  # type: ignore[type-var]


def placed(trial: FrozenTrial, lines: Lines) -> FrozenTrial:
    """The trial with places in the stead of ordered choices."""
    params = dict(trial.params)
    distributions = dict(trial.distributions)
    for name, values in lines.items():
        if name in params:
            params[name] = values.index(params[name])
            distributions[name] = IntDistribution(0, len(values) - 1)
    shown = copy.copy(trial)
    shown.params, shown.distributions = params, distributions
    return shown


@dataclass
class Remembered:
    """What a driver need not find out again from draw to draw; all of it follows from the store.

    Attributes:
        shown: number -> a trial and how it is shown; one that changes is another object.
        old: the best of a long study's first trials.
    """

    shown: dict[int, tuple[FrozenTrial, FrozenTrial]] = field(default_factory=dict)
    old: Old = field(default_factory=Old)


class Seen:
    """A study as a sampler sees it for one draw; what is not said here is the study's own.

    Args:
        study: that is seen.
        lines: settings whose values are numbers in order -> those values.
        known: of earlier draws.
    """

    def __init__(self, study: optuna.Study, lines: Lines, known: Remembered) -> None:
        self._seen, self._lines, self._known = study, lines, known
        self._all: list[FrozenTrial] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seen, name)

    @property
    def trials(self) -> list[FrozenTrial]:
        """As ``get_trials``."""
        return self.get_trials()

    def get_trials(
        self, deepcopy: bool = True, states: Container[Stored] | None = None
    ) -> list[FrozenTrial]:
        """The trials as the sampler is to see them."""
        return self._get_trials(deepcopy, states)

    def _get_trials(
        self,
        deepcopy: bool = True,
        states: Container[Stored] | None = None,
        use_cache: bool = False,
    ) -> list[FrozenTrial]:
        """The name under which Optuna's samplers ask."""
        del use_cache  # nothing changes during a draw, in which TPE asks four times
        if self._all is None:
            chosen = self._chosen(self._seen._get_trials(deepcopy=False))
            self._all = self._shown([self._placed(t) for t in chosen if TWIN not in t.user_attrs])
        kept = [trial for trial in self._all if states is None or trial.state in states]
        return copy.deepcopy(kept) if deepcopy else kept

    def _placed(self, trial: FrozenTrial) -> FrozenTrial:
        before, shown = self._known.shown.get(trial.number, (None, trial))
        if before is not trial:
            shown = placed(trial, self._lines)
            self._known.shown[trial.number] = trial, shown
        return shown

    def _chosen(self, stored: Sequence[FrozenTrial]) -> Sequence[FrozenTrial]:
        return stored

    def _shown(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        return trials


class Newest(Seen):
    """Of a long study the newest trials, those that run, and the best of all.

    TPE models the ``BEST`` best trials apart from all others (Optuna's gamma), and those get less
    weight the older they are. Without the oldest of them a draw after 10,000 trials takes as long
    as one after ``NEWEST``. For one objective.
    """

    def _chosen(self, stored: Sequence[FrozenTrial]) -> Sequence[FrozenTrial]:
        return self._known.old.and_newest(self._seen, stored)


class Finished(Seen):
    """Stopped trials and those without memory are shown as complete ones.

    A stopped trial's value is its last one and what complete trials gained from there on in the
    median; without such trials it is left out. One that found no memory takes the median of the
    values (the worst one, where the sampler knows no constraints) and breaks its constraint.
    """

    def __init__(
        self,
        study: optuna.Study,
        lines: Lines,
        known: Remembered,
        *,
        constrained: bool,
    ) -> None:
        super().__init__(study, lines, known)
        self._constrained = constrained

    def _shown(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        complete = [trial for trial in trials if trial.state == Stored.COMPLETE]
        estimated = {t.number: _estimate(t, complete) for t in trials if t.state == Stored.PRUNED}
        known = [t.values for t in complete] + [v for v in estimated.values() if v is not None]
        other = self._without_memory(known)
        shown = []
        for trial in trials:
            if trial.constraints.get(MEMORY, 0.0) > 0:
                shown.append(_as_complete(trial, other))
            elif (values := estimated.get(trial.number)) is not None:
                shown.append(_as_complete(trial, values))
            else:
                shown.append(trial)
        return _alike(shown) if self._constrained else shown

    def _without_memory(self, known: Sequence[Sequence[float]]) -> list[float]:
        directions = self._seen.directions
        if not known:
            return [0.0] * len(directions)
        if self._constrained:
            return [median(values) for values in zip(*known, strict=True)]
        most = optuna.study.StudyDirection.MAXIMIZE
        return [
            min(values) if direction == most else max(values)
            for direction, values in zip(directions, zip(*known, strict=True), strict=True)
        ]


def _estimate(trial: FrozenTrial, complete: Sequence[FrozenTrial]) -> list[float] | None:
    """The value that a stopped trial would have reached; None where nothing tells."""
    if not trial.intermediate_values:
        return None
    step, last = max(trial.intermediate_values.items())
    gains = [
        t.values[0] - t.intermediate_values[step] for t in complete if step in t.intermediate_values
    ]
    return [last + median(gains)] if gains else None


def _as_complete(trial: FrozenTrial, values: Sequence[float]) -> FrozenTrial:
    shown = copy.copy(trial)
    shown.state = Stored.COMPLETE
    shown.values = list(values)
    return shown


def _alike(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Every complete trial with the same constraints in the same order, if any has some.

    Who ran had the memory. Of another constraint that a trial did not come to, the median is
    assumed.
    """
    complete = [trial for trial in trials if trial.state == Stored.COMPLETE]
    names = sorted({name for trial in complete for name in trial.constraints})
    if not names:
        return list(trials)
    usual = {
        name: -1.0
        if name == MEMORY
        else median(t.constraints[name] for t in complete if name in t.constraints)
        for name in names
    }
    return [_with(t, usual) if t.state == Stored.COMPLETE else t for t in trials]


def _with(trial: FrozenTrial, usual: Mapping[str, float]) -> FrozenTrial:
    shown, own = copy.copy(trial), trial.constraints
    others = {name: v for name, v in trial.system_attrs.items() if not name.startswith(_PREFIX)}
    constraints = {_PREFIX + name: own.get(name, value) for name, value in usual.items()}
    shown.system_attrs = {**others, **constraints}
    return shown
