"""Estimates the time left of a study and of its runs from the remaining work and measured costs."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

from sentune.beats import Beat
from sentune.study.config import StudyConfig
from sentune.study.space.space import SearchSpace
from sentune.study.store.study_view import StoredRun, StudySnapshot

SLOWER, SLACK_SECONDS = 1.5, 5.0
"""A new estimate above ``SLOWER`` times the shown one plus ``SLACK_SECONDS`` replaces it."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds that the parts of a run take.

    Attributes:
        example: training on one example.
        validation: one validation.
        process: start of a run in a new process, until it trains.
        start: start of a run in the process of an earlier run, until it trains.
    """

    example: float
    validation: float
    process: float = 0.0
    start: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PlannedWork:
    """The runs that a study plans.

    Attributes:
        trials: number of trials of the search.
        finals: number of runs of the finals.
        concurrent: number of runs at a time.
        milestones: examples after which a run validates; the last one is its budget.
        chances: milestone at which trials are stopped -> share of the trials that continue.
        judged: rows of the development corpora. Until a validation is measured, a row is assumed to
            cost as much as an example of training, which is rather too much.
        reused: whether a run uses the process of an earlier run, as with the inline launcher.
    """

    trials: int
    finals: int
    concurrent: int
    milestones: tuple[int, ...]
    chances: Mapping[int, float] = field(default_factory=dict)
    judged: int = 0
    reused: bool = True

    def seconds(
        self, costs: Costs, *, seen: int = 0, reported: int = 0, may_stop: bool = False
    ) -> float:
        """Return the expected seconds that a run still needs.

        Args:
            seen: examples that it has trained on.
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
    """Return examples, seconds of training on them, and seconds of each validation of a run, as
    measured by its milestones and its newest beat."""
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


def shown_left(before: float | None, left: float) -> float:
    """Return the seconds left to show, which rarely increase; ``before`` are shown now.

    A larger estimate replaces the shown one only if it exceeds ``SLOWER`` times that plus
    ``SLACK_SECONDS``: then the machine has become slower, or there is more work.
    """
    if before is None or left > SLOWER * before + SLACK_SECONDS:
        return left
    return min(before, left)


@dataclass(kw_only=True)
class TimeLeft:
    """Estimates the time left of a study and of its runs.

    Training and validation have separate costs, because their shares of a run change over time.
    Trials are scheduled over the concurrent slots, and the finals after them.

    Attributes:
        work: the planned runs.
        clock: returns seconds.
        since: UTC milliseconds at which this driver started.
        seconds: left of the study; None before the first estimate.
        of_run: name of an active run -> seconds left if it is not stopped at a rung.
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
        """Return the estimator of a planned study with ``judged`` rows of development corpora.

        None for a population, whose runs continue from each other's checkpoints.
        """
        if config.population:
            return None
        reached = config.search_scheduler(space).expected(plan["trials"])
        work = PlannedWork(
            trials=plan["trials"],
            finals=plan["finalists"],
            concurrent=plan["concurrent_now"] or plan["concurrent"],
            milestones=config.milestones(space.mode),
            chances={
                at: reached[then] / reached[at] for at, then in pairwise(reached) if reached[at]
            },
            reused=config.launched_by == "inline",
            judged=judged,
        )
        return cls(work=work, since=round(1000 * time.time()))

    def look(self, study: StudySnapshot, beats: Mapping[str, Beat]) -> None:
        """Update the estimates from a snapshot and the newest beats."""
        search = [run for run in study.runs if not run.record.source]
        for run in (*search, *study.finals):
            waited = self.clock() - self._first_seen.setdefault(run.name, self.clock())
            if (beat := beats.get(run.name)) and beat.rate:
                trained_for = max(0, beat.examples - run.record.examples) / beat.rate
                self._starts.setdefault(run.name, max(0.0, waited - trained_for))
        work, costs = self.work, self.measured(search, study.finals, beats)
        if costs is None:
            return
        left, of_run = 0.0, dict[str, float]()
        went_on = sum(run.record.parent is not None for run in search)  # are not in the plan
        trials = len(search) if study.finals else work.trials + went_on
        for runs, planned in ((search, trials), (study.finals, work.finals)):
            at_work, waiting = list[float](), list[float]()
            for place in range(max(len(runs), planned)):
                # search and finals each start new processes
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

    def measured(
        self, search: Sequence[StoredRun], finals: Sequence[StoredRun], beats: Mapping[str, Beat]
    ) -> Costs | None:
        """Return the costs so far; None before a quarter of the first milestone is trained.

        The cost of an example is the mean over all examples. Those of a validation and of a start
        are medians, because the first ones take longer. Runs that began before this driver are left
        out of the time of a start, because they may have waited for it.
        """
        work, examples, seconds, validations = self.work, 0, 0.0, list[float]()
        new, again = list[float](), list[float]()
        for place, run in [*enumerate(search), *enumerate(finals)]:
            seen, took, each = trained(run, beats.get(run.name))
            examples, seconds, validations = examples + seen, seconds + took, validations + each
            first, start = min(run.record.curve, default=0), self._starts.get(run.name)
            spent = run.record.curve.get(first, {}).get("train/seconds")
            if spent is not None and first in run.times and run.began >= self.since:
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

    def _standing(
        self, run: StoredRun, beat: Beat | None, costs: Costs, start: float
    ) -> tuple[Costs, int, float]:
        """Return the state of an active run: its costs, the examples seen, and extra seconds.

        The extra seconds are what is left of its start, or minus the part of a validation that is
        done.
        """
        if beat is None or (beat.phase == "loading" and not beat.examples):
            waited = self.clock() - self._first_seen[run.name]
            return costs, run.record.examples, max(0.0, start - waited)
        examples, took, _ = trained(run, beat)
        usual = self.work.milestones[0]
        # the run's own speed gets more weight with each example
        own = replace(costs, example=(usual * costs.example + took) / (usual + examples))
        through = 1.0 if beat.phase == "saving" else 0.0  # saving comes after the validation
        if beat.phase in ("validating", "decoding") and beat.total:
            through = beat.done / beat.total
        # a fit in closed form has no rate: most of its time is not proportional to examples
        counts = beat.rate or beat.phase == "saving"
        seen = max(run.record.examples, beat.examples if counts else 0)
        return own, seen, -through * costs.validation


def _laid_out(running: Sequence[float], waiting: Sequence[float], places: int) -> float:
    """Return the seconds until all runs end, if each waiting run takes the first free place.

    ``running`` are the seconds left of each active run, and ``waiting`` those of each other run, in
    the order of their starts; ``places`` runs go on at a time.
    """
    ends = [*running, *(0.0 for _ in range(places - len(running)))]
    heapq.heapify(ends)
    for seconds in waiting:
        heapq.heappush(ends, heapq.heappop(ends) + seconds)
    return max(ends, default=0.0)
