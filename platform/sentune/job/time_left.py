"""The time that a study and its runs still need: what is ahead of them, at measured costs."""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from sentune.beats import Beat
from sentune.records import TrialState
from sentune.study.store.study_view import StoredRun, StudySnapshot

if TYPE_CHECKING:
    from sentune.study.config import StudyConfig
    from sentune.study.space.space import SearchSpace

SMOOTH_SECONDS = 10.0
"""Time constant of the mean over the estimates of an end."""

SLOWER = 1.5
"""An estimate of more than so many times what is shown tells that work has become slower."""


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """What a study is going to run.

    Attributes:
        trials: of the search.
        finals: runs of the finals.
        concurrent: runs at a time.
        milestones: examples after which a run validates; the last one is its budget.
        rungs: those milestones at which trials are stopped.
        share: one trial in so many goes on at a rung.
        keep: trials that go on at least.
    """

    trials: int
    finals: int
    concurrent: int
    milestones: tuple[int, ...]
    rungs: tuple[int, ...] = ()
    share: int = 3
    keep: int = 1


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of a training example, of a validation, and of a run beside both."""

    example: float
    validation: float
    start: float = 0.0


def measured(runs: Iterable[StoredRun], beats: Mapping[str, Beat]) -> Costs | None:
    """Return what runs have cost so far; None before one of them has validated.

    Training is the mean over all examples; of validations and starts, whose first ones take
    longer, it is the median.
    """
    examples, trained = 0, 0.0
    validations, starts = list[float](), list[float]()
    for run in runs:
        record = run.record
        before, spent = record.begun_at, 0.0
        for at, metrics in sorted(record.curve.items()):
            seconds, rate = metrics.get("train/seconds"), metrics.get("train/examples_per_second")
            if seconds is None:
                continue
            part = (at - before) / rate if rate else seconds - spent
            examples, trained = examples + at - before, trained + part
            validations.append(max(0.0, seconds - spent - part))
            before, spent = at, seconds
        if run.ended is not None and record.state in (TrialState.COMPLETE, TrialState.PRUNED):
            starts.append(max(0.0, (run.ended - run.began) / 1000 - record.seconds))
        beat = beats.get(run.name)
        if run.ended is None and beat is not None and beat.rate and beat.examples > before:
            examples += beat.examples - before
            trained += (beat.examples - before) / beat.rate
    if not examples or not validations:
        return None
    return Costs(
        example=trained / examples,
        validation=median(validations),
        start=median(starts) if starts else 0.0,
    )


@dataclass(kw_only=True)
class Countdown:
    """Seconds left as they are shown: smoothed, and not growing while work goes on as it did.

    An estimate above what is shown is waited for, until it is ``SLOWER`` times as long: then the
    machine has become slower, or there is more to do.
    """

    shown: float = math.inf
    _end: float = math.nan
    _looked: float = 0.0

    def take(self, now: float, left: float) -> float:
        """Take an estimate of the seconds left; return what is shown."""
        if math.isnan(self._end):
            self._end = now + left
        weight = 1 - math.exp((self._looked - now) / SMOOTH_SECONDS)
        self._end += weight * (now + left - self._end)
        self._looked = now
        smooth = max(0.0, self._end - now)
        if smooth <= self.shown or min(smooth, left) > SLOWER * self.shown + SMOOTH_SECONDS:
            self.shown = smooth
        return self.shown


@dataclass(kw_only=True)
class TimeLeft:
    """Estimates the time left of a study and of its runs.

    Training and validation count apart, as a run's share of both changes on its way. A trial that
    has a rung before it is taken to pass it as often as one that is as good as any other; the
    trials are then laid out over the places, and the finals after them.

    Attributes:
        ahead: what the study is going to run.
        clock: seconds.
    """

    ahead: Ahead
    clock: Callable[[], float] = time.monotonic
    _study: Countdown = field(default_factory=Countdown, init=False)
    _runs: dict[str, Countdown] = field(default_factory=dict, init=False)

    @classmethod
    def of_plan(
        cls, config: StudyConfig, space: SearchSpace, plan: Mapping[str, Any]
    ) -> TimeLeft | None:
        """Return the estimate of a planned study; None for a population.

        Runs of a population go on from each other's checkpoints, as the study has it.
        """
        if config.population:
            return None
        ahead = Ahead(
            trials=plan["trials"],
            finals=plan["finalists"],
            concurrent=plan["concurrent_now"] or plan["concurrent"],
            milestones=config.milestones(space.mode),
            rungs=tuple(plan["rungs"]),
            share=2 if plan["scheduler"] == "median" else config.eta,
            keep=max(1, config.finalists),
        )
        return cls(ahead=ahead)

    def look(self, study: StudySnapshot, beats: Mapping[str, Beat]) -> None:
        """Estimate anew from a snapshot and the newest beats."""
        search = [run for run in study.runs if not run.record.source]
        costs = measured([*search, *study.finals], beats)
        if costs is None:
            return
        now, left = self.clock(), self._left(search, study.finals, beats, costs)
        self._study.take(now, left)
        running = {run.name: run for run in (*search, *study.finals) if run.ended is None}
        self._runs = {name: self._runs.get(name, Countdown()) for name in running}
        for name, run in running.items():
            self._runs[name].take(now, self._of_run(run, beats.get(name), costs))

    @property
    def seconds(self) -> float | None:
        """Seconds left of the study; None while they cannot be told."""
        return None if math.isinf(self._study.shown) else self._study.shown

    def of_run(self, run: str) -> float | None:
        """Seconds left of a run that goes to its end; None while they cannot be told."""
        known = self._runs.get(run)
        return None if known is None else known.shown

    def _left(
        self,
        search: Sequence[StoredRun],
        finals: Sequence[StoredRun],
        beats: Mapping[str, Beat],
        costs: Costs,
    ) -> float:
        reached = Counter(rung for run in search for rung in self.ahead.rungs
                          if rung in run.record.curve)  # fmt: skip
        arrived = {rung: float(reached[rung]) for rung in self.ahead.rungs}
        running = [run for run in search if run.ended is None]
        places = max(1, self.ahead.concurrent, len(running))
        at_work = [self._of_run(run, beats.get(run.name), costs, arrived) for run in running]
        waiting = 0 if finals else max(0, self.ahead.trials - len(search))
        whole = [self._expected(0, 0, costs, costs.start, arrived) for _ in range(waiting)]
        again = [self._of_run(r, beats.get(r.name), costs) for r in finals if r.ended is None]
        full = self._expected(0, 0, costs, costs.start)
        to_come = [full] * max(0, self.ahead.finals - len(finals))
        return _laid_out(at_work, whole, places) + _laid_out(again, to_come, places)

    def _of_run(
        self,
        run: StoredRun,
        beat: Beat | None,
        costs: Costs,
        arrived: dict[int, float] | None = None,
    ) -> float:
        """Return the seconds that a run at work still needs."""
        reported = run.record.examples
        if beat is None or beat.phase == "loading":
            return self._expected(reported, reported, costs, costs.start, arrived)
        if beat.rate:
            costs = Costs(example=1 / beat.rate, validation=costs.validation)
        through = 1.0 if beat.phase == "saving" else 0.0  # what has been validated is saved next
        if beat.phase in ("validating", "decoding") and beat.total:
            through = beat.done / beat.total
        seen, done = max(reported, beat.examples), -through * costs.validation
        return self._expected(seen, reported, costs, done, arrived)

    def _expected(
        self,
        seen: int,
        reported: int,
        costs: Costs,
        beside: float,
        arrived: dict[int, float] | None = None,
    ) -> float:
        """Return seconds from so many examples on; those validated up to are ``reported``.

        Args:
            arrived: rung -> trials that have come there, to which this one is added; None: the run
                is not stopped at rungs.
        """
        seconds, goes_on = beside, 1.0
        for milestone in self.ahead.milestones:
            if milestone <= reported:
                continue
            training = max(0, milestone - seen) * costs.example
            seconds += goes_on * (training + costs.validation)
            seen = max(seen, milestone)
            if arrived is not None and milestone in arrived:
                came = arrived[milestone] = arrived[milestone] + goes_on
                goes_on *= min(1.0, max(self.ahead.keep, came / self.ahead.share) / max(came, 1.0))
        return max(0.0, seconds)


def _laid_out(running: Sequence[float], waiting: Sequence[float], places: int) -> float:
    """Return the seconds until all runs are over, each waiting one taking the first free place."""
    ends = [*running, *(0.0 for _ in range(places - len(running)))]
    heapq.heapify(ends)
    for seconds in waiting:
        heapq.heappush(ends, heapq.heappop(ends) + seconds)
    return max(ends, default=0.0)
