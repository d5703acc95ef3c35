"""One study's trials in Optuna's storage: the only place where the state of a search is kept.

Nothing here knows Ray. Whatever ends a driver, the next one reads the ledger and goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.records import TrialRecord, TrialState
from sentune.search.halving import GOES_ON, Halving, Verdict
from sentune.training.launchers.report import Report

SETTINGS, REASON, TWIN, SEED = "settings", "reason", "twin", "seed"
REPEATS, TRACEBACK = "repeats", "traceback"
MILESTONE, VERDICT = "milestone:", "verdict:"

STATES = {
    Stored.RUNNING: TrialState.RUNNING,
    Stored.WAITING: TrialState.RUNNING,
    Stored.COMPLETE: TrialState.COMPLETE,
    Stored.PRUNED: TrialState.PRUNED,
    Stored.FAIL: TrialState.FAILED,
}


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Writes and reads the trials of one Optuna study.

    Attributes:
        study: whose user attributes and intermediate values hold everything.
        objective: metric by which trials are compared.
        mode: ``max`` or ``min``.
        budget: examples of a full trial.
        halving: rungs; None where every trial runs to its end (finalists).
    """

    study: optuna.Study
    objective: str
    mode: str
    budget: int
    halving: Halving | None = None

    def trials(self) -> list[FrozenTrial]:
        """Every trial that was started and is no copy of another one, by number."""
        return [
            trial
            for trial in self.study.get_trials(deepcopy=False)
            if trial.state != Stored.WAITING and TWIN not in trial.user_attrs
        ]

    def records(self) -> list[TrialRecord]:
        """The trials as the summary shows them."""
        return [self.record(trial) for trial in self.trials() if SETTINGS in trial.user_attrs]

    def get(self, number: int) -> FrozenTrial:
        """One trial as it is stored."""
        return self.study.get_trials(deepcopy=False)[number]

    def record(self, trial: FrozenTrial | int) -> TrialRecord:
        """One trial as the summary shows it, from the store alone."""
        stored = self.get(trial) if isinstance(trial, int) else trial
        curve = milestones(stored)
        best = self.best_milestone(curve)
        shown = curve.get(best, {}) if best is not None else {}
        return TrialRecord(
            id=stored.number,
            state=STATES[stored.state],
            settings=stored.user_attrs[SETTINGS],
            reason=stored.user_attrs.get(REASON, ""),
            readouts=shown.get("readouts", {}),
            metrics=shown.get("metrics", {}),
            examples=max(curve, default=0),
            seconds=max((said["seconds"] for said in curve.values()), default=0.0),
            curve={examples: said["metrics"] for examples, said in curve.items()},
        )

    def best_milestone(self, curve: Mapping[int, Mapping[str, Any]]) -> int | None:
        """Examples at which the objective was best, the earliest where several were."""
        values = {at: said["metrics"][self.objective] for at, said in curve.items()}
        if not values:
            return None
        pick = max if self.mode == "max" else min
        return pick(sorted(values), key=lambda at: values[at])

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
            trial.set_user_attr(MILESTONE + at, {**shown, "seconds": report.seconds})
        if report.examples not in stored.intermediate_values:
            trial.report(report.metrics[self.objective], report.examples)
        if VERDICT + at in stored.user_attrs:
            return Verdict(**stored.user_attrs[VERDICT + at])
        verdict = GOES_ON if report.final else self._verdict(number, report.examples)
        trial.set_user_attr(VERDICT + at, {"stop": verdict.stop, "reason": verdict.reason})
        return verdict

    def _verdict(self, number: int, examples: int) -> Verdict:
        if self.halving is None or examples not in self.halving.rungs:
            return GOES_ON
        curves = {trial.number: trial.intermediate_values for trial in self.trials()}
        return self.halving.verdict(curves, number, examples)

    def complete(self, number: int) -> TrialRecord:
        """The trial used up its budget; its value is the objective at its best milestone."""
        curve = milestones(self.get(number))
        best = self.best_milestone(curve)
        if best is None:
            return self.fail(number, f"the trial ended without {self.objective}")
        value = curve[best]["metrics"][self.objective]
        self.study.tell(number, value, state=Stored.COMPLETE)
        return self.record(number)

    def prune(self, number: int, reason: str) -> TrialRecord:
        """The trial was stopped at a rung; its curve stays."""
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
        self._note(number, {REASON: reason, REPEATS: repeats})
        if traceback:
            self._note(number, {TRACEBACK: traceback})
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
        had = self.get(trial.number).intermediate_values
        for step, value in twin.intermediate_values.items():
            if step not in had:
                trial.report(value, step)
        final = twin.value if twin.state == Stored.COMPLETE else None
        self.study.tell(trial, final, state=twin.state)

    def drop(self, trial: optuna.Trial, twin: FrozenTrial) -> None:
        """Forgets a draw whose settings are being run at this moment."""
        self._mark(trial, twin)
        self.study.tell(trial, state=Stored.FAIL)

    def _mark(self, trial: optuna.Trial, twin: FrozenTrial) -> None:
        if TWIN not in trial.user_attrs:
            trial.set_user_attr(TWIN, twin.number)

    def known(self) -> dict[str, FrozenTrial]:
        """Settings whose outcome is known -> trial."""
        return {
            key(trial.params): trial
            for trial in self.trials()
            if trial.state in (Stored.COMPLETE, Stored.PRUNED)
            or (trial.state == Stored.FAIL and trial.user_attrs.get(REPEATS))
        }

    def _note(self, number: int, notes: Mapping[str, Any]) -> None:
        stored = self.get(number)
        trial = optuna.Trial(self.study, stored._trial_id)
        for name, value in notes.items():
            if stored.user_attrs.get(name) != value:
                trial.set_user_attr(name, value)


def milestones(trial: FrozenTrial) -> dict[int, dict[str, Any]]:
    """Examples -> what the trial said there, in order."""
    found = {
        int(name.removeprefix(MILESTONE)): said
        for name, said in trial.user_attrs.items()
        if name.startswith(MILESTONE)
    }
    return dict(sorted(found.items()))


def key(params: Mapping[str, Any]) -> str:
    """Settings as one text, equal for equal settings."""
    return json.dumps(params, sort_keys=True)
