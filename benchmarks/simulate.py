"""Replays learning curves through the real store, source, sampler and scheduler, in seconds.

Nothing is trained: a run's milestones are read off its curve, and simulated workers take as long as
they are told to. What is measured is how many examples a search spends until it has found what.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any

import optuna
from optuna.storages import BaseStorage

from benchmarks.curves import Curves
from sentune.errors import InvalidValue
from sentune.launchers.trial_report import Report
from sentune.records import PART
from sentune.study.runner.trial_source import Candidate, SearchSource
from sentune.study.schedulers import Scheduler
from sentune.study.space.objectives import Objective
from sentune.study.space.space import SearchSpace
from sentune.study.store.storage import open_study
from sentune.study.store.trial_store import TrialStore


class Told(Enum):
    """What a sampler is told of a trial that ended.

    Attributes:
        OURS: stopped ones are PRUNED with their curve: what the store tells.
        RAYS: all are COMPLETE with their last value, as Ray 2.60's OptunaSearch tells them, where
            Tune's controller hands it the result on which a trial was stopped. (That result is no
            intermediate value there, and here it is; TPE reads none of complete trials.)
    """

    OURS = "ours"
    RAYS = "rays"


@dataclass(frozen=True, kw_only=True)
class Incumbent:
    """The best complete trial at some moment.

    Attributes:
        examples: spent by all trials until then.
        time: on the simulated clock.
        number: of the trial.
        settings: of the trial.
        value: that it measured, with its seed's noise.
    """

    examples: int
    time: float
    number: int
    settings: Mapping[str, Any]
    value: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a simulated search did.

    Attributes:
        store: with its trials.
        examples: spent by all trials.
        time: at which the last one ended.
        incumbents: each trial that became the best complete one, in order.
    """

    store: TrialStore
    examples: int
    time: float
    incumbents: tuple[Incumbent, ...]

    def spent_until(self, good: Callable[[Mapping[str, Any]], bool]) -> int | None:
        """Examples spent when the best trial first had settings that are good; None: never."""
        return next((found.examples for found in self.incumbents if good(found.settings)), None)

    def best_after(self, examples: int) -> Incumbent | None:
        """The best complete trial when so many examples had been spent; None before the first."""
        known = [found for found in self.incumbents if found.examples <= examples]
        return known[-1] if known else None


def open_simulated(
    space: SearchSpace,
    scheduler: Scheduler,
    storage: BaseStorage | None = None,
) -> TrialStore:
    """The store of a search, in memory unless a storage is given."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = storage or optuna.storages.InMemoryStorage()
    study = open_study(
        storage,
        "simulated",
        modes=[space.mode],
        fingerprint={"space": space.identity()},
    )
    objective = Objective(space.objective, space.mode)
    return TrialStore(
        study=study,
        storage=storage,
        objectives=[objective],
        budget=scheduler.milestones[-1],
        scheduler=scheduler,
    )


def simulate(
    store: TrialStore,
    source: SearchSource,
    curves: Curves,
    *,
    workers: int = 1,
    speed: Callable[[Mapping[str, Any]], float] = lambda settings: 1.0,
    told: Told = Told.OURS,
    until: int | None = None,
) -> Outcome:
    """Runs a search on learning curves.

    Args:
        store: from ``open_simulated``.
        source: of its runs.
        curves: what runs measure.
        workers: runs at a time.
        speed: settings -> examples in a unit of simulated time.
        told: what the sampler is told of trials that ended.
        until: examples after which no further run is started; None: the source decides.

    Raises:
        InvalidValue: no worker, or a source with trials that another driver left running.
    """
    if workers < 1:
        raise InvalidValue("workers", workers, "give 1 or more")
    replay = _Replay(store, curves, speed, told)
    while True:
        while len(replay.live) < workers and (until is None or replay.spent < until):
            candidate = source.next(len(replay.live))
            if candidate is None:
                break
            replay.start(candidate)
        if not replay.live:
            return replay.outcome()
        replay.step()


@dataclass
class _Replay:
    """Simulated workers: a queue of the milestones that they are about to reach."""

    store: TrialStore
    curves: Curves
    speed: Callable[[Mapping[str, Any]], float]
    told: Told
    live: list[tuple[float, int, Candidate, int]] = field(default_factory=list)
    spent: int = 0
    now: float = 0.0
    incumbents: list[Incumbent] = field(default_factory=list)
    _order: count[int] = field(default_factory=count)

    def start(self, candidate: Candidate) -> None:
        self._go_on(candidate, bisect_right(self._milestones, candidate.start_at))

    def _go_on(self, candidate: Candidate, place: int) -> None:
        """Queues the milestone at a place; milestones that fall together come in order of start."""
        taken = self._examples(place) / self.speed(candidate.settings)
        heapq.heappush(self.live, (self.now + taken, next(self._order), candidate, place))

    def _examples(self, place: int) -> int:
        at = self._milestones
        return at[place] - (at[place - 1] if place else 0)

    @property
    def _milestones(self) -> tuple[int, ...]:
        return self.store.scheduler.milestones

    def step(self) -> None:
        """The next milestone that any worker reaches."""
        self.now, _, candidate, place = heapq.heappop(self.live)
        self.spent += self._examples(place)
        examples = self._milestones[place]
        value = self.curves.value(candidate.settings, examples)
        final = examples == self.store.budget
        # rungs are judged on a part of dev, so that the end's value is the trial's
        metrics = {self.store.first.metric: value, **({} if final else {PART: 1.0})}
        report = Report(examples=examples, final=final, metrics=metrics, seconds=self.now)
        stopped = self.store.milestone(candidate.number, report)
        if not (final or stopped):
            self._go_on(candidate, place + 1)
        else:
            self._end(candidate.number, value, stopped)
        if final:
            self._compare(candidate, value)

    def _end(self, number: int, last: float, stopped: str) -> None:
        if self.told is Told.RAYS:
            self.store.study.tell(number, last)
        elif stopped:
            self.store.prune(number, stopped)
        else:
            self.store.complete(number)

    def _compare(self, candidate: Candidate, value: float) -> None:
        sign = self.store.first.sign
        if self.incumbents and sign * value <= sign * self.incumbents[-1].value:
            return
        found = Incumbent(
            examples=self.spent,
            time=self.now,
            number=candidate.number,
            settings=candidate.settings,
            value=value,
        )
        self.incumbents.append(found)

    def outcome(self) -> Outcome:
        return Outcome(
            store=self.store,
            examples=self.spent,
            time=self.now,
            incumbents=tuple(self.incumbents),
        )
