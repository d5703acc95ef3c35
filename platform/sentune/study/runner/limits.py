"""Limits that end a study early: its budget, a request to stop, or too many failed trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sentune.errors import Overtaken
from sentune.records import Spent, TrialRecord, TrialState, with_ends
from sentune.study.config import Budget
from sentune.study.store.trial_codec import drawn

if TYPE_CHECKING:
    from sentune.study.store.driver_lock import DriverLock
    from sentune.study.store.trial_store import TrialStore

FEWEST = 5
"""Trials that must have ended before the share of failures may end a study."""


def expected_rest(
    records: Sequence[TrialRecord],
    runs: int,
    max_examples: int,
    concurrent: int,
    rests: Sequence[float] = (),
) -> Spent:
    """Return the expected hours and GPU hours of the running trials and, after them, the finals.

    The costs of complete trials are extrapolated; without any, those of all trials. Before the
    first example the result is zero. Each part of a continued trial counts; trials of other studies
    do not.

    Args:
        runs: runs of the finals.
        max_examples: examples of a full run.
        rests: remaining share of a full run, for each running trial.
    """
    seen = [r for r in records if r.examples and not r.source]
    known = [r for r in seen if r.state is TrialState.COMPLETE] or seen
    if not known:
        return Spent()
    runs_seen = sum(r.examples - r.begun_at for r in known) / max_examples
    rounds, whole = -(-runs // max(1, concurrent)) + max(rests, default=0.0), runs + sum(rests)
    return Spent(
        hours=rounds * sum(r.seconds for r in known) / runs_seen / 3600,
        gpu_hours=whole * sum(r.gpu_seconds for r in known) / runs_seen / 3600,
    )


@dataclass(frozen=True, kw_only=True)
class Halt:
    """An early end of a study.

    Attributes:
        state: ``stopped``, ``interrupted`` or ``failed``.
        reason: a sentence for the user; empty if the state says everything.
        at_once: whether trials are killed instead of asked for a checkpoint.
    """

    state: str
    reason: str
    at_once: bool = False

    @property
    def requested(self) -> bool:
        """Whether somebody asked for it: by a signal, or by ``sentune study stop``."""
        return self.state == "interrupted" or self.reason == STOPPED.reason


STOPPED = Halt(state="stopped", reason="stopped by `sentune study stop`")


class Alone:
    """A ``DriverLock`` without a lock, for a study in memory: it only counts the hours."""

    signal, lost, lost_because, generation = "", False, "", 0

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def hours(self) -> float:
        """Hours since this object was created."""
        return (time.monotonic() - self._started) / 3600


class Limits:
    """Budget of a study, the resources that it has used, and why it ends.

    Args:
        budget: budget of all starts together.
        held: the driver's lock; None if no other process can see the study.
        finals: runs of the finals, for which hours and GPU hours are reserved.
        failed_share: share of failed trials above which the study ends.

    Attributes:
        gpu_seconds: start of a run -> GPU seconds of its last charge.
        ended: records of the runs that ended in this start.
        hours_used_up: whether hours or GPU hours have closed the search. Then trials that an
            earlier start left unfinished are given up, too.
        waits: whether no further run starts until a running one has ended, because the GPU hours
            may not suffice for all of them and the finals.
        ended_early: why the search ended before its planned trials; empty if it did not.
        halt: why the whole study ends; None while it does not.
        overtaken: message of a trial that met a later start of the study; empty if none did.
    """

    def __init__(
        self,
        store: TrialStore,
        *,
        budget: Budget | None = None,
        held: DriverLock | Alone | None = None,
        finals: int = 0,
        concurrent: int = 1,
        failed_share: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._budget, self._held = store, budget or Budget(), held or Alone()
        self._finals, self._concurrent, self._failed_share = finals, concurrent, failed_share
        self._gpu_hours = sum(record.gpu_seconds for record in store.records()) / 3600
        self._closed, self.hours_used_up, self.waits = "", False, False
        self.gpu_seconds: dict[str, float] = {}
        self._clock, self._at_work = clock, dict[str, tuple[float, float, float]]()
        self.ended: list[TrialRecord] = []
        self.ended_early = self.overtaken = ""
        self.halt: Halt | None = None

    def begin_finals(self, gpu_hours: float) -> None:
        """Switch to the finals, which have used so many GPU hours in earlier starts."""
        self._gpu_hours = self.used().gpu_hours + gpu_hours
        self.gpu_seconds.clear()
        self.ended.clear()
        self._budget = replace(self._budget, max_trials=None, no_gain=None)
        self._finals, self._closed, self.hours_used_up = 0, "", False

    def used(self) -> Spent:
        """Return hours and GPU hours of all starts, without a store: every turn calls this."""
        now, charged = self._clock(), sum(self.gpu_seconds.values())
        since = sum((now - at) * gpus for at, _, gpus in self._at_work.values())
        gpu_hours = self._gpu_hours + (charged + since) / 3600
        return Spent(hours=self._held.hours, gpu_hours=gpu_hours)

    def charge(self, start: str, seconds: float, gpus: float) -> None:
        """Record the seconds so far of a start of a run; its GPUs count on until ``over``."""
        self.gpu_seconds[start] = seconds * gpus
        self._at_work[start] = self._clock(), seconds, gpus

    def over(self, start: str) -> tuple[float, float]:
        """Stop counting a start of a run; return its seconds until now and its GPUs."""
        at, seconds, gpus = self._at_work.pop(start, (self._clock(), 0.0, 0.0))
        return seconds + self._clock() - at, gpus

    def closed(self, live: int = 0) -> str:
        """Return why no further run may start; empty if one may.

        The ``live`` running ones continue in any case.
        """
        if self._budget != Budget() and not self.hours_used_up:
            store, records = self._store, self._store.records()
            spent = replace(self.used(), trials=sum(map(drawn, store.trials())))
            ended = any(record.state is TrialState.COMPLETE for record in records)
            rests = [] if ended else [1.0]  # one trial of the search must reach its end
            if self._finals:
                running = [r for r in records if r.state is TrialState.RUNNING]
                rests = [1 - record.examples / store.budget for record in running]
                rests += [] if len(running) > live else [1.0]  # orphans start before a new one
            expected = partial(expected_rest, records, self._finals, store.budget, self._concurrent)
            reserve = expected([max(rests, default=0.0)])
            timed = replace(self._budget, max_trials=None)
            hours = timed.exhausted(spent, reserve)
            self.hours_used_up = bool(hours)
            self._closed = (
                hours
                or self._closed
                or self._budget.exhausted(spent, reserve)
                or self._budget.no_gain_in(with_ends(records), *store.objectives)
            )
            self.ended_early = self._closed or self.ended_early
            full = live and not hours and timed.exhausted(spent, expected(rests))
            self.waits = bool(full)
        return self._closed

    def check(self) -> None:
        """Raise ``Overtaken`` if another driver has the study; a trial may notice that first."""
        if self.overtaken or self._held.lost:
            why = self.overtaken or self._held.lost_because
            raise Overtaken(f"this driver has lost its study and has stopped: {why}")

    def watch(self) -> Halt | None:
        """Return why the whole study must end now; None if it need not.

        A study that halts already may be asked to end at once.

        Raises:
            Overtaken: another driver has taken over the study; nothing may be written any more.
        """
        self.check()
        at_once = self._held.signal == "stop now"
        if self.halt is not None:
            return replace(self.halt, at_once=self.halt.at_once or at_once)
        if self._held.signal:
            return replace(STOPPED, at_once=at_once)
        if reason := replace(self._budget, max_trials=None).exhausted(self.used(), Spent()):
            return Halt(state="stopped", reason=reason)
        failed, count = [r for r in self.ended if r.state is TrialState.FAILED], len(self.ended)
        if count < FEWEST or len(failed) <= self._failed_share * count:
            return None
        reasons = sorted({r.reason for r in failed})
        more = f" (and {len(reasons) - 3} more reasons)" if len(reasons) > 3 else ""
        share = f"more than a share of {self._failed_share:g}"
        reason = f"{len(failed)} of {count} trials failed, {share}: {'; '.join(reasons[:3])}{more}"
        return Halt(state="failed", reason=reason)
