"""One study's trials in Optuna's storage: the only place where the state of a search is kept.

Nothing here knows Ray. Whatever ends a driver, the next one reads the ledger and goes on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.credentials import without_credentials
from sentune.launchers.trial_report import Report
from sentune.records import TrialRecord
from sentune.study.schedulers import GOES_ON, Scheduler, Verdict
from sentune.study.space.constraints import Constraint
from sentune.study.space.objectives import Objective
from sentune.study.store.trial_codec import (
    COST,
    MEMORY,
    MICRO_BATCH,
    MILESTONE,
    NOTES,
    REASON,
    REPEATS,
    RESTARTS,
    SEED,
    SETTINGS,
    TIME,
    TRACEBACK,
    TWIN,
    VERDICT,
    WARM_FROM,
    best_milestone,
    milestones,
    record_of,
)
from sentune.study.store.unended import Unended
from sentune.study.store.write_through import WriteThrough


class _Own:
    """Which of a study's trials were started here and are no copies."""

    def __init__(self) -> None:
        self._flags: list[bool] = []
        self._unended = Unended()

    def among(self, stored: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """Of all trials, by number, those."""
        self._flags += [False] * (len(stored) - len(self._flags))
        for trial in self._unended.look(stored):
            self._flags[trial.number] = _own(trial)
        return list(compress(stored, self._flags))


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Writes and reads the trials of one Optuna study.

    Attributes:
        study: whose user attributes and intermediate values hold everything.
        objectives: by which trials are compared; rungs and the best milestone go by the first.
        budget: examples of a full trial.
        scheduler: rungs; None where every trial runs to its end (finalists).
        constraints: on metrics; a trial that breaks one is told to the sampler as such.
    """

    study: optuna.Study
    objectives: Sequence[Objective]
    budget: int
    scheduler: Scheduler | None = None
    constraints: Sequence[Constraint] = ()
    _ended: dict[int, TrialRecord] = field(default_factory=dict, init=False, repr=False)
    _own: _Own = field(default_factory=_Own, init=False, repr=False)

    @property
    def first(self) -> Objective:
        """The objective that rungs and milestones are compared by."""
        return self.objectives[0]

    @property
    def objective(self) -> str:
        """Its metric."""
        return self.first.metric

    @property
    def mode(self) -> str:
        """Its direction, ``max`` or ``min``."""
        return self.first.mode

    def together(self) -> AbstractContextManager[None]:
        """What is written inside is stored in one transaction, or not at all.

        A study in memory (a simulation) ends with its process: nothing of it is ever left half.
        """
        storage = self.study._storage
        return storage.together() if isinstance(storage, WriteThrough) else nullcontext()

    def trials(self) -> list[FrozenTrial]:
        """Every trial that was started here and is no copy of another one, by number."""
        return self._own.among(self.study.get_trials(deepcopy=False))

    def records(self) -> list[TrialRecord]:
        """The trials as the summary shows them, with those taken over from other studies."""
        return [
            self._ended.get(trial.number) or self.record(trial)
            for trial in self.study.get_trials(deepcopy=False)
            if trial.number in self._ended
            or (
                trial.state != Stored.WAITING
                and SETTINGS in trial.user_attrs
                and TWIN not in trial.user_attrs
            )
        ]

    def get(self, number: int) -> FrozenTrial:
        """One trial as it is stored."""
        storage = self.study._storage
        place = storage.get_trial_id_from_study_id_trial_number(self.study._study_id, number)
        return storage.get_trial(place)

    def record(self, trial: FrozenTrial | int) -> TrialRecord:
        """One trial as the summary shows it, from the store alone."""
        stored = self.get(trial) if isinstance(trial, int) else trial
        if stored.number not in self._ended:
            record = record_of(stored, self.first)
            if not stored.state.is_finished():
                return record
            self._ended[stored.number] = record  # it never changes again
        return self._ended[stored.number]

    def create(
        self,
        params: Mapping[str, Any],
        distributions: Mapping[str, BaseDistribution],
        *,
        settings: Mapping[str, Any],
        seed: int,
        attributes: Mapping[str, Any] | None = None,
    ) -> int:
        """Stores a running trial with what it runs, in one write; returns its number."""
        notes = {SEED: seed, SETTINGS: dict(settings), **(attributes or {})}
        return self.create_answered(
            optuna.create_trial(
                state=Stored.RUNNING,
                params=dict(params),
                distributions=dict(distributions),
                user_attrs=notes,
            )
        )

    def create_answered(self, template: FrozenTrial) -> int:
        """Stores a trial as it is, in one write; returns its number."""
        self.study.add_trial(template)
        return len(self.study.get_trials(deepcopy=False)) - 1

    def claim(self, trial: FrozenTrial) -> None:
        """A trial that waits is running from here on."""
        if trial.state == Stored.WAITING:
            self.study._storage.set_trial_state_values(trial._trial_id, Stored.RUNNING)

    def start(self, trial: optuna.Trial, settings: Mapping[str, Any], seed: int) -> None:
        """Notes with what a trial runs, so that its record needs nothing but the store."""
        if SETTINGS not in trial.user_attrs:
            trial.set_user_attr(SEED, seed)
            trial.set_user_attr(SETTINGS, dict(settings))

    def milestone(self, number: int, report: Report) -> Verdict:
        """Stores a milestone and says whether the trial goes on.

        The same report may come again after a restart: the verdict that was given stands.
        """
        at = f"{report.examples:012d}"
        stored = self.get(number)
        trial = optuna.Trial(self.study, stored._trial_id)
        if MILESTONE + at not in stored.user_attrs:
            shown = {"metrics": report.metrics, "readouts": report.readouts}
            timed = {"seconds": report.seconds, TIME: time.time()}
            trial.set_user_attr(MILESTONE + at, {**shown, **timed})
        if len(self.objectives) == 1 and report.examples not in stored.intermediate_values:
            trial.report(report.metrics[self.objective], report.examples)
        if VERDICT + at in stored.user_attrs:
            return Verdict(**stored.user_attrs[VERDICT + at])
        verdict = GOES_ON if report.final else self._verdict(number, report.examples)
        trial.set_user_attr(VERDICT + at, {"stop": verdict.stop, "reason": verdict.reason})
        return verdict

    def missing(self, report: Report) -> str:
        """What the study compares by and the trial does not measure, in a sentence; else empty."""
        metrics = {o.metric for o in self.objectives} | {c.metric for c in self.constraints}
        wrong = sorted(m for m in metrics if not math.isfinite(report.metrics.get(m, math.nan)))
        if not wrong:
            return ""
        told = ", ".join(f"{m} is {report.metrics.get(m, 'not measured')}" for m in wrong)
        return f"{told} at {report.examples:,} examples; measured: {', '.join(report.metrics)}"

    def _verdict(self, number: int, examples: int) -> Verdict:
        if self.scheduler is None or examples not in self.scheduler.rungs:
            return GOES_ON
        curves = {trial.number: trial.intermediate_values for trial in self.trials()}
        return self.scheduler.verdict(curves, number, examples)

    def complete(self, number: int) -> TrialRecord:
        """The trial used up its budget; its values are the objectives at its best milestone."""
        stored = self.get(number)
        curve = milestones(stored)
        best = best_milestone(curve, self.first)
        if best is None:
            return self.fail(number, f"the trial ended without {self.objective}")
        metrics = curve[best]["metrics"]
        missing = [o.metric for o in self.objectives if o.metric not in metrics]
        if missing:
            return self.fail(number, f"the trial ended without {', '.join(missing)}", repeats=True)
        with self.together():
            for constraint in self.constraints:
                self._constrain(stored, str(constraint), constraint.violation(metrics))
            values = [metrics[objective.metric] for objective in self.objectives]
            self.study.tell(number, values, state=Stored.COMPLETE)
        return self.record(number)

    def infeasible(self, number: int, reason: str) -> TrialRecord:
        """The trial found no memory at its smallest micro-batch; the sampler learns that."""
        with self.together():
            self._note(number, {REASON: reason})
            self._constrain(self.get(number), MEMORY, 1.0)
            self.study.tell(number, state=Stored.PRUNED)
        return self.record(number)

    def _constrain(self, stored: FrozenTrial, name: str, violation: float) -> None:
        if name not in stored.constraints:
            optuna.Trial(self.study, stored._trial_id).set_constraint(name, violation)

    def restarted(self, number: int, note: str, *, micro_batch: int = 0, counts: bool) -> None:
        """A process of the trial died; it goes on from its checkpoint.

        Args:
            number: of the trial.
            note: what happened, for the user.
            micro_batch: with which it goes on, 0: unchanged.
            counts: whether the death uses up one that is forgiven.
        """
        said = self.get(number).user_attrs
        changes: dict[str, Any] = {NOTES: [*said.get(NOTES, []), note]}
        if counts:
            changes[RESTARTS] = said.get(RESTARTS, 0) + 1
        if micro_batch:
            changes[MICRO_BATCH] = micro_batch
        self._note(number, changes)

    def forgiven(self, number: int, deaths: int) -> None:
        """Deaths of the trial's processes that were forgiven, over all starts."""
        self._note(number, {RESTARTS: deaths})

    def noted(self, number: int, notes: Sequence[str]) -> None:
        """Keeps what the trial said beside its curve, each sentence once."""
        known = self.get(number).user_attrs.get(NOTES, [])
        fresh = [note for note in dict.fromkeys(notes) if note not in known]
        if fresh:
            self._note(number, {NOTES: [*known, *fresh]})

    def charge(self, number: int, attempt: str, seconds: float, gpus: float) -> None:
        """What a start of the trial has used up so far.

        Args:
            number: of the trial.
            attempt: name of the start; a later charge takes the place of an earlier one.
            seconds: since that start.
            gpus: of all of its workers.
        """
        self._note(number, {COST + attempt: {"seconds": seconds, "gpus": gpus}})

    def prune(self, number: int, reason: str) -> TrialRecord:
        """The trial was stopped at a rung; its curve stays."""
        with self.together():
            self._note(number, {REASON: reason})
            self.study.tell(number, state=Stored.PRUNED)
        return self.record(number)

    def fail(
        self, number: int, reason: str, *, repeats: bool = False, traceback: str = ""
    ) -> TrialRecord:
        """The trial cannot go on.

        Args:
            number: of the trial.
            reason: one line for the user.
            repeats: the same settings would fail again, so they are not run again.
            traceback: where it failed, for whoever has to look.
        """
        notes: dict[str, Any] = {REASON: reason, REPEATS: repeats}
        with self.together():
            self._note(number, {**notes, TRACEBACK: traceback} if traceback else notes)
            self.study.tell(number, state=Stored.FAIL)
        return self.record(number)

    def settle(self, number: int) -> None:
        """Ends a trial whose end is already in its curve: its driver was killed before the tell."""
        stored = self.get(number)
        verdicts = [
            Verdict(**said) for name, said in stored.user_attrs.items() if name.startswith(VERDICT)
        ]
        stopped = [verdict for verdict in verdicts if verdict.stop]
        if stopped:
            self.prune(number, stopped[0].reason)
        elif self.budget in milestones(stored):
            self.complete(number)

    def copy(self, trial: optuna.Trial, twin: FrozenTrial) -> None:
        """Answers a trial with the same settings from the store, so that the sampler moves on."""
        self._mark(trial, twin)
        had = self.get(trial.number)
        for step, value in twin.intermediate_values.items():
            if step not in had.intermediate_values:
                trial.report(value, step)
        for name, violation in twin.constraints.items():
            self._constrain(had, name, violation)
        final = twin.values if twin.state == Stored.COMPLETE else None
        self.study.tell(trial, final, state=twin.state)

    def drop(self, trial: optuna.Trial, twin: FrozenTrial) -> None:
        """Forgets a draw whose settings are being run at this moment."""
        self._mark(trial, twin)
        self.study.tell(trial, state=Stored.FAIL)

    def _mark(self, trial: optuna.Trial, twin: FrozenTrial) -> None:
        if TWIN not in trial.user_attrs:
            trial.set_user_attr(TWIN, twin.number)

    def _note(self, number: int, notes: Mapping[str, Any]) -> None:
        stored = self.get(number)
        trial = optuna.Trial(self.study, stored._trial_id)
        for name, value in notes.items():
            if name in (REASON, TRACEBACK):  # a library's words, which may name a place
                value = without_credentials(value)
            if stored.user_attrs.get(name) != value:
                trial.set_user_attr(name, value)


def _own(trial: FrozenTrial) -> bool:
    attributes = trial.user_attrs
    started = trial.state != Stored.WAITING
    return started and TWIN not in attributes and WARM_FROM not in attributes
