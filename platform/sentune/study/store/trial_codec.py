"""Names of a trial's attributes in Optuna's storage, and functions that read a stored trial."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.records import PART, TrialRecord, TrialState
from sentune.study.space.objectives import Objective

SETTINGS, REASON, TWIN, SEED, TOKEN = "settings", "reason", "twin", "seed", "token"
REPEATS, TRACEBACK, NOTES, RESTARTS = "repeats", "traceback", "notes", "restarts"
MICRO_BATCH, BEGUN_AT = "micro_batch", "begun_at"
WARM_FROM, WARM_NUMBER = "warm_from", "warm_number"
MILESTONE, COST = "milestone:", "cost:"

END = "end"
"""End of a trial, written before Optuna's state: ``state``, ``values``, ``constraints``,
``reason``, ``repeats`` and ``traceback``. Older studies store the last three as own attributes."""

PARENT = "parent"
"""Number of the trial from whose checkpoint a run continues, at ``BEGUN_AT`` examples. These are 0
if that checkpoint was lost and the run starts from the beginning."""

INHERITED = "inherited"
"""``metrics`` and ``readouts`` of the best milestone on all of dev among the trials that a trial
continues; missing or empty if there is none."""

TO_END = "to_end"
"""Set on a continued trial that no rung stops, because all others have ended."""

MEMBER = "member"
"""Number of the population member that a segment belongs to."""

TIME = "time"
"""Key of a milestone: Unix time at which it was reached; missing in older studies."""

TRACE = "trace"
"""Key of a milestone: see ``sentune.training.trial.Progress.trace``; missing in older studies."""

TRIAL = "trial"
"""Number of the trial of the search that a run of the finals repeats."""

MEMORY = "fits_in_memory"
"""Constraint that is 1 for a trial that ran out of memory at its smallest micro-batch."""

DIRECTIONS = {"max": StudyDirection.MAXIMIZE, "min": StudyDirection.MINIMIZE}


def run_name(trial: int, seed: int | None = None) -> str:
    """Return the name of a run's folder: ``0007``, and in the finals ``finalist-0007-seed-3``."""
    return f"{trial:04d}" if seed is None else f"finalist-{trial:04d}-seed-{seed}"


def name_of(run: FrozenTrial) -> str:
    """Return the name of a stored run and its folder."""
    if TRIAL in run.user_attrs:
        return run_name(*identity(run))
    return run_name(run.number)


def identity(run: FrozenTrial) -> tuple[int, int]:
    """Return trial number and seed of a run of the finals."""
    return run.user_attrs[TRIAL], run.user_attrs[SEED]


def record_of(trial: FrozenTrial, objective: Objective) -> TrialRecord:
    """Return the trial's record, as the summary shows it."""
    curve, notes = milestones(trial), trial.user_attrs
    shown = best_of_chain(trial, objective)
    end, no_memory = ending(trial), trial.constraints.get(MEMORY, 0.0) > 0
    state = TrialState.__members__.get(trial.state.name, TrialState.FAILED)  # Optuna's is FAIL
    if no_memory and state is TrialState.PRUNED:  # Optuna has no such state
        state = TrialState.INFEASIBLE
    costs: dict[str, dict[str, float]] = {}  # start of the trial -> its newest cost
    for point in curve.values():
        costs |= point.get("cost", {})
    costs |= {n.removeprefix(COST): cost for n, cost in notes.items() if n.startswith(COST)}
    return TrialRecord(
        id=trial.number,
        state=state,
        settings=notes[SETTINGS],
        reason=end.get(REASON, ""),
        readouts=shown.get("readouts", {}),
        metrics=shown.get("metrics", {}),
        examples=max(curve, default=notes.get(BEGUN_AT, 0)),
        seconds=max((point["seconds"] for point in curve.values()), default=0.0),
        curve={examples: point["metrics"] for examples, point in curve.items()},
        gpu_seconds=sum(cost["seconds"] * cost["gpus"] for cost in costs.values()),
        restarts=notes.get(RESTARTS, 0),
        notes=notes.get(NOTES, []),
        begun_at=notes.get(BEGUN_AT, 0),
        parent=None if drawn(trial) else notes[PARENT],
        source=f"{notes[WARM_FROM]}/{notes[WARM_NUMBER]}" if WARM_FROM in notes else "",
        violations={name: by for name, by in trial.constraints.items() if name != MEMORY},
    )


