"""What ends a study before its source does: a budget, a request, too many failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from sentune.errors import StudyConflict
from sentune.records import Spent, TrialRecord, TrialState
from sentune.study.runner.budget import Budget

FEWEST = 5
"""Trials that must have ended before their share of failures says something."""


class Why(StrEnum):
    """What kind of end it is."""

    BUDGET = "budget"
    ASKED = "asked"
    INTERRUPTED = "interrupted"
    FAILURES = "failures"
    STORAGE = "storage"


@dataclass(frozen=True, kw_only=True)
class Halt:
    """The end of a study before its source had no more; ``reason`` is for the user."""

    why: Why
    reason: str


class HeldLock(Protocol):
    """The lock of a study's driver as the limits see it.

    Attributes:
        signal: what was asked of the driver: empty, ``stop`` or ``stop now``.
        lost: whether another driver has taken the study over.
        lost_because: by whom, or why it may have.
        generation: number of this start of the study, over all of its starts.
        hours: that drivers have run the study, this one included.
    """

    @property
    def signal(self) -> str: ...

    @property
    def lost_because(self) -> str: ...

    @property
    def lost(self) -> bool: ...

    @property
    def generation(self) -> int: ...

    @property
    def hours(self) -> float: ...


class Alone:
    """The lock of a study that no other process can see: a clock."""

    signal, lost, lost_because, generation = "", False, "", 0

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def hours(self) -> float:
        """Since it was made."""
        return (time.monotonic() - self._started) / 3600


class Limits:
    """What a study may use up, and what it has.

    Args:
        budget: of all starts together.
        held: the driver's lock.
        spent: of all starts before this one, trials and hours left out.
        trials: trials of the search that were started, whenever.
        reserve: what the runs after these ones (the finals) are expected to use up, kept free.
        no_gain: says why further trials are not worth it; empty while they are.
        failed_share: share of failed trials above which the study ends.
    """

    def __init__(
        self,
        *,
        budget: Budget | None = None,
        held: HeldLock | None = None,
        spent: Spent | None = None,
        trials: Callable[[], int] = int,
        reserve: Callable[[], Spent] = Spent,
        no_gain: Callable[[], str] = str,
        failed_share: float = 1.0,
    ) -> None:
        self._budget, self._held = budget or Budget(), held or Alone()
        self._before, self._trials = spent or Spent(), trials
        self._reserve, self._no_gain = reserve, no_gain
        self._hard = replace(self._budget, max_trials=None)
        self._failed_share = failed_share
        self._gpu_seconds: dict[str, float] = {}
        self._ended: list[TrialRecord] = []
        self._closed = self._closed_before = ""
        self.halt: Halt | None = None

    def for_finals(self, gpu_hours: float) -> Limits:
        """Return the limits of the runs after the search, which have nothing to keep free.

        Args:
            gpu_hours: that earlier starts have used up in them.
        """
        before = self.spent()
        limits = Limits(
            budget=replace(self._budget, max_trials=None, no_gain=None),
            held=self._held,
            spent=replace(before, gpu_hours=before.gpu_hours + gpu_hours),
            trials=self._trials,
            failed_share=self._failed_share,
        )
        limits._closed_before = self.ended_early
        return limits

    @property
    def ended_early(self) -> str:
        """Why the search ended before its planned trials; empty if it did not."""
        return self._closed or self._closed_before

    def spent(self) -> Spent:
        """Return trials, hours and GPU hours so far; examples are counted from the records."""
        return replace(self._used(), trials=self._trials())

    def _used(self) -> Spent:
        """Hours and GPU hours; asked for in every turn of Tune's loop, so the store is not read."""
        gpu_hours = self._before.gpu_hours + sum(self._gpu_seconds.values()) / 3600
        return replace(self._before, hours=self._held.hours, gpu_hours=gpu_hours)

    def set(self, halt: Halt) -> None:
        """Set the reason for which the study ends; the first one stands."""
        self.halt = self.halt or halt

    def charge(self, attempt: str, gpu_seconds: float) -> None:
        """Set the GPU seconds that a start of a run has used up so far."""
        self._gpu_seconds[attempt] = gpu_seconds

    def ended(self, record: TrialRecord) -> None:
        """Count a run that is over."""
        self._ended.append(record)

    def closed(self) -> str:
        """Why no further run is started while those at work may go on; empty while one may."""
        if self._budget != Budget() and not self._closed:
            self._closed = self._budget.exhausted(self.spent(), self._reserve()) or self._no_gain()
        return self._closed

    def watch(self) -> Halt | None:
        """Return why everything ends now, if it does.

        Raises:
            StudyConflict: another driver has taken the study over; nothing may be written any more.
        """
        if self._held.lost:
            told = "this driver has lost its study and has stopped"
            raise StudyConflict(f"{told}: {self._held.lost_because}")
        if self._held.signal:
            self.set(Halt(why=Why.ASKED, reason="stopped by `sentune study stop`"))
        if told := self._hard.exhausted(self._used(), Spent()):
            self.set(Halt(why=Why.BUDGET, reason=told))
        if told := _failures(self._ended, self._failed_share):
            self.set(Halt(why=Why.FAILURES, reason=told))
        return self.halt


def _failures(ended: Sequence[TrialRecord], share: float) -> str:
    """Return why too many runs failed, of those that this start has ended; else an empty text."""
    failed = [r for r in ended if r.state is TrialState.FAILED]
    if len(ended) < FEWEST or len(failed) <= share * len(ended):
        return ""
    reasons = sorted({r.reason for r in failed})
    more = f" (and {len(reasons) - 3} more reasons)" if len(reasons) > 3 else ""
    return (
        f"{len(failed)} of {len(ended)} trials failed, more than a share of {share:g}: "
        + "; ".join(reasons[:3])
        + more
    )
