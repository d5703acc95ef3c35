"""A trial as Optuna's storage holds it, and what is read from that alone."""

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
"""How a trial ends, written before Optuna's state: ``state``, ``values``, ``constraints`` and what
the record says (``reason``, ``repeats``, ``traceback``). Older studies have those by themselves."""

PARENT = "parent"
"""Number of the trial whose checkpoint a run takes up, at ``BEGUN_AT`` examples; 0 of them: that
checkpoint was lost, and the run begins anew."""

INHERITED = "inherited"
"""Of a trial that goes on: ``metrics`` and ``readouts`` of the best milestone of those that it goes
on from, judged on all of dev; missing or empty: there is none."""

TO_END = "to_end"
"""Of a trial that goes on: no rung stops it, since all others have ended."""

MEMBER = "member"
"""Of a segment of a population: number of the member whose it is."""

TIME = "time"
"""In a milestone: when it was reached, UTC epoch seconds; older studies have none."""

TRACE = "trace"
"""In a milestone: as of ``sentune.training.trial.Progress``; older studies have none."""

TRIAL = "trial"
"""Of a run of the finals: number of the trial of the search that it repeats."""

MEMORY = "fits_in_memory"
"""Constraint of a trial that found no memory at its smallest micro-batch; above 0 is broken."""

DIRECTIONS = {"max": StudyDirection.MAXIMIZE, "min": StudyDirection.MINIMIZE}
STATES = {
    Stored.RUNNING: TrialState.RUNNING,
    Stored.WAITING: TrialState.RUNNING,
    Stored.COMPLETE: TrialState.COMPLETE,
    Stored.PRUNED: TrialState.PRUNED,
    Stored.FAIL: TrialState.FAILED,
}


def run_name(trial: int, seed: int | None = None) -> str:
    """Return the name of a run's folder: ``0007``, and in the finals ``finalist-0007-seed-3``."""
    return f"{trial:04d}" if seed is None else f"finalist-{trial:04d}-seed-{seed}"


def record_of(trial: FrozenTrial, objective: Objective) -> TrialRecord:
    """Return the trial as the summary shows it."""
    curve, notes = milestones(trial), trial.user_attrs
    shown = best_of_chain(trial, objective)
    end, no_memory = ending(trial), trial.constraints.get(MEMORY, 0.0) > 0
    infeasible = no_memory and trial.state == Stored.PRUNED  # Optuna has no word for it
    costs: dict[str, dict[str, float]] = {}  # start of the trial -> as it was said last
    for said in curve.values():
        costs |= said.get("cost", {})
    costs |= {n.removeprefix(COST): said for n, said in notes.items() if n.startswith(COST)}
    return TrialRecord(
        id=trial.number,
        state=TrialState.INFEASIBLE if infeasible else STATES[trial.state],
        settings=notes[SETTINGS],
        reason=end.get(REASON, ""),
        readouts=shown.get("readouts", {}),
        metrics=shown.get("metrics", {}),
        examples=max(curve, default=notes.get(BEGUN_AT, 0)),
        seconds=max((said["seconds"] for said in curve.values()), default=0.0),
        curve={examples: said["metrics"] for examples, said in curve.items()},
        gpu_seconds=sum(cost["seconds"] * cost["gpus"] for cost in costs.values()),
        restarts=notes.get(RESTARTS, 0),
        notes=notes.get(NOTES, []),
        begun_at=notes.get(BEGUN_AT, 0),
        parent=None if drawn(trial) else notes[PARENT],
        source=f"{notes[WARM_FROM]}/{notes[WARM_NUMBER]}" if WARM_FROM in notes else "",
        violations={name: by for name, by in trial.constraints.items() if name != MEMORY},
    )


def answers(trial: FrozenTrial) -> bool:
    """Return whether another trial with the same settings would only find the same again."""
    return trial.state in (Stored.COMPLETE, Stored.PRUNED) or repeats(trial)


def repeats(trial: FrozenTrial) -> bool:
    """Return whether a trial failed in a way in which its settings would fail again."""
    return trial.state == Stored.FAIL and bool(ending(trial).get(REPEATS))


def ending(trial: FrozenTrial) -> Mapping[str, Any]:
    """Return what is noted of a trial's end, in studies of older versions too."""
    end: Mapping[str, Any] = trial.user_attrs.get(END, trial.user_attrs)
    return end


def known(trial: FrozenTrial) -> bool:
    """Return whether a trial was started, here or in another study, and is no copy."""
    started = trial.state != Stored.WAITING and SETTINGS in trial.user_attrs
    return started and TWIN not in trial.user_attrs


def own(trial: FrozenTrial) -> bool:
    """Return whether a trial was started in this study and is no copy of another one."""
    copied = TWIN in trial.user_attrs or WARM_FROM in trial.user_attrs
    return trial.state != Stored.WAITING and not copied


def drawn(trial: FrozenTrial) -> bool:
    """Return whether a trial's settings were drawn; else it goes on with one that was stopped."""
    return PARENT not in trial.user_attrs or MEMBER in trial.user_attrs


def stopped_at(trial: FrozenTrial) -> int:
    """Return the examples at which a rung has stopped a trial of this study; 0: none has."""
    curve = milestones(trial) if trial.state == Stored.PRUNED and own(trial) else {}
    at = max(curve, default=0)
    return at if at and curve[at]["verdict"]["stop"] else 0


def milestones(trial: FrozenTrial) -> dict[int, dict[str, Any]]:
    """Examples -> what the trial said there, in order."""
    found = {
        int(name.removeprefix(MILESTONE)): said
        for name, said in trial.user_attrs.items()
        if name.startswith(MILESTONE)
    }
    return dict(sorted(found.items()))


def curves_of(trials: Iterable[FrozenTrial]) -> dict[int, dict[int, float]]:
    """Return trial number -> examples -> objective.

    A milestone that a trial has reached again, since it began anew, is left out of those that it
    goes on with.
    """
    curves, parents = {}, {}
    for trial in trials:  # by number: a parent comes before
        curves[trial.number] = dict(trial.intermediate_values)
        parents[trial.number] = before = trial.user_attrs.get(PARENT)
        while before is not None:
            for examples in trial.intermediate_values:
                curves[before].pop(examples, None)
            before = parents[before]
    return curves


def best_of_chain(trial: FrozenTrial, objective: Objective) -> Mapping[str, Any]:
    """Return the best milestone of the trial and of those that it goes on from, as if the first of
    them had never been stopped."""
    before = trial.user_attrs.get(INHERITED)
    return best_milestone({**({0: before} if before else {}), **milestones(trial)}, objective)


def best_milestone(
    curve: Mapping[int, Mapping[str, Any]], objective: Objective
) -> Mapping[str, Any]:
    """Return what the trial said where the objective was best, the earliest where several were.

    A milestone that was judged on a part of dev is taken where there is none on all of it: then the
    last one, since on a part neither is known to be better.
    """
    said = [curve[examples] for examples in sorted(curve)]
    whole = [one for one in said if PART not in one["metrics"]] or said[-1:]
    return max(whole, key=lambda said: objective.of(said["metrics"]), default={})


def key(params: Mapping[str, Any]) -> str:
    """Return settings as one text, equal for equal settings."""
    return json.dumps(params, sort_keys=True)