def answers(trial: FrozenTrial) -> bool:
    """Return whether another trial with the same settings would give the same result.

    A failed trial does if it would fail again.
    """
    repeats = trial.state == Stored.FAIL and bool(ending(trial).get(REPEATS))
    return repeats or trial.state in (Stored.COMPLETE, Stored.PRUNED)


def ending(trial: FrozenTrial) -> Mapping[str, Any]:
    """Return the attributes that describe a trial's end, also for studies of older versions."""
    end: Mapping[str, Any] = trial.user_attrs.get(END, trial.user_attrs)
    return end


def known(trial: FrozenTrial) -> bool:
    """Return whether a trial was started, in this or another study, and is not a copy (twin)."""
    started = trial.state != Stored.WAITING and SETTINGS in trial.user_attrs
    return started and TWIN not in trial.user_attrs


def own(trial: FrozenTrial) -> bool:
    """Return whether a trial was started in this study and is not a copy of another one."""
    copied = TWIN in trial.user_attrs or WARM_FROM in trial.user_attrs
    return trial.state != Stored.WAITING and not copied


def drawn(trial: FrozenTrial) -> bool:
    """Return whether a trial's settings were drawn; if not, it continues a stopped trial."""
    return PARENT not in trial.user_attrs or MEMBER in trial.user_attrs


def stopped_at(trial: FrozenTrial) -> int:
    """Return the examples at which a rung stopped a trial of this study, or 0 if none did."""
    curve = milestones(trial) if trial.state == Stored.PRUNED and own(trial) else {}
    at = max(curve, default=0)
    return at if at and curve[at]["verdict"]["stop"] else 0


def milestones(trial: FrozenTrial) -> dict[int, dict[str, Any]]:
    """Return examples -> stored milestone, in order of examples."""
    found = {
        int(name.removeprefix(MILESTONE)): point
        for name, point in trial.user_attrs.items()
        if name.startswith(MILESTONE)
    }
    return dict(sorted(found.items()))


def curves_of(trials: Iterable[FrozenTrial]) -> dict[int, dict[int, float]]:
    """Return trial number -> examples -> objective.

    If a trial that continues others restarted from the beginning, the milestones that it reached
    again are left out of their curves.
    """
    curves, parents = {}, {}
    for trial in trials:  # ordered by number, so a parent comes first
        curves[trial.number] = dict(trial.intermediate_values)
        parents[trial.number] = before = trial.user_attrs.get(PARENT)
        while before is not None:
            for examples in trial.intermediate_values:
                curves[before].pop(examples, None)
            before = parents[before]
    return curves


def best_of_chain(trial: FrozenTrial, objective: Objective) -> Mapping[str, Any]:
    """Return the milestone with the best objective, of the trial and of those that it continues.

    Of equals it is the earliest; empty if there is none. Milestones that were measured on a part of
    dev do not count. If there are no others, the last one is returned, because values on different
    parts do not compare.
    """
    before = trial.user_attrs.get(INHERITED)
    points = [*([before] if before else []), *milestones(trial).values()]
    whole = [point for point in points if PART not in point["metrics"]] or points[-1:]
    return max(whole, key=lambda point: objective.of(point["metrics"]), default={})


def key(params: Mapping[str, Any]) -> str:
    """Return settings as JSON with sorted keys, the same text for equal settings."""
    return json.dumps(params, sort_keys=True)
