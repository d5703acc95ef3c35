"""Conversion of a study's stored trials to those that a sampler sees.

Batch sizes of 16, 32 and 64 are a Choice, whose values have no order for samplers. They are shown
as integers 0, 1 and 2, so that 32 is closer to 16 than 512 is.

TPE ranks stopped trials by the rung that they reached, and supports constraints. GP, CMA-ES and
NSGA-II read complete trials only (Optuna 5.0.0): a region that does not fit in memory would attract
them for ever, and GP raises an error if trials differ in their constraints. For them, stopped
trials and those that ran out of memory are shown as complete.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

import optuna
from optuna import distributions
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.formatting import is_number
from sentune.study.space.domains import Choice, Dimension, Integer, Uniform, Value
from sentune.study.store.trial_codec import MEMORY, PARENT

Lines: TypeAlias = Mapping[str, tuple[Value, ...]]
"""Setting -> its values in order, which samplers see as 0, 1, 2, ..."""

SAMPLER = "sampler"
"""User attribute of a trial: system attributes that its sampler set, and reads again later."""

NEWEST, STEP = 1_000, 250
"""Number of newest trials that TPE always sees; older ones are left out in steps of the second."""

BEST = 25
"""Most trials that TPE models as good ones (``default_gamma`` of Optuna 5.0.0)."""


def distribution(dimension: Dimension) -> distributions.BaseDistribution:
    """Return the dimension as an Optuna distribution."""
    if isinstance(dimension, Choice):
        return distributions.CategoricalDistribution(dimension.values)
    if isinstance(dimension, Uniform):
        return distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    return distributions.IntDistribution(
        dimension.low, dimension.high, log=dimension.log, step=dimension.step
    )


def lines_of(settings: Mapping[str, Dimension]) -> Lines:
    """Return the choices among three or more numbers in ascending or descending order."""
    found: dict[str, tuple[Value, ...]] = {}
    for name, dimension in settings.items():
        values = dimension.values if isinstance(dimension, Choice) else ()
        numbers = [value for value in values if is_number(value)]
        up = sorted(numbers)
        if len(numbers) == len(values) >= 3 and list(values) in (up, up[::-1]):
            found[name] = values
    return found


def as_numbers(settings: Mapping[str, Dimension]) -> dict[str, Dimension]:
    """Return the dimensions as samplers see them: ordered choices are integers."""
    lines = lines_of(settings)
    return {n: Integer(0, len(lines[n]) - 1) if n in lines else d for n, d in settings.items()}


def as_shown(point: Mapping[str, Value], lines: Lines) -> dict[str, Value]:
    """Return a point as samplers see it: values of ordered choices are integers."""
    return {n: lines[n].index(value) if n in lines else value for n, value in point.items()}


class ShownTrial(FrozenTrial):
    """A trial of the in-memory study of one draw.

    Its deep copy is shallow. Optuna copies each trial that is added to a study, which takes 100 ms
    for 1,000 deep copies; nothing writes to the shared parts.
    """

    violation: float
    """Sum of its violations of constraints."""
    parent: int | None
    """Number of the trial that it continues."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ShownTrial:
        return _shallow(self)


def _shallow(trial: FrozenTrial) -> ShownTrial:
    """Return a shallow copy, in a quarter of the time of ``copy.copy``."""
    found = ShownTrial.__new__(ShownTrial)
    found.__dict__.update(trial.__dict__)
    return found


def shown(trial: FrozenTrial, lines: Lines) -> ShownTrial:
    """Return the trial with integers for ordered choices and with its sampler's attributes."""
    found = _shallow(trial)
    found.params, found.distributions = as_shown(trial.params, lines), dict(trial.distributions)
    for name in lines.keys() & found.params.keys():
        found.distributions[name] = distributions.IntDistribution(0, len(lines[name]) - 1)
    found.user_attrs = {}
    found.system_attrs = {**trial.system_attrs, **trial.user_attrs.get(SAMPLER, {})}
    found.parent = trial.user_attrs.get(PARENT)
    found.violation = sum(by for by in trial.constraints.values() if by > 0)
    return found


