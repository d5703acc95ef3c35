"""Tune's view of a study: a searcher that gives out trials and a scheduler that hears of them.

Tune tells a searcher only that a trial has ended; its scheduler hears every result first and so
writes the curve. Both are thin: the state is in the ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import ray
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from sentune.search.ledger import Ledger
from sentune.search.source import Candidate, Source
from sentune.training.launchers.report import Report, reason
from sentune.training.launchers.sealed import Sealed
from sentune.training.trial import TrialSpec

logger = logging.getLogger(__name__)


class Events(Protocol):
    """Told by the conductor, by Optuna number."""

    def started(self, number: int) -> None:
        """A run starts or goes on."""

    def progressed(self, number: int, report: Report) -> None:
        """A run has reached a milestone, which is stored."""

    def ended(self, number: int) -> None:
        """A run is over, which is stored."""


class Judge(Protocol):
    """Told every verdict, for workers that wait for it and leave by themselves."""

    def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """The verdict on a trial at a milestone."""


class Conductor:
    """What happens to a study's runs, between Tune and the ledger.

    Args:
        ledger: where everything is kept.
        source: of runs.
        spec_of: the training run of a candidate.
        events: who is told.
        retire_after: runs after which a worker process is replaced.
        judge: None where Tune stops a trial; else trials leave by themselves when told.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        source: Source,
        spec_of: Callable[[Candidate], TrialSpec],
        events: Events,
        retire_after: int,
        judge: Judge | None = None,
    ) -> None:
        self.ledger, self.source, self.spec_of, self.events = ledger, source, spec_of, events
        self.retire_after, self.judge = retire_after, judge
        self.live: dict[str, Candidate] = {}
        self.last: dict[int, Report] = {}
        self.stopped: dict[int, str] = {}
        self._given = self._generation = 0

    def give(self, tune_id: str) -> dict[str, Any] | str | None:
        """The configuration of the next Tune trial, ``Searcher.FINISHED`` or None to wait."""
        candidate = self.source.next(len(self.live))
        if candidate is None:
            return Searcher.FINISHED if self.source.finished else None
        if self._given == self.retire_after:
            self._retire()
        self._given += 1
        self.live[tune_id] = candidate
        self.events.started(candidate.number)
        return {
            "trial": candidate.name,
            "generation": self._generation,
            "spec": Sealed(self.spec_of(candidate)),
        }

    def _retire(self) -> None:
        """Runs from here on get new processes; those at work finish theirs."""
        self._given = 0
        self._generation += 1

    def hear(self, tune_id: str, result: dict[str, Any]) -> bool:
        """Takes a result; False if the trial is to stop."""
        report = Report.from_result(result)
        if report is None:  # Tune's own closing entry
            return True
        candidate = self.live[tune_id]
        self.last[candidate.number] = report
        if report.failure:
            if report.poisoned:
                self._retire()
            return self._answer(candidate, report, goes_on=False)
        verdict = self.ledger.milestone(candidate.number, report)
        self.events.progressed(candidate.number, report)
        if verdict.stop:
            self.stopped[candidate.number] = verdict.reason
        return self._answer(candidate, report, goes_on=not verdict.stop)

    def _answer(self, candidate: Candidate, report: Report, *, goes_on: bool) -> bool:
        if self.judge is None:
            return goes_on
        self.judge.put(candidate.name, report.examples, goes_on)
        return True

    def end(self, tune_id: str, crash: str) -> None:
        """Writes how a run ended.

        Args:
            tune_id: of the Tune trial.
            crash: why its process died; empty if it did not.
        """
        number = self.live.pop(tune_id).number
        report = self.last.pop(number, None)
        stopped = self.stopped.pop(number, "")
        if report is not None and report.failure:
            said = report
            self.ledger.fail(number, said.failure, repeats=said.repeats, traceback=said.traceback)
        elif stopped:
            self.ledger.prune(number, stopped)
        elif report is not None and report.final:
            self.ledger.complete(number)
        else:
            self.ledger.fail(number, crash or "the trial ended before its budget was used up")
        self.events.ended(number)


class _LeftOut:
    """Tune pickles searcher and scheduler into a snapshot, which is never restored here.

    Nothing of them goes into it: the listeners behind a conductor hold threads and terminals.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {}


class StudySearcher(_LeftOut, Searcher):
    """Gives Tune the runs of a conductor."""

    def __init__(self, conductor: Conductor, crashes: dict[str, str]) -> None:
        super().__init__()
        self.conductor, self.crashes = conductor, crashes

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        """The next run."""
        return self.conductor.give(trial_id)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """A run is over."""
        del result
        crash = self.crashes.pop(trial_id, "its process died") if error else ""
        self.conductor.end(trial_id, crash)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the state is in Optuna's storage, and Tune's snapshots are never restored."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, as above."""


class StudyScheduler(_LeftOut, FIFOScheduler):
    """Hears every result before Tune's searcher does."""

    def __init__(self, conductor: Conductor, crashes: dict[str, str]) -> None:
        super().__init__()
        self.conductor, self.crashes = conductor, crashes

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Stores the milestone and stops what its rung stops."""
        goes_on = self.conductor.hear(trial.trial_id, result)
        return str(TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Keeps why a process died; the searcher is told next, without a reason."""
        file = trial.pickled_error_file
        error = ray.cloudpickle.loads(Path(file).read_bytes()) if file else None
        self.crashes[trial.trial_id] = crash_reason(error)


def crash_reason(error: BaseException | None) -> str:
    """Why a trial's process ended, in one line."""
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return "out of memory on the host: Ray ended its process before the machine stood still"
    if isinstance(error, ray.exceptions.RayTaskError):
        return reason(error.cause)
    told = [line.strip() for line in str(error or "").splitlines() if line.strip()]
    return f"its process died: {told[-1][:300]}" if told else "its process died"
