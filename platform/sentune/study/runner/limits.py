"""What ends a study early: a budget that is used up, a request to stop, too many failed trials."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from operator import ge
from typing import TYPE_CHECKING

from sentune.errors import InvalidValue, Overtaken
from sentune.records import Spent, TrialRecord, TrialState
from sentune.study.space.objectives import Objective

if TYPE_CHECKING:
    from sentune.study.store.driver_lock import DriverLock
    from sentune.study.store.trial_store import TrialStore

FEWEST = 5
"""Trials that must have ended before their share of failures ends a study."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of a study over all of its starts; None: no such limit.

    ``max_trials`` counts those of the search, ``max_hours`` wall time in which a driver runs it,
    ``max_gpu_hours`` also finalists; ``no_gain`` trials in a row without a new best end the search.
    """

    max_trials: int | None = None
    max_hours: float | None = None
    max_gpu_hours: float | None = None
    no_gain: int | None = None

    def __post_init__(self) -> None:
        options = ("--max-trials", "--max-hours", "--max-gpu-hours", "--stop-after-no-gain")
        for option, value in zip(options, astuple(self), strict=True):
            if value is not None and value <= 0:
                raise InvalidValue(option, value, "give more than 0, or leave it out")

    def exhausted(self, spent: Spent, reserve: Spent) -> str:
        """Return which limit is used up, in a sentence; empty while there is room.

        ``reserve`` is kept free for the finals, beside what is ``spent`` so far.
        """
        for option, unit, most, used, kept in (
            ("--max-trials", "trials", self.max_trials, spent.trials, 0.0),
            ("--max-hours", "hours", self.max_hours, spent.hours, reserve.hours),
            ("--max-gpu-hours", "GPU hours", self.max_gpu_hours, spent.gpu_hours,
             reserve.gpu_hours),
        ):  # fmt: skip
            if most is not None and used + kept >= most:
                free = f", {round(kept, 2):g} are kept for the finals" if kept else ""
                return f"{option} {most:g} is used up: {round(used, 2):g} {unit} so far{free}"
        return ""

    def no_gain_in(self, records: Sequence[TrialRecord], *objectives: Objective) -> str:
        """Return why more trials are not worth it, in a sentence; empty while they may be.

        Trials are taken in the order of their numbers; those that run or have failed are not
        counted. With several objectives a trial is a gain where none before it is at least as
        good in all of them.
        """
        if self.no_gain is None:
            return ""
        best: list[tuple[float, ...]] = []
        without = 0
        for record in records:
            if record.state in (TrialState.RUNNING, TrialState.FAILED):
                continue
            without += 1
            if record.state is TrialState.COMPLETE and record.feasible:
                point = tuple(objective.of(record.metrics) for objective in objectives)
                if not any(all(map(ge, other, point)) for other in best):
                    best = [other for other in best if not all(map(ge, point, other))] + [point]
                    without = 0
        if without < self.no_gain:
            return ""
        found = f"{without} trials in a row found nothing better"
        return f"--stop-after-no-gain {self.no_gain}: {found}"


def expected_finals(
    records: Sequence[TrialRecord], runs: int, max_examples: int, concurrent: int
) -> Spent:
    """Return what the runs of the finals will use up, by the seconds an example of complete trials.

    Before the first complete trial the others count; before the first example it is nothing.
    """
    seen = [r for r in records if r.examples]
    known = [r for r in seen if r.state is TrialState.COMPLETE] or seen
    if not known:
        return Spent()
    runs_seen = sum(r.examples for r in known) / max_examples
    rounds = -(-runs // max(1, concurrent))
    return Spent(
        examples=runs * max_examples,
        hours=rounds * sum(r.seconds for r in known) / runs_seen / 3600,
        gpu_hours=runs * sum(r.gpu_seconds for r in known) / runs_seen / 3600,
    )


class Why(StrEnum):
    """Causes of an early end."""

    BUDGET = "budget"
    ASKED = "asked"
    INTERRUPTED = "interrupted"
    FAILURES = "failures"
    STORAGE = "storage"


@dataclass(frozen=True, kw_only=True)
class Halt:
    """An early end of a study; ``reason`` is a sentence for the user."""

    why: Why
    reason: str


class Alone:
    """A ``DriverLock`` without a lock, for a study in memory: it only counts the hours."""

    signal, lost, lost_because, generation = "", False, "", 0

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def hours(self) -> float:
        """Hours since it was made."""
        return (time.monotonic() - self._started) / 3600


class Limits:
    """What a study may use up, what it has used up, and why it ends.

    Args:
        store: of the search.
        budget: of all starts together.
        held: the driver's lock; None: no other process can see the study.
        finals: runs after the search, for which hours and GPU hours are kept free.
        concurrent: runs at a time.
        failed_share: share of failed trials above which the study ends.

    Attributes:
        gpu_seconds: start of a run -> what it has used up so far.
        ended: runs that are over, of this start.
        ended_early: why the search ended before its planned trials; empty if it did not.
        halt: why everything ends; None while it does not.
        overtaken: what a trial has met of a later start of the study; empty while it has not.
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
    ) -> None:
        self._store, self._budget, self._held = store, budget or Budget(), held or Alone()
        self._finals, self._concurrent, self._failed_share = finals, concurrent, failed_share
        self._gpu_hours = sum(record.gpu_seconds for record in store.records()) / 3600
        self._closed = ""
        self.gpu_seconds: dict[str, float] = {}
        self.ended: list[TrialRecord] = []
        self.ended_early = self.overtaken = ""
        self.halt: Halt | None = None

    def begin_finals(self, gpu_hours: float) -> None:
        """Go on with the finals, in which earlier starts have used up so many GPU hours."""
        self._gpu_hours = self.used().gpu_hours + gpu_hours
        self.gpu_seconds.clear()
        self.ended.clear()
        self._budget = replace(self._budget, max_trials=None, no_gain=None)
        self._finals, self._closed = 0, ""

    def used(self) -> Spent:
        """Return hours and GPU hours of all starts; asked for every turn, so no store is read."""
        gpu_hours = self._gpu_hours + sum(self.gpu_seconds.values()) / 3600
        return Spent(hours=self._held.hours, gpu_hours=gpu_hours)

    def closed(self) -> str:
        """Return why no further run is started while those at work may go on; else empty."""
        if self._budget != Budget() and not self._closed:
            store, records = self._store, self._store.records()
            spent = replace(self.used(), trials=len(store.trials()))
            reserve = expected_finals(records, self._finals, store.budget, self._concurrent)
            self._closed = self._budget.exhausted(spent, reserve) or self._budget.no_gain_in(
                records, *store.objectives
            )
            self.ended_early = self._closed or self.ended_early
        return self._closed

    def check(self) -> None:
        """Raise ``Overtaken`` where another driver, which a trial may meet first, has the study."""
        if self.overtaken or self._held.lost:
            why = self.overtaken or self._held.lost_because
            raise Overtaken(f"this driver has lost its study and has stopped: {why}")

    def watch(self) -> Halt | None:
        """Return why everything ends now, if it does.

        Raises:
            Overtaken: another driver has taken the study over; nothing may be written any more.
        """
        self.check()
        if self.halt is not None:
            return self.halt
        if self._held.signal:
            return Halt(why=Why.ASKED, reason="stopped by `sentune study stop`")
        if reason := replace(self._budget, max_trials=None).exhausted(self.used(), Spent()):
            return Halt(why=Why.BUDGET, reason=reason)
        failed, count = [r for r in self.ended if r.state is TrialState.FAILED], len(self.ended)
        if count < FEWEST or len(failed) <= self._failed_share * count:
            return None
        reasons = sorted({r.reason for r in failed})
        more = f" (and {len(reasons) - 3} more reasons)" if len(reasons) > 3 else ""
        most = f"{len(failed)} of {count} trials failed, more than a share of"
        reason = f"{most} {self._failed_share:g}: {'; '.join(reasons[:3])}{more}"
        return Halt(why=Why.FAILURES, reason=reason)
