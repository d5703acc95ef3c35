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
    """Limits of a study over all of its starts; None for no limit.

    Attributes:
        max_trials: trials of the search.
        max_hours: wall time in which a driver runs the study.
        max_gpu_hours: GPU hours, including the finals.
        no_gain: trials in a row without a new best that end the search.
    """

    max_trials: int | None = None
    max_hours: float | None = None
    max_gpu_hours: float | None = None
    no_gain: int | None = None

    def exhausted(self, spent: Spent, reserve: Spent) -> str:
        """Return a sentence on the limit that is used up; empty if none is.

        The reserve is for a last trial and the finals.
        """
        for option, unit, most, used, kept in (
            ("--max-trials", "trials", self.max_trials, spent.trials, 0.0),
            ("--max-hours", "hours", self.max_hours, spent.hours, reserve.hours),
            ("--max-gpu-hours", "GPU hours", self.max_gpu_hours, spent.gpu_hours,
             reserve.gpu_hours),
        ):  # fmt: skip
            if most is not None and used + kept >= most:
                free = f", {kept:.2g} are reserved for a last trial and the finals" if kept else ""
                return f"{option} {most:g} is used up: {round(used, 2):g} {unit} so far{free}"
        return ""

    def no_gain_in(self, records: Sequence[TrialRecord], *objectives: Objective) -> str:
        """Return a sentence if ``no_gain`` trials in a row found no new best; else empty.

        Trials count in the order of their numbers, without those that are running, have failed or
        come from another study. With several objectives a trial is a gain unless an earlier one is
        at least as good in all of them.
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
    """A study's name, storage, budget and resources.

    Fields that are also options of a job are described, and checked one by one, in
    ``sentune.job.options``; here they are checked against each other.

    Attributes:
        storage: folder or fsspec URI that contains the study's own folder.
        optuna_url: URL of Optuna's database; None for a journal in the study's folder.
        first_rung: examples at which trials are first compared; None for ``default_first_rung``.
        rung_rows: rows of each development corpus for validations at the search's rungs; None for
            all. With ``validate_every`` all rows count, since these validations choose a trial's
            best milestone.
        seed: seed of all draws and of the trials' training runs; finalists use the following ones.
        workers: workers of a trial; a range makes the group elastic.
        retire_after: trials after which inline worker processes are replaced, which costs ten
            seconds of imports each. A trial's memory is freed when it ends.
        max_failures: deaths of a trial's processes after which it still restarts; preemptions do
            not count.
        data_cpus: CPUs kept free for Ray Data; 0 if no corpus streams.
        budget: limits over all starts of the study.
        objectives: further objectives beside the space's, for a Pareto front.
        constraints: constraints on metrics; trials that violate one cannot win.
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
        if is_own(self.sampler):  # raises early if there is no such sampler
            find_own(self.sampler)
        if self.launcher == "inline" and self.worker_range[1] > 1:
            fix = "inline runs one worker a trial; give --launcher train"
            raise InvalidValue("--launcher", "inline", fix)
        if self.gpus_per_worker > 1 and self.gpus_per_worker % 1:
            fix = "a worker has part of one GPU or whole GPUs; give 1 or less, or a whole number"
            raise InvalidValue("--gpus-per-worker", self.gpus_per_worker, fix)
        if self.points and not self.tries_first:
            fix = f"{self.sampler} keeps its own order; leave it out, or give another --sampler"
            raise InvalidValue("--try-first", dict(self.points[0]), fix)
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
        """The study's own folder, or URI; absolute, because trials run in other directories."""
        return f"{absolute(self.storage).rstrip('/')}/{self.name}"

    @property
    def runs_folder(self) -> str:
        """Folder or URI of the runs' folders."""
        return f"{self.folder}/trials"

    def directory(self, run: str) -> str:
        """Return the folder or URI of a run's checkpoints."""
        return f"{self.runs_folder}/{run}"

    def milestones(self, mode: str) -> tuple[int, ...]:
        """Return the examples at which a trial validates: ``validate_every``, rungs and the end.

        The papers validate every 100 steps and keep the best; rungs alone are cheaper.
        """
        every = self.validate_every or self.max_examples
        more = range(every, self.max_examples, every)
        return tuple(sorted({*more, *self.scheduling(mode).milestones}))

    @property
    def tries_first(self) -> bool:
        """Whether the search starts with the known points; a grid keeps its own order."""
        return self.sampler.partition(":")[0] != "grid"

    @property
    def rows_at_rungs(self) -> int:
        """Rows of each development corpus for validations at the search's rungs; 0 for all."""
        return 0 if self.validate_every or self.population else self.rung_rows or 0

    def scheduling(self, mode: str, *, ahead: int = 0) -> Scheduler:
        """Return the scheduler of the search; at each rung at least ``finalists`` trials continue.

        With several objectives all trials run to their end, since none of them can decide alone.
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
    """Return the objective of the space, followed by those of the configuration."""
    return (Objective(space.objective, space.mode), *config.objectives)