def newest_and_best(trials: Sequence[ShownTrial], modes: Sequence[str]) -> list[ShownTrial]:
    """Return the newest trials, the running ones and the best of all, by number.

    TPE models the ``BEST`` best trials separately from all others, whose weight falls with age.
    Without the oldest trials, a draw after 10,000 trials takes twice as long as one after
    ``NEWEST``, not ten times. With several objectives all trials are returned.
    """
    until = max(0, (len(trials) - NEWEST) // STEP * STEP)
    if len(modes) > 1 or not until:
        return list(trials)
    sign = -1.0 if modes[0] == "max" else 1.0
    old = trials[:until]
    ended = [trial for trial in old if trial.state in (Stored.COMPLETE, Stored.PRUNED)]
    kept = heapq.nsmallest(BEST, ended, key=lambda trial: _rank(trial, sign))
    kept += [trial for trial in old if not trial.state.is_finished()]
    return [*sorted(kept, key=lambda trial: trial.number), *trials[until:]]


def _rank(trial: ShownTrial, sign: float) -> tuple[float, ...]:
    """Return TPE's rank, lower is better: complete, stopped (later steps first), infeasible."""
    if trial.violation > 0:
        return 2, trial.violation
    if trial.state == Stored.COMPLETE:
        return 0, sign * trial.values[0]
    if not trial.intermediate_values:
        return 1, 1
    step, value = max(trial.intermediate_values.items())
    return 1, -step, sign * value


def as_finished(
    trials: Sequence[ShownTrial], modes: Sequence[str], *, constrained: bool
) -> list[ShownTrial]:
    """Return the trials, with stopped ones and those that ran out of memory shown as complete.

    A stopped trial's value is its last one plus the median gain of complete trials from there on;
    without such trials it stays stopped. A trial that ran out of memory gets the median of all
    values, and violates its constraint.

    Args:
        constrained: whether the sampler supports constraints; if not, a trial that ran out of
            memory gets the worst value instead.
    """
    complete = [trial for trial in trials if trial.state == Stored.COMPLETE]
    estimated = {t.number: _estimate(t, complete) for t in trials if t.state == Stored.PRUNED}
    known = [t.values for t in complete] + [v for v in estimated.values() if v is not None]
    worst = {"max": min, "min": max}
    usual = [median if constrained else worst[mode] for mode in modes]
    other = [0.0] * len(modes)
    if known:
        other = [of(values) for of, values in zip(usual, zip(*known, strict=True), strict=True)]
    found = []
    for trial in trials:
        without_memory = trial.constraints.get(MEMORY, 0.0) > 0
        values = other if without_memory else estimated.get(trial.number)
        if values is not None:
            trial = copy.copy(trial)
            trial.state, trial.values = Stored.COMPLETE, list(values)
        found.append(trial)
    return _alike(found)


def _estimate(trial: FrozenTrial, complete: Sequence[FrozenTrial]) -> list[float] | None:
    """Return the estimated final value of a stopped trial; None if it cannot be estimated."""
    if not trial.intermediate_values:
        return None
    step, last = max(trial.intermediate_values.items())
    gains = [
        t.values[0] - t.intermediate_values[step] for t in complete if step in t.intermediate_values
    ]
    return [last + median(gains)] if gains else None


def _alike(trials: Sequence[ShownTrial]) -> list[ShownTrial]:
    """Return the trials, with the same constraints in the same order for all complete ones.

    Missing constraints are filled in: the one on memory as met, others with the median.
    """
    complete = [trial for trial in trials if trial.state == Stored.COMPLETE]
    usual: dict[str, float] = {}
    for name in sorted({name for trial in complete for name in trial.constraints}):
        measured = [t.constraints[name] for t in complete if name in t.constraints]
        usual[name] = -1.0 if name == MEMORY else median(measured)
    found = []
    for trial in trials:
        if usual and trial.state == Stored.COMPLETE:
            bounds = {name: trial.constraints.get(name, value) for name, value in usual.items()}
            attributes = optuna.create_trial(value=0.0, constraints=bounds).system_attrs
            trial = copy.copy(trial)
            trial.system_attrs = {**attributes, **trial.system_attrs}  # in this order for all
        found.append(trial)
    return found
