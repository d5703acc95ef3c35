"""Configuration of a study: its name, storage, budget and resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import ge
from typing import Any

from sentune.errors import InvalidValue
from sentune.io.object_store import absolute
from sentune.records import Spent, TrialRecord, TrialState
from sentune.study.samplers.registry import find_own, is_own
from sentune.study.schedulers import KINDS, Scheduler, default_first_rung
from sentune.study.space.objectives import Constraint, Objective
from sentune.study.space.space import SearchSpace


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

    def exhausted(self, spent: Spent, reserve: Spent) -> str:
        """Return which limit is used up, in a sentence; empty while there is room.

        ``reserve`` is kept free for a last trial and the finals, beside what is ``spent`` so far.
        """
        for option, unit, most, used, kept in (
            ("--max-trials", "trials", self.max_trials, spent.trials, 0.0),
            ("--max-hours", "hours", self.max_hours, spent.hours, reserve.hours),
            ("--max-gpu-hours", "GPU hours", self.max_gpu_hours, spent.gpu_hours,
             reserve.gpu_hours),
        ):  # fmt: skip
            if most is not None and used + kept >= most:
                free = f", {kept:.2g} are kept for a last trial and the finals" if kept else ""
                return f"{option} {most:g} is used up: {round(used, 2):g} {unit} so far{free}"
        return ""

    def no_gain_in(self, records: Sequence[TrialRecord], *objectives: Objective) -> str:
        """Return why more trials are not worth it, in a sentence; empty while they may be.

        Trials are taken in the order of their numbers; those that run, have failed, or were taken
        over from another study are not counted. With several objectives a trial is a gain where
        none before it is at least as good in all of them.
        """
        if self.no_gain is None:
            return ""
        best: list[tuple[float, ...]] = []
        without = 0
        for record in records:
            complete = record.state is TrialState.COMPLETE
            if record.state in (TrialState.RUNNING, TrialState.FAILED) or not (best or complete):
                continue
            without += not record.source
            if complete and record.feasible:
                point = tuple(objective.of(record.metrics) for objective in objectives)
                if not any(all(map(ge, other, point)) for other in best):
                    best = [other for other in best if not all(map(ge, point, other))] + [point]
                    without = 0
        if without < self.no_gain:
            return ""
        found = f"{without} trials in a row found nothing better"
        return f"--stop-after-no-gain {self.no_gain}: {found}"


@dataclass(frozen=True, kw_only=True)
class StudyConfig:
    """A study's name, place, budget and resources.

    Fields with the name of a job's option are that option: ``sentune.job.options`` describes it and
    checks each by itself; here they are checked against each other.

    Attributes:
        storage: folder or fsspec URI under which the study's own folder lies.
        optuna_url: Optuna storage; None: a journal in the study's folder.
        first_rung: examples at which trials are first compared; None: ``default_first_rung``.
        rung_rows: rows of each development corpus that the search's rungs are judged on; None: all.
            Full validations keep the best milestone of a trial, so ``validate_every`` has all.
        seed: of everything that is drawn, and of the trials' training runs; finalists take the
            ones after it.
        workers: of a trial; a range makes the group elastic.
        retire_after: trials after which inline worker processes are replaced, which costs ten
            seconds of imports each; a trial's memory goes back when it ends.
        max_failures: deaths of a trial's processes that are forgiven; preemptions do not count.
        data_cpus: CPUs kept free for Ray Data; 0 where no corpus streams.
        budget: what the study may use up over all of its starts.
        objectives: further ones beside the space's, for a Pareto front.
        constraints: on metrics; trials that break one do not win.
        points: settings to try first, before the published ones.
    """

    name: str
    storage: str
    max_examples: int
    optuna_url: str | None = None
    trials: int = 8
    concurrent: int | None = None
    max_concurrent: int | None = None
    priority: float = 1.0
    first_rung: int | None = None
    validate_every: int | None = None
    rung_rows: int | None = None
    eta: int = 3
    finalists: int = 1
    seeds: int = 2
    sampler: str = "tpe"
    seed: int = 0
    launcher: str = "auto"
    workers: int | tuple[int, int] = 1
    gpus_per_worker: float = 0.0
    retire_after: int = 1000
    max_failures: int = 2
    stall_timeout: float | None = None
    data_cpus: float = 0.0
    scheduler: str = "asha-promotion"
    checkpoint_every: int = 0
    budget: Budget = field(default_factory=Budget)
    failed_share: float = 0.5
    keep: int = 3
    objectives: tuple[Objective, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    points: tuple[Mapping[str, Any], ...] = ()
    warm_start: tuple[str, ...] = ()
    population: int = 0
    generations: int = 1

    def __post_init__(self) -> None:
        if is_own(self.sampler):  # before a cluster is asked for
            find_own(self.sampler)
        if self.launcher == "inline" and self.worker_range[1] > 1:
            fix = "inline runs one worker a trial; give --launcher train"
            raise InvalidValue("--launcher", "inline", fix)
        if self.gpus_per_worker > 1 and self.gpus_per_worker % 1:
            fix = "a worker has a part of one GPU or whole ones; give 1 or less, or a whole number"
            raise InvalidValue("--gpus-per-worker", self.gpus_per_worker, fix)
        if self.population and (self.launched_by != "inline" or self.finalists):
            fix = "a population runs on the inline launcher, one worker each, without finals"
            raise InvalidValue("--population", self.population, fix)

    @property
    def worker_range(self) -> tuple[int, int]:
        """Fewest and most workers of a trial."""
        return self.workers if isinstance(self.workers, tuple) else (self.workers, self.workers)

    @property
    def launched_by(self) -> str:
        """``inline`` or ``train``."""
        if self.launcher != "auto":
            return self.launcher
        return "inline" if self.worker_range == (1, 1) else "train"

    @cached_property
    def folder(self) -> str:
        """The study's own folder, absolute because trials run elsewhere, or URI."""
        return f"{absolute(self.storage).rstrip('/')}/{self.name}"

    @property
    def runs_folder(self) -> str:
        """Folder or URI of the runs' folders."""
        return f"{self.folder}/trials"

    def directory(self, run: str) -> str:
        """Return the folder or URI of a run's checkpoints."""
        return f"{self.runs_folder}/{run}"

    def milestones(self, mode: str) -> tuple[int, ...]:
        """Examples after which a trial validates: every so often, at the rungs and at the end.

        The papers validate every 100 steps and keep the best; the rungs alone are cheaper.
        """
        every = self.validate_every or self.max_examples
        more = range(every, self.max_examples, every)
        return tuple(sorted({*more, *self.scheduling(mode).milestones}))

    @property
    def tries_first(self) -> bool:
        """Whether the search begins with the points that are known; a grid has its own order."""
        return self.sampler.partition(":")[0] != "grid"

    @property
    def rows_at_rungs(self) -> int:
        """Rows of each development corpus that the search's rungs are judged on; 0: all."""
        return 0 if self.validate_every or self.population else self.rung_rows or 0

    def scheduling(self, mode: str, *, ahead: int = 0) -> Scheduler:
        """Return the rungs of the search; each lets at least as many go on as there are finalists.

        Trials with several objectives run to their end: no one of them decides at a rung.
        """
        return KINDS["none" if self.objectives else self.scheduler](
            first_rung=self.first_rung or default_first_rung(self.max_examples, self.eta),
            eta=self.eta,
            max_examples=self.max_examples,
            mode=mode,
            keep=max(1, self.finalists),
            ahead=ahead,
        )

    def search_scheduler(self, space: SearchSpace) -> Scheduler:
        """Return the scheduler of a search. Its first trial waits at no rung for others if its
        point is known beforehand, or if too few trials come for a comparison."""
        known = self.tries_first and space.with_points(self.points).first_points()
        return self.scheduling(space.mode, ahead=int(bool(known) or self.trials < self.eta))


def objectives_of(config: StudyConfig, space: SearchSpace) -> tuple[Objective, ...]:
    """Return the objective of the space, and the further ones."""
    return (Objective(space.objective, space.mode), *config.objectives)
