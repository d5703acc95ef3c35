"""The time that a study and its runs still need: the work that is left, at measured costs."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import median
from typing import Any

from sentune.beats import Beat
from sentune.study.config import StudyConfig
from sentune.study.space.space import SearchSpace
from sentune.study.store.study_view import StoredRun, StudySnapshot

SLOWER, SLACK_SECONDS = 1.5, 5.0
"""An estimate of more than so many times what is shown, and seconds above it, tells that work has
become slower."""


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


@dataclass(frozen=True, kw_only=True)
class PlannedWork:
    """Runs that a study is going to start.

    Attributes:
        trials: of the search.
        finals: runs of the finals.
        concurrent: runs at a time.
        milestones: examples after which a run validates; the last one is its budget.
        rungs: those milestones at which trials are stopped.
        share: one trial in so many goes on at a rung.
        keep: trials that go on at least.
        judged: rows of the development corpora. Until a validation is measured, a row is taken to
            cost what an example of training does, which is rather too much.
        reused: whether a run takes over the process of the one before, as the inline launcher does.
    """

    trials: int
    finals: int
    concurrent: int
    milestones: tuple[int, ...]
    rungs: tuple[int, ...] = ()
    share: int = 3
    keep: int = 1
    judged: int = 0
    reused: bool = True

    @cached_property
    def chances(self) -> dict[int, float]:
        """Rung -> share of the trials which come there that goes on."""
        come, found = float(max(1, self.trials)), {}
        for rung in self.rungs:
            found[rung] = min(1.0, max(self.keep, come / self.share) / come)
            come *= found[rung]
        return found

    def seconds(
        self, costs: Costs, *, seen: int = 0, reported: int = 0, may_stop: bool = False
    ) -> float:
        """Return the expected seconds of a run from so many examples on.

        Args:
            reported: the last milestone that it has validated at.
            may_stop: whether it may be stopped at a rung.
        """
        seconds, goes_on = 0.0, 1.0
        for milestone in self.milestones:
            if milestone > reported:
                training = max(0, milestone - seen) * costs.example
                seconds += goes_on * (training + costs.validation)
                seen = max(seen, milestone)
                if may_stop:
                    goes_on *= self.chances.get(milestone, 1.0)
        return seconds


def trained(run: StoredRun, beat: Beat | None) -> tuple[int, float, list[float]]:
    """Return what a run has done, from its milestones and its newest beat.

    Returns:
        Examples, the seconds of training on them, and the seconds of each validation.
    """
    examples, took, validations = 0, 0.0, list[float]()
    spent, before = 0.0, run.record.begun_at
    for at, metrics in sorted(run.record.curve.items()):
        if (seconds := metrics.get("train/seconds")) is None:
            continue
        rate = metrics.get("train/examples_per_second")
        training = (at - before) / rate if rate else seconds - spent
        examples, took = examples + at - before, took + training
        validations.append(max(0.0, seconds - spent - training))
        before, spent = at, seconds
    if run.ended is None and beat is not None and beat.rate and beat.examples > before:
        more = beat.examples - before
        examples, took = examples + more, took + more / beat.rate
    return examples, took, validations


def measured(
    search: Sequence[StoredRun],
    finals: Sequence[StoredRun],
    beats: Mapping[str, Beat],
    work: PlannedWork,
    starts: Mapping[str, float],
    *,
    since: int = 0,
) -> Costs | None:
    """Return what runs have cost so far; None before a quarter of the first milestone is trained.

    Training is the mean over all examples; of validations and starts, whose first ones take
    longer, it is the median.

    Args:
        starts: name of a run -> seconds until it trained, as far as they were seen.
        since: UTC milliseconds at which this driver began. A run that began earlier may have waited
            for it before its first milestone, so that tells no start.
    """
    examples, seconds, validations = 0, 0.0, list[float]()
    new, again = list[float](), list[float]()
    for place, run in [*enumerate(search), *enumerate(finals)]:
        seen, took, each = trained(run, beats.get(run.name))
        examples, seconds, validations = examples + seen, seconds + took, validations + each
        first, start = min(run.record.curve, default=0), starts.get(run.name)
        spent = run.record.curve.get(first, {}).get("train/seconds")
        if spent is not None and first in run.times and run.began >= since:
            start = max(0.0, (run.times[first] - run.began) / 1000 - spent)
        if start is not None:
            (new if place < work.concurrent else again).append(start)
    if not validations and examples < work.milestones[0] / 4:
        return None
    process, example = median(new) if new else 0.0, seconds / examples
    return Costs(
        example=example,
        validation=median(validations) if validations else work.judged * example,
        process=process,
        start=median(again) if again else 0.0 if work.reused else process,
    )


def shown_left(before: float | None, left: float) -> float:
    """Return the seconds left to show, which do not grow while work goes on as it did.

    Args:
        before: what is shown; None: nothing yet.
        left: a new estimate. One above what is shown is waited for, until it is ``SLOWER`` times
            as long: then the machine has become slower, or there is more to do.
    """
    if before is None or left > SLOWER * before + SLACK_SECONDS:
        return left
    return min(before, left)


@dataclass(kw_only=True)
class TimeLeft:
    """Estimates the time left of a study and of its runs.

    Training and validation count apart, as a run's share of both changes on its way. The trials
    are laid out over the places, and the finals after them.

    Attributes:
        work: what the study is going to run.
        clock: seconds.
        since: UTC milliseconds at which this driver began.
        seconds: left of the study; None while they cannot be told.
        of_run: name of a run at work -> seconds left if it goes to its end.
    """

    work: PlannedWork
    clock: Callable[[], float] = time.monotonic
    since: int = 0
    seconds: float | None = None
    of_run: dict[str, float] = field(default_factory=dict)
    _first_seen: dict[str, float] = field(default_factory=dict, init=False)
    _starts: dict[str, float] = field(default_factory=dict, init=False)

    @classmethod
    def of_plan(
        cls, config: StudyConfig, space: SearchSpace, plan: Mapping[str, Any], judged: int
    ) -> TimeLeft | None:
        """Return the estimate of a planned study that is judged on so many rows; None for a
        population, whose runs go on from each other's checkpoints."""
        if config.population:
            return None
        median_rule = plan["scheduler"] == "median"  # half of the trials end, at the first rung
        work = PlannedWork(
            trials=plan["trials"],
            finals=plan["finalists"],
            concurrent=plan["concurrent_now"] or plan["concurrent"],
            milestones=config.milestones(space.mode),
            rungs=tuple(plan["rungs"][:1] if median_rule else plan["rungs"]),
            share=2 if median_rule else config.eta,
            keep=max(1, config.finalists),
            reused=config.launched_by == "inline",
            judged=judged,
        )
        return cls(work=work, since=round(1000 * time.time()))

    def look(self, study: StudySnapshot, beats: Mapping[str, Beat]) -> None:
        """Estimate anew from a snapshot and the newest beats."""
        search = [run for run in study.runs if not run.record.source]
        for run in (*search, *study.finals):
            waited = self.clock() - self._first_seen.setdefault(run.name, self.clock())
            if (beat := beats.get(run.name)) and beat.rate:
                trained_for = max(0, beat.examples - run.record.examples) / beat.rate
                self._starts.setdefault(run.name, max(0.0, waited - trained_for))
        work = self.work
        costs = measured(search, study.finals, beats, work, self._starts, since=self.since)
        if costs is None:
            return
        left, of_run = 0.0, dict[str, float]()
        went_on = sum(run.record.parent is not None for run in search)  # beside those planned
        trials = len(search) if study.finals else work.trials + went_on
        for runs, planned in ((search, trials), (study.finals, work.finals)):
            at_work, waiting = list[float](), list[float]()
            for place in range(max(len(runs), planned)):
                # search and finals have new processes each
                start = costs.process if place < work.concurrent else costs.start
                if place >= len(runs):
                    waiting.append(start + work.seconds(costs, may_stop=runs is search))
                elif (run := runs[place]).ended is None:
                    own, seen, first = self._standing(run, beats.get(run.name), costs, start)
                    rest = partial(work.seconds, own, seen=seen, reported=run.record.examples)
                    at_work.append(max(0.0, first + rest(may_stop=runs is search)))
                    whole = max(0.0, first + rest())
                    of_run[run.name] = shown_left(self.of_run.get(run.name), whole)
            left += _laid_out(at_work, waiting, max(1, work.concurrent))
        self.seconds, self.of_run = shown_left(self.seconds, left), of_run

    def _standing(
        self, run: StoredRun, beat: Beat | None, costs: Costs, start: float
    ) -> tuple[Costs, int, float]:
        """Return a run's own costs, the examples that it has seen, and the seconds beside what is
        before these: of its start, or less those of a validation that is partly through."""
        if beat is None or (beat.phase == "loading" and not beat.examples):
            waited = self.clock() - self._first_seen[run.name]
            return costs, run.record.examples, max(0.0, start - waited)
        examples, took, _ = trained(run, beat)
        usual = self.work.milestones[0]
        # its own speed counts more with each example; the first steps tell little
        own = replace(costs, example=(usual * costs.example + took) / (usual + examples))
        through = 1.0 if beat.phase == "saving" else 0.0  # what has been validated is saved next
        if beat.phase in ("validating", "decoding") and beat.total:
            through = beat.done / beat.total
        return own, max(run.record.examples, beat.examples), -through * costs.validation


def _laid_out(running: Sequence[float], waiting: Sequence[float], places: int) -> float:
    """Return the seconds until all runs are over, each waiting one taking the first free place."""
    ends = [*running, *(0.0 for _ in range(places - len(running)))]
    heapq.heapify(ends)
    for seconds in waiting:
        heapq.heappush(ends, heapq.heappop(ends) + seconds)
    return max(ends, default=0.0)
