"""One study's trials in Optuna's storage: the only place where the state of a search is kept.

This module does not depend on Ray. After any end of a driver, the next one reads the trials and
continues. In a journal all writes of a step are one batch. In a database each is a transaction of
its own, and the next start adds those that a kill left out (``settle``).
"""

from __future__ import annotations

import copy
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as Stored

from sentune.credentials import without_credentials
from sentune.launchers.trial_report import Report
from sentune.records import TrialRecord
from sentune.study.schedulers import NO_RUNGS, Scheduler
from sentune.study.space.objectives import Constraint, Objective
from sentune.study.store import trial_codec as codec
from sentune.study.store.journal import StudyJournal


@dataclass(frozen=True, kw_only=True)
class TrialStore:
    """Writes and reads the trials of one Optuna study.

    Attributes:
        objectives: objectives of the search; rungs and the best milestone use the first.
        budget: examples of a full trial.
        scheduler: stops trials at rungs; by default every trial runs to its end, as in the finals.
        constraints: limits on metrics; the sampler learns which trials violate one.
    """

    study: optuna.Study
    storage: BaseStorage
    objectives: Sequence[Objective]
    budget: int
    scheduler: Scheduler = NO_RUNGS
    constraints: Sequence[Constraint] = ()
    _ended: dict[int, TrialRecord] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _id(self) -> int:
        return self.storage.get_study_id_from_name(self.study.study_name)

    @property
    def first(self) -> Objective:
        """The first objective, by which rungs and milestones are compared."""
        return self.objectives[0]

    def together(self) -> AbstractContextManager[None]:
        """Write everything inside the block as one batch of a journal, all or nothing."""
        storage = self.storage
        return storage.together() if isinstance(storage, StudyJournal) else nullcontext()

    def all_trials(self) -> list[FrozenTrial]:
        """Return every stored trial, by number."""
        return self.storage.get_all_trials(self._id, deepcopy=False)

    def trials(self) -> list[FrozenTrial]:
        """Return every trial that was started in this study and is not a copy, by number."""
        return [trial for trial in self.all_trials() if codec.own(trial)]

    def records(self) -> list[TrialRecord]:
        """Return the records of all trials, including those taken over from other studies."""
        return [self.record(trial) for trial in self.all_trials() if codec.known(trial)]

    def _place(self, number: int) -> int:
        return self.storage.get_trial_id_from_study_id_trial_number(self._id, number)

    def get(self, number: int) -> FrozenTrial:
        """Return one trial as it is stored."""
        return self.storage.get_trial(self._place(number))

    def record(self, trial: FrozenTrial | int) -> TrialRecord:
        """Return the record of one trial, as the summary shows it."""
        number = trial if isinstance(trial, int) else trial.number
        if number not in self._ended:
            stored = self.get(trial) if isinstance(trial, int) else trial
            record = codec.record_of(stored, self.first)
            if not stored.state.is_finished():
                return record
            self._ended[number] = record  # it never changes again
        return self._ended[number]

    def create(
        self,
        params: dict[str, Any],
        distributions: dict[str, BaseDistribution],
        *,
        settings: Mapping[str, Any],
        seed: int,
        attributes: Mapping[str, Any] | None = None,
    ) -> int:
        """Store a running trial in one write, and return its number.

        Args:
            params: drawn values, from the distributions of the same names.
            settings: all settings of the trial, drawn and fixed.
        """
        template = create_trial(
            state=Stored.RUNNING,
            params=params,
            distributions=distributions,
            user_attrs={**(attributes or {}), codec.SEED: seed, codec.SETTINGS: dict(settings)},
        )
        return self.add(template)

    def add(self, template: FrozenTrial) -> int:
        """Store a trial as it is, in one write, and return its number."""
        template.set_user_attr(codec.TOKEN, uuid.uuid4().hex)
        place = self.storage.create_new_trial(self._id, template)
        return self.storage.get_trial_number_from_id(place)

    def milestone(self, number: int, report: Report, cost: Mapping[str, Any] | None = None) -> str:
        """Store a milestone, and return why the trial stops there; empty if it continues.

        The same report may come again after a restart; the first verdict stands.

        Args:
            cost: start of the trial -> its seconds and GPUs; see ``charge``.
        """
        name, stored = f"{codec.MILESTONE}{report.examples:012d}", self.get(number)
        point = stored.user_attrs.get(name)
        with self.together():
            if point is None:
                reason = "" if report.final else self._verdict(stored, report)
                point = {
                    "metrics": report.metrics,
                    "readouts": report.readouts,
                    "seconds": report.seconds,
                    "time": time.time(),
                    **({codec.TRACE: report.trace} if report.trace else {}),
                    "verdict": {"stop": bool(reason), "reason": reason},
                    **({"cost": dict(cost)} if cost else {}),
                }
                self._note(number, {name: point})
            elif cost:
                self._note(number, {codec.COST + attempt: spent for attempt, spent in cost.items()})
            self._point(stored, report.examples, point)
        return str(point["verdict"]["reason"])

    def _point(self, stored: FrozenTrial, examples: int, point: Mapping[str, Any]) -> None:
        """Store a point of the curve for Optuna's samplers and plots, if there is one objective."""
        if len(self.objectives) == 1 and examples not in stored.intermediate_values:
            value = float(point["metrics"][self.first.metric])
            self.storage.set_trial_intermediate_value(self._place(stored.number), examples, value)

    def missing(self, report: Report) -> str:
        """Return which metrics that the study needs are missing or not finite; empty if none."""
        metrics = {o.metric for o in self.objectives} | {c.metric for c in self.constraints}
        wrong = sorted(m for m in metrics if not math.isfinite(report.metrics.get(m, math.nan)))
        if not wrong:
            return ""
        listed = ", ".join(f"{m} is {report.metrics.get(m, 'not measured')}" for m in wrong)
        return f"{listed} at {report.examples:,} examples; measured: {', '.join(report.metrics)}"

    def _verdict(self, stored: FrozenTrial, report: Report) -> str:
        if report.examples not in self.scheduler.rungs or codec.TO_END in stored.user_attrs:
            return ""
        parent = stored.user_attrs.get(codec.PARENT)  # was promoted from these rungs
        if parent is not None and report.examples <= codec.stopped_at(self.get(parent)):
            return ""
        now = copy.copy(stored)
        if len(self.objectives) == 1:
            reached = {report.examples: report.metrics[self.first.metric]}
            now.intermediate_values = {**stored.intermediate_values, **reached}
        # later trials change no verdict, not even where they repeat an earlier trial's milestones
        earlier = (trial for trial in self.trials() if trial.number < stored.number)
        curves = codec.curves_of([*earlier, now])
        return self.scheduler.verdict(curves, stored.number, report.examples)

    def complete(self, number: int) -> TrialRecord:
        """End a trial that used up its budget, with the objectives at its best milestone.

        The milestones of the trials that it continues count too.
        """
        best = codec.best_of_chain(self.get(number), self.first)
        metrics = best.get("metrics", {})
        if missing := [o.metric for o in self.objectives if o.metric not in metrics]:
            reason = f"the trial ended without {', '.join(missing)}"
            return self.fail(number, reason, repeats=bool(best))
        values = [float(metrics[objective.metric]) for objective in self.objectives]
        violations = {str(c): c.violation(metrics) for c in self.constraints}
        return self._end(number, Stored.COMPLETE, values=values, constraints=violations)

    def infeasible(self, number: int, reason: str) -> TrialRecord:
        """End a trial that ran out of memory at its smallest micro-batch; samplers learn of it."""
        return self._end(number, Stored.PRUNED, constraints={codec.MEMORY: 1.0}, reason=reason)

    def prune(self, number: int, reason: str) -> TrialRecord:
        """End a trial that was stopped at a rung; its milestones stay."""
        return self._end(number, Stored.PRUNED, reason=reason)

    def fail(
        self, number: int, reason: str, *, repeats: bool = False, traceback: str = ""
    ) -> TrialRecord:
        """End a trial that cannot continue; if it ``repeats``, its settings are not run again."""
        more: dict[str, Any] = {codec.TRACEBACK: traceback} if traceback else {}
        return self._end(number, Stored.FAIL, reason=reason, repeats=repeats, **more)

    def _end(
        self,
        number: int,
        state: Stored,
        *,
        values: Sequence[float] | None = None,
        constraints: Mapping[str, float] | None = None,
        **notes: Any,
    ) -> TrialRecord:
        """Store how a trial ends, then set its state.

        The value of a stopped trial is the last point of its curve, as for Optuna's samplers.
        """
        notes = without_credentials(notes)  # a library's message may contain a URL
        with self.together():
            stored = self.get(number)
            if state == Stored.PRUNED and stored.intermediate_values:
                values = [stored.intermediate_values[max(stored.intermediate_values)]]
            notes |= {"values": values, "constraints": dict(constraints or {})}
            end = {"state": state.name, **notes}
            self._note(number, {codec.END: end})
            self._conclude(stored, end)
        return self.record(number)

    def _conclude(self, stored: FrozenTrial, end: Mapping[str, Any]) -> None:
        """Set the constraints and the state of a trial, as its attribute ``END`` says."""
        place = self._place(stored.number)
        attributes = create_trial(state=Stored.FAIL, constraints=end["constraints"]).system_attrs
        for name, violation in attributes.items():
            if name not in stored.system_attrs:
                self.storage.set_trial_system_attr(place, name, violation)
        self.storage.set_trial_state_values(place, Stored[end["state"]], end["values"])

    def restarted(
        self, number: int, note: str, *, micro_batch: int = 0, counts: bool, anew: bool = False
    ) -> None:
        """Store that a trial is started again, with a note for the user.

        Args:
            micro_batch: sentences at a time from now on; 0 leaves them unchanged.
            counts: whether this counts towards ``StudyConfig.max_failures``.
            anew: whether it starts at 0 examples instead of at another trial's checkpoint.
        """
        attributes = self.get(number).user_attrs
        changes: dict[str, Any] = {codec.MICRO_BATCH: micro_batch} if micro_batch else {}
        if anew:
            changes |= {codec.BEGUN_AT: 0, codec.INHERITED: {}}
        if counts:
            changes[codec.RESTARTS] = attributes.get(codec.RESTARTS, 0) + 1
        self._note(number, {**changes, codec.NOTES: [*attributes.get(codec.NOTES, []), note]})

    def noted(self, number: int, notes: Sequence[str]) -> None:
        """Store notes of a trial, each sentence once."""
        known = self.get(number).user_attrs.get(codec.NOTES, [])
        fresh = [note for note in dict.fromkeys(notes) if note not in known]
        if fresh:
            self._note(number, {codec.NOTES: [*known, *fresh]})

    def charge(self, number: int, attempt: str, seconds: float, gpus: float) -> None:
        """Store the seconds and GPUs that one start of a trial used, replacing its last charge.

        Args:
            attempt: name of the start, as in the ``cost`` of a milestone.
        """
        self._note(number, {codec.COST + attempt: {"seconds": seconds, "gpus": gpus}})

    def settle(self, number: int) -> None:
        """Add the writes of a trial that a killed driver left out; end it if its end is stored."""
        stored = self.get(number)
        curve = codec.milestones(stored)
        stops = [point["verdict"] for point in curve.values() if point["verdict"]["stop"]]
        with self.together():
            for examples, point in curve.items():
                self._point(stored, examples, point)
            if codec.END in stored.user_attrs:
                self._conclude(stored, stored.user_attrs[codec.END])
            elif stops:
                self.prune(number, stops[0]["reason"])
            elif self.budget in curve:
                self.complete(number)

    def _note(self, number: int, notes: Mapping[str, Any]) -> None:
        """Store the user attributes that differ from the stored ones."""
        known, place = self.get(number).user_attrs, self._place(number)
        for name, value in notes.items():
            if known.get(name) != value:
                self.storage.set_trial_user_attr(place, name, value)
