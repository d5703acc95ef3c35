"""The state of a study's runs, between Ray Tune and the trial store; starts no process."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import ray

from sentune.launchers.launch import OpaqueValue
from sentune.launchers.trial_report import Report, reason
from sentune.study.runner.limits import Halt, Limits, Why
from sentune.study.runner.trial_source import Candidate, Source
from sentune.study.schedulers import Verdict
from sentune.study.store.trial_codec import RESTARTS
from sentune.study.store.trial_store import TrialStore
from sentune.training.trial import TrialSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Crash:
    """Why a run's process died.

    Attributes:
        reason: one line for the user.
        out_of_memory: of the host; fewer sentences at a time need less.
        preempted: its machine was taken back, which is no fault of the run.
    """

    reason: str = "its process died"
    out_of_memory: bool = False
    preempted: bool = False


class Control(Protocol):
    """Where running trials ask what they are to do."""

    def ask_to_leave(self) -> None:
        """Ask every run to write a checkpoint and leave."""


class Place(Protocol):
    """Among the studies that share a cluster.

    Attributes:
        most: runs at a time that this study could ever use.
        allowed: of these, for now.
        live: runs that are at work, as the trial runner says.
        wanted: runs that could be at work, likewise.
    """

    most: int
    allowed: int
    live: int
    wanted: int


class Verdicts(Protocol):
    """Told every verdict, for workers that wait for it and leave by themselves."""

    def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """Set the verdict on a trial at a milestone."""

    def forget(self, trial: str) -> None:
        """Drop the verdicts on a trial whose run has ended."""


class TrialRunner:
    """Gives runs to Ray Tune, stores what they report, and decides how each goes on or ends.

    Args:
        store: where everything is kept.
        source: of runs.
        spec_of: the training run of a candidate.
        stored: called with a run's Optuna number when its start, a milestone or its end is stored.
        retire_after: runs after which a worker process is replaced.
        verdicts: None where Tune stops a trial; else trials leave by themselves when told.
        control: asked to send runs home when the study halts; None where none can leave early.
        limits: what ends the study before its source does.
        max_failures: deaths of a run's processes that are forgiven.
        place: of the study among those that share the cluster; None where it is alone.

    Attributes:
        live: Tune's id -> what it runs.
    """

    def __init__(
        self,
        *,
        store: TrialStore,
        source: Source,
        spec_of: Callable[[Candidate], TrialSpec],
        stored: Callable[[int], None],
        retire_after: int,
        verdicts: Verdicts | None = None,
        control: Control | None = None,
        limits: Limits | None = None,
        max_failures: int = 0,
        place: Place | None = None,
    ) -> None:
        self.store, self.source, self.spec_of, self.stored = store, source, spec_of, stored
        self.retire_after, self.verdicts, self.control = retire_after, verdicts, control
        self.limits = limits or Limits()
        self.max_failures, self.place = max_failures, place
        self.live: dict[str, Candidate] = {}
        self.last: dict[int, Report] = {}
        self.stopped: dict[int, str] = {}
        self._again: deque[Candidate] = deque()
        self._given = self._generation = 0
        self._halted = False
        self._forgiven: dict[str, int] = {}

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to run, for good or because the study was halted."""
        if self.live:
            return False
        return self._halted or (self.source.finished and not self._again)

    def give(self, tune_id: str) -> dict[str, Any] | None:
        """The configuration of the next Tune trial; None: wait, or the end (see ``finished``)."""
        candidate = None if self._halted else self._next()
        if candidate is None:
            return None
        if self._given == self.retire_after:
            self._retire()
        self._given += 1
        self.live[tune_id] = candidate
        known = self.store.get(candidate.number).user_attrs
        self._forgiven[tune_id] = known.get(RESTARTS, 0)
        self.stored(candidate.number)
        return {
            "trial": candidate.name,
            "generation": self._generation,
            "spec": OpaqueValue(self.spec_of(candidate)),
        }

    def _next(self) -> Candidate | None:
        live = len(self.live)
        if self.place is not None and live >= self.place.allowed:
            return None
        candidate = self._again.popleft() if self._again else self._fresh(live)
        if self.place is not None:  # without a candidate it needs no more places than it has
            self.place.wanted = max(1, live) if candidate is None else self.place.most
        return candidate

    def _fresh(self, live: int) -> Candidate | None:
        if self.limits.closed():
            self.source.close()
        return self.source.next(live)

    def _retire(self) -> None:
        """Give the next runs new processes; those at work finish theirs."""
        self._given = 0
        self._generation += 1

    def watch(self) -> None:
        """Halt the study where a limit says so; called again and again."""
        if self.place is not None:
            self.place.live = len(self.live)
        if not self._halted and self.limits.watch() is not None:
            self.halt()

    def halt(self, halt: Halt | None = None) -> None:
        """Start no further run; those at work write a checkpoint and leave, to be continued."""
        if halt is not None:
            self.limits.set(halt)
        self._halted = True
        if self.control is not None:
            self.control.ask_to_leave()

    def hear(self, tune_id: str, result: dict[str, Any]) -> bool:
        """Take a result; False if the trial is to stop."""
        report = Report.from_result(result)
        if report is None:  # Tune's own closing entry
            return True
        candidate = self.live[tune_id]
        with self.store.together():
            report, verdict = self._record(tune_id, candidate, report, result)
        if verdict is None:
            if report.poisoned:
                self._retire()
            return self._answer(candidate, report, goes_on=False)
        self.stored(candidate.number)
        if 0 < candidate.stop_at <= report.examples:
            self.last[candidate.number] = replace(report, final=True)
            return self._answer(candidate, report, goes_on=False)
        if verdict.stop:
            self.stopped[candidate.number] = verdict.reason
        return self._answer(candidate, report, goes_on=not verdict.stop)

    def _record(
        self, tune_id: str, candidate: Candidate, report: Report, result: dict[str, Any]
    ) -> tuple[Report, Verdict | None]:
        """The report as it counts, and the verdict; None where the run has failed or left."""
        number = candidate.number
        seconds = float(result.get("time_total_s", report.seconds))
        self.limits.charge(tune_id, seconds * report.gpus)
        self.store.noted(number, report.notes)
        if report.restarts:  # those that a group's own launcher has forgiven, of this start
            self.store.forgiven(number, self._forgiven[tune_id] + report.restarts)
        over = bool(report.failure) or report.left
        if not over and (missing := self.store.missing(report)):
            report, over = replace(report, failure=missing, repeats=True), True
        self.last[number] = report
        if over:
            self.store.charge(number, tune_id, seconds, report.gpus)
            return report, None
        cost = {tune_id: {"seconds": seconds, "gpus": report.gpus}}
        return report, self.store.milestone(number, report, cost)

    def _answer(self, candidate: Candidate, report: Report, *, goes_on: bool) -> bool:
        if self.verdicts is None:
            return goes_on
        self.verdicts.put(candidate.name, report.examples, goes_on)
        return True

    def end(self, tune_id: str, crash: Crash | None = None) -> None:
        """Write how a run ended, or give it out again where it may go on.

        Args:
            tune_id: of the Tune trial.
            crash: why its process died; None if it did not.
        """
        candidate = self.live.pop(tune_id)
        if self.verdicts is not None:
            self.verdicts.forget(candidate.name)
        number = candidate.number
        report, stopped = self.last.pop(number, None), self.stopped.pop(number, "")
        if report is not None and report.failure:
            if report.storage:  # the next trial would meet it too; this one goes on when mended
                self.halt(Halt(why=Why.STORAGE, reason=report.failure))
                return
            if self._fits_smaller(candidate, report):
                return
            self._fail(number, report)
        elif stopped:
            self.store.prune(number, stopped)
        elif report is not None and report.final:
            self.store.complete(number)
        elif report is not None and report.left:
            self._left(candidate, report)
            return
        elif crash is not None and self._goes_on(candidate, crash):
            return
        else:
            self._lost(number, crash)
        self.stored(number)
        self.limits.ended(self.store.record(number))

    def _fail(self, number: int, said: Report) -> None:
        if said.out_of_memory:
            self.store.infeasible(number, said.failure)
        else:
            self.store.fail(number, said.failure, repeats=said.repeats, traceback=said.traceback)

    def _fits_smaller(self, candidate: Candidate, said: Report) -> bool:
        """Return whether a run that met an end of memory is given out again with less at a time."""
        if not (said.out_of_memory and said.micro_batch):
            return False
        note = f"micro-batch {said.micro_batch} from here on: {said.failure}"
        number, size = candidate.number, said.micro_batch
        self.store.restarted(number, note, micro_batch=size, counts=False)
        self._again.append(replace(candidate, micro_batch=size))
        return True

    def _left(self, candidate: Candidate, report: Report) -> None:
        """Give a preempted run out again; the next start goes on with one that was sent home."""
        if report.preempted:
            at = f"{report.examples:,} examples"
            note = f"its machine was taken back; it went on elsewhere from {at}"
            self.store.restarted(candidate.number, note, counts=False)
            self._again.append(candidate)

    def _goes_on(self, candidate: Candidate, crash: Crash) -> bool:
        """Whether a run whose process died is given out again, from its newest checkpoint."""
        number = candidate.number
        smaller = candidate.halved if crash.out_of_memory else None
        if smaller is not None:
            note = f"micro-batch {smaller.micro_batch} from here on: {crash.reason}"
            self.store.restarted(number, note, micro_batch=smaller.micro_batch, counts=False)
            candidate = smaller
        elif crash.out_of_memory and candidate.micro_batch == 1:
            return False
        elif crash.preempted:
            self.store.restarted(number, f"went on elsewhere: {crash.reason}", counts=False)
        elif self.store.get(number).user_attrs.get(RESTARTS, 0) < self.max_failures:
            self.store.restarted(number, f"started again: {crash.reason}", counts=True)
        else:
            return False
        logger.warning("run %s: %s; it goes on from its checkpoint", candidate.name, crash.reason)
        self._again.append(candidate)
        return True

    def _lost(self, number: int, crash: Crash | None) -> None:
        if crash is None:
            self.store.fail(number, "the trial ended before its budget was used up")
        elif crash.out_of_memory:
            self.store.infeasible(number, crash.reason)
        else:
            self.store.fail(number, crash.reason)


def crash_of(error: BaseException | None) -> Crash:
    """Return why a run's process ended, as Ray says it."""
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        told = "out of memory on the host: Ray ended its process before the machine stood still"
        return Crash(reason=told, out_of_memory=True)
    if isinstance(error, ray.exceptions.RayTaskError):
        return Crash(reason=reason(error.cause))
    lines = [line.strip() for line in str(error or "").splitlines() if line.strip()]
    if not lines:
        return Crash()
    preempted = bool(getattr(error, "preempted", False))
    if preempted:
        return Crash(reason="its machine was taken back", preempted=True)
    return Crash(reason=f"its process died: {lines[-1][:300]}")
