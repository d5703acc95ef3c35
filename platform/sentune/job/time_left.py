"""The time that a study and its runs still need: what is ahead of them, at measured costs."""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from sentune.beats import Beat
from sentune.study.store.study_view import StoredRun, StudySnapshot

if TYPE_CHECKING:
    from sentune.study.config import StudyConfig
    from sentune.study.space.space import SearchSpace

SMOOTH_SECONDS = 5.0
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
        reused: whether a run takes over the process of the one before, as the inline launcher does.
    """

    trials: int
    finals: int
    concurrent: int
    milestones: tuple[int, ...]
    rungs: tuple[int, ...] = ()
    share: int = 3
    keep: int = 1
    reused: bool = True


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of what runs do.

    Attributes:
        example: of training.
        validation: one of them.
        process: until a run in a new process trains.
        start: likewise in the process of an earlier run.
    """

    example: float
    validation: float
    process: float = 0.0
    start: float = 0.0


class Trained(NamedTuple):
    """Examples of a run's training so far, and the seconds that it took without validations."""

    examples: int
    seconds: float


def trained(run: StoredRun, beat: Beat | None, validations: list[float] | None = None) -> Trained:
    """Return what a run has trained, from its milestones and its newest beat.

    Args:
        validations: the seconds of each of its validations are added here.
    """
    examples, took, spent, before = 0, 0.0, 0.0, run.record.begun_at
    for at, metrics in sorted(run.record.curve.items()):
        seconds, rate = metrics.get("train/seconds"), metrics.get("train/examples_per_second")
        if seconds is None:
            continue
        part = (at - before) / rate if rate else seconds - spent
        examples, took = examples + at - before, took + part
        if validations is not None:
            validations.append(max(0.0, seconds - spent - part))
        before, spent = at, seconds
    if run.ended is None and beat is not None and beat.rate and beat.examples > before:
        examples, took = (
            examples + beat.examples - before,
            took + (beat.examples - before) / beat.rate,
        )
    return Trained(examples, took)


def measured(
    search: Sequence[StoredRun],
    finals: Sequence[StoredRun],
    beats: Mapping[str, Beat],
    ahead: Ahead,
) -> Costs | None:
    """Return what runs have cost so far; None before one of them has validated.

    Training is the mean over all examples; of validations and starts, whose first ones take
    longer, it is the median.
    """
    validations, new, again = list[float](), list[float](), list[float]()
    parts = [trained(run, beats.get(run.name), validations) for run in (*search, *finals)]
    for place, run in [*enumerate(search), *enumerate(finals)]:
        first = min(run.record.curve, default=0)
        seconds = run.record.curve.get(first, {}).get("train/seconds")
        if seconds is not None and first in run.times:
            began = max(0.0, (run.times[first] - run.began) / 1000 - seconds)
            (new if place < ahead.concurrent else again).append(began)
    examples = sum(part.examples for part in parts)
    if not examples or not validations:
        return None
    process = median(new) if new else 0.0
    return Costs(
        example=sum(part.seconds for part in parts) / examples,
        validation=median(validations),
        process=process,
        start=median(again) if again else 0.0 if ahead.reused else process,
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
        if min(smooth, left) > SLOWER * self.shown + SMOOTH_SECONDS:
            self._end, smooth, self.shown = now + left, left, left
        self.shown = min(smooth, self.shown)
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
    _first_seen: dict[str, float] = field(default_factory=dict, init=False)

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
            reused=config.launched_by == "inline",
        )
        return cls(ahead=ahead)

    def look(self, study: StudySnapshot, beats: Mapping[str, Beat]) -> None:
        """Estimate anew from a snapshot and the newest beats."""
        now = self.clock()
        search = [run for run in study.runs if not run.record.source]
        for run in (*search, *study.finals):
            self._first_seen.setdefault(run.name, now)
        costs = measured(search, study.finals, beats, self.ahead)
        if costs is None:
            return
        self._study.take(now, self._left(search, study.finals, beats, costs))
        running = [
            (run, place)
            for place, run in [*enumerate(search), *enumerate(study.finals)]
            if run.ended is None
        ]
        self._runs = {run.name: self._runs.get(run.name, Countdown()) for run, _ in running}
        for run, place in running:
            self._runs[run.name].take(now, self._of_run(run, place, beats, costs))

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
        reached = Counter(at for run in search for at in run.record.curve)
        arrived = {rung: float(reached[rung]) for rung in self.ahead.rungs}
        running = [(run, place) for place, run in enumerate(search) if run.ended is None]
        places = max(1, self.ahead.concurrent)
        at_work = [self._of_run(run, place, beats, costs, arrived) for run, place in running]
        coming = range(len(search), len(search) if finals else self.ahead.trials)
        waiting = [
            self._expected(0, 0, costs, self._start(place, costs), arrived) for place in coming
        ]
        again = [
            self._of_run(run, place, beats, costs)
            for place, run in enumerate(finals)
            if run.ended is None
        ]
        to_come = [
            self._expected(0, 0, costs, self._start(place, costs))
            for place in range(len(finals), self.ahead.finals)
        ]
        return _laid_out(at_work, waiting, places) + _laid_out(again, to_come, places)

    def _start(self, place: int, costs: Costs) -> float:
        """Return the seconds of a run's start; search and finals have new processes each."""
        return costs.process if place < self.ahead.concurrent else costs.start

    def _of_run(
        self,
        run: StoredRun,
        place: int,
        beats: Mapping[str, Beat],
        costs: Costs,
        arrived: dict[int, float] | None = None,
    ) -> float:
        """Return the seconds that a run at work still needs.

        Args:
            place: among the runs of the search, or of the finals.
        """
        reported, beat = run.record.examples, beats.get(run.name)
        if beat is None or (beat.phase == "loading" and not beat.examples):
            waited = self.clock() - self._first_seen[run.name]
            start = max(0.0, self._start(place, costs) - waited)
            return self._expected(reported, reported, costs, start, arrived)
        own, usual = trained(run, beat), self.ahead.milestones[0]
        # its own speed counts more with each example; the first steps tell little
        seconds = usual * costs.example + own.seconds
        costs = replace(costs, example=seconds / (usual + own.examples))
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
