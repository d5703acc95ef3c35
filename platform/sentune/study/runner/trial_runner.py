"""Trial runner: the state of a study's runs between Ray Tune and the trial store."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sentune.launchers.launch import OpaqueValue, halved
from sentune.launchers.trial_report import Report
from sentune.study.runner.limits import Halt, Limits
from sentune.study.runner.trial_source import Candidate, Source
from sentune.study.store.trial_codec import RESTARTS
from sentune.study.store.trial_store import TrialStore
from sentune.training.trial import TrialSpec

if TYPE_CHECKING:
    from sentune.launchers.control_actor import ControlClient
    from sentune.study.runner.sharing import Sharing
    from sentune.study.runner.stalls import StallWatch

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Part of a study with its own source and store of runs: the search or the finals.

    Attributes:
        spec_of: returns the ``TrialSpec`` of a candidate.
        stored: called with a run's Optuna number when its start, a milestone or its end is stored.
    """

    store: TrialStore
    source: Source
    spec_of: Callable[[Candidate], TrialSpec]
    stored: Callable[[int], None]


@dataclass(kw_only=True, eq=False)
class TrialRunner:
    """Gives runs to Ray Tune, stores their reports, and decides how each continues or ends.

    Attributes:
        phases: phases in their order, run by the same worker processes; the next one starts when
            the previous one has no run left.
        retire_after: number of runs after which worker processes are replaced.
        max_failures: deaths of a run's processes after which it is still started again.
        gpus: GPUs of a run's workers until it reports them.
        control: client that asks runs to leave when the study halts; None if runs cannot leave.
        grouped: whether the runs are Ray Train groups, which get their verdicts from ``control``
            and end by themselves; Tune stops other runs.
        saves: whether runs write a checkpoint when they are asked to leave; others are killed if
            a user asks, except groups.
        sharing: limit on runs by the shares of the studies on the cluster; None without others.
        stalls: detection of stalled runs; None if it is off.
        live: Tune's trial id -> its candidate.
        last: Tune's trial id -> last report of its run.
        crashes: name of a run -> why its process died or was ended.
    """

    phases: Iterable[Phase]
    limits: Limits
    retire_after: int
    max_failures: int = 0
    gpus: float = 0.0
    control: ControlClient | None = None
    grouped: bool = False
    saves: bool = True
    sharing: Sharing | None = None
    stalls: StallWatch | None = None
    phase: Phase = field(init=False)
    _phases: Iterator[Phase] = field(init=False)
    live: dict[str, Candidate] = field(default_factory=dict, init=False)
    last: dict[str, Report] = field(default_factory=dict, init=False)
    crashes: dict[str, Report] = field(default_factory=dict, init=False)
    _stopped: dict[str, str] = field(default_factory=dict, init=False)
    _again: deque[Candidate] = field(default_factory=deque, init=False)
    _given: int = field(default=0, init=False)
    _generation: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._phases = iter(self.phases)
        self.phase = next(self._phases)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to run in this phase, or the study was halted."""
        if self.live:
            return False
        return self.limits.halt is not None or (self.phase.source.finished and not self._again)

    def give(self, tune_id: str) -> dict[str, Any] | None:
        """Return the configuration of the next Tune trial; None if there is none now.

        ``finished`` tells whether there may be one later.
        """
        candidate = self._next()
        if candidate is None:
            return None
        if self._given == self.retire_after:
            self._retire()
        self._given += 1
        self.live[tune_id] = candidate
        self.phase.stored(candidate.number)
        return {
            "trial": candidate.name,
            "generation": self._generation,
            "spec": OpaqueValue(self.phase.spec_of(candidate)),
        }

    def _next(self) -> Candidate | None:
        live = len(self.live)
        full = self.sharing is not None and live >= self.sharing.allowed
        if full or self.limits.halt is not None:
            return None
        if self._again:
            candidate: Candidate | None = self._again.popleft()
        else:
            candidate = self._drawn(live)
        if self.sharing is not None:  # without a candidate the study needs no further place
            self.sharing.wanted = max(1, live) if candidate is None else self.sharing.most
        return candidate

    def _drawn(self, live: int) -> Candidate | None:
        """Return the next candidate of this phase, or of a later one if this phase is over."""
        while True:
            source = self.phase.source
            if self.limits.closed(live):
                source.close(orphans=not self.limits.hours_used_up)
            if self.limits.waits:
                return None
            candidate = source.next(live)
            if candidate is not None or not source.finished:
                return candidate
            if (phase := next(self._phases, None)) is None:
                return None
            self.phase = phase

    def _retire(self) -> None:
        """Use new worker processes from the next run on; running ones finish in theirs."""
        self._given = 0
        self._generation += 1

    def watch(self, actors: Callable[[], Mapping[str, Any]] = dict) -> None:
        """Halt the study if a limit is reached, and end stalled runs; called in every turn.

        Args:
            actors: returns name of each run with a process -> actor handle of the process.
        """
        if self.sharing is not None:
            self.sharing.live = len(self.live)
        if (halt := self.limits.watch()) is not None:
            self.halt(halt)
        if self.stalls is not None:
            stalled = self.stalls.look(actors)
            self.crashes |= {name: Report(failure=reason) for name, reason in stalled.items()}
            for tune_id, run in self.live.items():
                if tune_id not in self.limits.gpu_seconds and run.name in self.stalls.beats:
                    self.limits.charge(tune_id, 0.0, self.gpus)

    def halt(self, halt: Halt) -> None:
        """Start no further run, and ask running ones to write a checkpoint and leave."""
        first = self.limits.halt is None
        if first or halt.at_once:
            self.limits.halt = halt
        if first and self.control is not None:
            self.control.ask_to_leave()

    def hear(self, tune_id: str, result: dict[str, Any]) -> bool:
        """Store a result of Tune; return False if Tune must stop the trial."""
        report = Report.from_result(result)
        if report is None:  # Tune's own last result
            return True
        if report.overtaken:  # nothing may be written any more; ``watch`` ends this driver
            self.last[tune_id], self.limits.overtaken = report, report.failure
            return True
        goes_on = self._record(tune_id, report, result)
        if not self.grouped or self.control is None:
            return goes_on
        self.control.put(self.live[tune_id].name, report.examples, goes_on)
        return True

    def _record(self, tune_id: str, report: Report, result: dict[str, Any]) -> bool:
        """Store a report, and return whether the run continues."""
        candidate = self.live[tune_id]
        number = candidate.number
        if not (report.failure or report.left) and (missing := self.phase.store.missing(report)):
            report = replace(report, failure=missing, repeats=True)
        over = bool(report.failure) or report.left
        seconds = float(result.get("time_total_s", report.seconds))
        self.limits.charge(tune_id, seconds, report.gpus)
        self.last[tune_id] = report
        with self.phase.store.together():
            self.phase.store.noted(number, report.notes)
            if over:
                self.phase.store.charge(number, tune_id, seconds, report.gpus)
            else:
                cost = {tune_id: {"seconds": seconds, "gpus": report.gpus}}
                stopped = self.phase.store.milestone(number, report, cost)
        if over:
            if report.poisoned:
                self._retire()
            return False
        self.phase.stored(number)
        if 0 < candidate.stop_at <= report.examples:
            self.last[tune_id] = replace(report, final=True)
            return False
        if stopped:
            self._stopped[tune_id] = stopped
        return not stopped

    def end(self, tune_id: str, crash: Report | None = None) -> None:
        """Store how a run ended, or give it out again.

        Args:
            crash: report of the death of its process, used if ``crashes`` has none; None if the
                process is alive.
        """
        candidate = self.live.pop(tune_id)
        number = candidate.number
        report, stopped = self.last.pop(tune_id, Report()), self._stopped.pop(tune_id, "")
        seconds, gpus = self.limits.over(tune_id)
        if self.stalls is not None:
            self.stalls.forget(candidate.name)
        if report.died or report.micro_batch:  # it may start again
            report, crash = Report(), report
        known = self.crashes.pop(candidate.name, crash)
        crash = known if crash is not None else None
        if self.control is not None:
            self.control.forget(candidate.name)
        if report.overtaken:
            return
        if crash is not None and gpus:
            self.limits.gpu_seconds[tune_id] = seconds * gpus
            self.phase.store.charge(number, tune_id, seconds, gpus)
        if report.storage:  # it would hit the next trial, too; this one continues once it is fixed
            self.halt(Halt(state="failed", reason=report.failure))
            return
        if report.anew and not candidate.stop_at:  # a segment of a population cannot
            candidate = replace(candidate, start_from="", start_at=0)
            self._give_again(candidate, f"again from its beginning: {report.failure}", anew=True)
            return
        if report.failure:
            self._fail(number, report)
        elif stopped:
            self.phase.store.prune(number, stopped)
        elif report.final:
            self.phase.store.complete(number)
        elif report.left:  # the next start continues a run that was asked to leave
            if report.departure:
                self._give_again(candidate, report.departure)
            return
        elif crash is None:
            self.phase.store.fail(number, "the trial ended before its budget was used up")
        elif self._goes_on(candidate, crash):
            return
        else:
            self._fail(number, crash)
        self.phase.stored(number)
        self.limits.ended.append(self.phase.store.record(number))

    def _fail(self, number: int, why: Report) -> None:
        if why.out_of_memory:
            self.phase.store.infeasible(number, why.failure)
        else:
            self.phase.store.fail(number, why.failure, repeats=why.repeats, traceback=why.traceback)

    def _give_again(
        self, candidate: Candidate, note: str, *, counts: bool = False, anew: bool = False
    ) -> None:
        """Queue a run again, from its newest checkpoint or ``anew`` from its beginning."""
        self.phase.store.restarted(
            candidate.number, note, micro_batch=candidate.micro_batch, counts=counts, anew=anew
        )
        self._again.append(candidate)

    def _goes_on(self, candidate: Candidate, crash: Report) -> bool:
        """Queue a run again whose process died; return False if it must end."""
        half = crash.micro_batch or (crash.out_of_memory and halved(self.phase.spec_of(candidate)))
        forgiven = self.phase.store.get(candidate.number).user_attrs.get(RESTARTS, 0)
        if half:
            note = f"micro-batch {half} from here on: {crash.failure}"
            self._give_again(replace(candidate, micro_batch=half), note)
        elif crash.out_of_memory and candidate.micro_batch == 1:
            return False
        elif crash.preempted:
            self._give_again(candidate, f"went on elsewhere: {crash.failure}")
        elif forgiven < self.max_failures:
            self._give_again(candidate, f"started again: {crash.failure}", counts=True)
        else:
            return False
        how = "from its newest checkpoint, if it has one" if self.saves else "from its beginning"
        logger.warning("run %s: %s; it starts again %s", candidate.name, crash.failure, how)
        return True
