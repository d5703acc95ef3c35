"""Plan of a study: its runs, resources and costs, checked before anything starts.

Without this check Ray would wait for ever for resources that the cluster cannot have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from sentune.errors import PlanError
from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import WORKER_CPUS, Capacity, Node
from sentune.study.samplers.registry import make_sampler
from sentune.study.space.space import SearchSpace

PER_RUN = 5
"""Most checkpoints of a running run: best, newest, newest of a milestone, one that was set aside,
and the one that is being written."""

PER_WAITING = 2
"""Checkpoints of a stopped run that may continue: best and newest. If rungs are validated on all of
dev, the best one of the run that it continued is one more."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Times and sizes measured in a short training run on this machine.

    Attributes:
        start_seconds: seconds until the first step, in which method and corpus are opened.
        seconds_per_example: seconds of training per example, without validation.
        seconds_per_validation: seconds of a validation on all of dev; 0 if none ended in time.
        checkpoint_bytes: size of a checkpoint.
        gpu: whether it ran on a GPU.
        basis: short description of the run.
        rung_share: cost of a validation at a rung, as a share of one on all of dev.
        metrics: names of the metrics that a validation measured; empty if none ended in time.
    """

    start_seconds: float
    seconds_per_example: float
    seconds_per_validation: float
    checkpoint_bytes: int
    gpu: bool
    basis: str
    rung_share: float = 1.0
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Expected cost of a study, including the finals.

    Attributes:
        hours: wall time with as many trials at a time as the plan allows.
        hours_now: wall time on the machines that are up; None if no trial fits on them.
        gpu_hours, cpu_hours: hours times GPUs, or CPUs, of all runs.
        checkpoint_bytes: size of a checkpoint.
        disk_bytes: most bytes of all checkpoints at a time.
        basis: short description of the measurements and assumptions.
    """

    hours: float
    hours_now: float | None
    gpu_hours: float
    cpu_hours: float
    checkpoint_bytes: int
    disk_bytes: int
    basis: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Runs and resources of a study.

    Attributes:
        rungs: examples at which trials are compared.
        finalists: runs of the finals: finalists times seeds.
        examples_expected: examples of all runs if trials come in random order.
        examples_at_most: examples of all runs if none is stopped.
        validations_expected: validations of all runs, likewise.
        validations_at_rungs: those of them in the search before the end of a run.
        validations_full: validations of a run that is not stopped.
        workers: fewest and most workers of a trial.
        cpus, gpus: CPUs and GPUs of a trial with its fewest workers.
        data_cpus: CPUs that stay free for Ray Data.
        concurrent: trials at a time.
        concurrent_now: trials at a time on the machines that are up.
        gpus_unused: GPUs of the machines that are up, if trials use none.
        note: which points are tried first, and how they were changed to fit.
    """

    study: str
    launcher: str
    scheduler: str
    sampler: str
    trials: int
    rungs: tuple[int, ...]
    max_examples: int
    finalists: int
    examples_expected: int
    examples_at_most: int
    validations_expected: int
    validations_at_rungs: int
    validations_full: int
    workers: tuple[int, int]
    cpus: float
    gpus: float
    data_cpus: float
    concurrent: int
    concurrent_now: int
    gpus_unused: float = 0.0
    note: str = ""
    estimate: Estimate | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON types."""
        return {**asdict(self), "rungs": list(self.rungs), "workers": list(self.workers)}


def searched(config: StudyConfig, space: SearchSpace) -> SearchSpace:
    """Return the space to search: that of a named grid if ``--sampler`` names one."""
    kind, _, grid = config.sampler.partition(":")
    return space.on_grid(grid) if kind == "grid" and grid else space


def make_plan(config: StudyConfig, space: SearchSpace, capacity: Capacity) -> Plan:
    """Compute and check the plan; it needs no Ray.

    Raises:
        PlanError: the cluster cannot run it even when grown to its limit; names the option.
        InvalidValue: the sampler or grid does not fit the space.
    """
    space = searched(config, space)
    make_sampler(  # for its checks
        config.sampler,
        space,
        trials=config.trials,
        seed=config.seed,
        modes=[space.mode, *(objective.mode for objective in config.objectives)],
        constraints=config.constraints,
    )
    scheduler = config.search_scheduler(space)
    milestones = config.milestones(space.mode)
    trials = config.trials
    if space.size is not None and not config.population:
        trials = min(trials, max(space.size, 1))
    runs = config.population or trials  # a member's segments are one training run
    finals = min(config.finalists, trials) * config.seeds
    most = max(runs, finals)
    now, full = _trials_held(config, capacity.nodes), _trials_held(config, capacity.reachable)
    if full < 1:
        raise _does_not_fit(config, capacity.reachable)
    if config.concurrent is not None and config.concurrent > full:
        raise PlanError("--concurrent", config.concurrent, f"the cluster holds {full}; give auto")
    concurrent = min(config.concurrent or full, config.max_concurrent or full, most)
    low, high = config.worker_range
    reached = scheduler.expected(runs)
    examples = sum(reached[end] * (end - start) for start, end in pairwise((0, *reached)))
    # a trial that comes to a milestone between two rungs comes to the second one, too
    validations = [next(reached[end] for end in reached if end >= at) for at in milestones]
    kind = "none" if config.objectives else config.scheduler
    return Plan(
        study=config.name,
        launcher=config.launched_by,
        scheduler=f"population of {config.population}" if config.population else kind,
        sampler=config.sampler,
        trials=trials,
        rungs=scheduler.rungs,
        max_examples=config.max_examples,
        finalists=finals,
        examples_expected=round(examples) + finals * config.max_examples,
        examples_at_most=(runs + finals) * config.max_examples,
        validations_expected=round(sum(validations)) + finals * len(milestones),
        validations_at_rungs=round(sum(validations[:-1])),
        validations_full=len(milestones),
        workers=(low, high),
        cpus=low * WORKER_CPUS,
        gpus=low * config.gpus_per_worker,
        data_cpus=config.data_cpus,
        concurrent=concurrent,
        concurrent_now=min(concurrent, now),
        gpus_unused=0.0 if config.gpus_per_worker else sum(node.gpus for node in capacity.nodes),
        note=space.first_note() if config.tries_first else "",
    )


def _trials_held(config: StudyConfig, nodes: Sequence[Node]) -> int:
    """Return how many trials fit at a time beside the CPUs for Ray Data."""
    low, _ = config.worker_range
    workers = sum(node.holds(config.gpus_per_worker) for node in nodes)
    free = sum(node.cpus for node in nodes) - config.data_cpus
    return max(0, int(min(workers, free / WORKER_CPUS) // low))


def _does_not_fit(config: StudyConfig, nodes: Sequence[Node]) -> PlanError:
    """Return the error if no trial fits on these machines."""
    low, gpus = config.worker_range[0], config.gpus_per_worker
    workers = sum(node.holds(gpus) for node in nodes)
    most = max(node.gpus for node in nodes)
    if gpus > most:
        less = f"give {most:g} or less" if most else "leave it out"
        fix = f"the largest machine has {most:g} GPUs; {less}"
        return PlanError("--gpus-per-worker", gpus, fix)
    fix = f"the cluster holds {workers} workers of {WORKER_CPUS:g} CPU and {gpus:g} GPUs"
    if low <= workers:
        fix = (
            f"{config.data_cpus:g} of {sum(node.cpus for node in nodes):g} CPUs stay free for Ray "
            "Data; give fewer workers, or a higher --share-mb so that the corpus is shared"
        )
    return PlanError("--workers", low, fix)


def estimate(plan: Plan, config: StudyConfig, probe: Probe) -> Estimate:
    """Estimate a plan's cost, assuming that n workers train n times as fast and one validates."""
    workers, _ = config.worker_range
    search, full = _run_hours(plan, config, probe)
    held = (search + plan.finalists * full) * workers
    now = plan.concurrent_now
    basis = [probe.basis]
    if workers > 1:
        basis.append(f"{workers} workers are assumed to train {workers} times as fast")
    if config.gpus_per_worker and not probe.gpu:
        basis.append("a GPU trains faster than this CPU, so this is an upper bound")
    return Estimate(
        hours=sum(stage_hours(plan, config, probe, plan.concurrent)),
        hours_now=sum(stage_hours(plan, config, probe, now)) if now else None,
        gpu_hours=held * config.gpus_per_worker,
        cpu_hours=held * WORKER_CPUS,
        checkpoint_bytes=probe.checkpoint_bytes,
        disk_bytes=bytes_bound(probe.checkpoint_bytes, plan, config),
        basis="; ".join([*basis, "on other machines it will differ"]),
    )


def stage_hours(
    plan: Plan, config: StudyConfig, probe: Probe, concurrent: int
) -> tuple[float, float]:
    """Return the wall time of the search and of the finals in hours, for runs at a time."""
    search, full = _run_hours(plan, config, probe)
    rounds = -(-plan.finalists // concurrent)
    return max(search / concurrent, full), rounds * full


def _run_hours(plan: Plan, config: StudyConfig, probe: Probe) -> tuple[float, float]:
    """Return the hours of all runs of the search in sequence, and of one full run."""
    workers, _ = config.worker_range

    def hours(runs: int, examples: int, validations: float) -> float:
        training = probe.seconds_per_example * examples / workers
        validating = probe.seconds_per_validation * validations
        return (runs * probe.start_seconds + training + validating) / 3600

    examples = plan.examples_expected - plan.finalists * plan.max_examples
    validations = plan.validations_expected - plan.finalists * plan.validations_full
    saved = (1 - probe.rung_share) * plan.validations_at_rungs
    full = hours(1, plan.max_examples, plan.validations_full)
    return hours(plan.trials, examples, validations - saved), full


def bytes_bound(checkpoint_bytes: int, plan: Plan, config: StudyConfig) -> int:
    """Return the most bytes that a study's checkpoints take at a time: those of running runs, of
    stopped ones that may continue, of the best trials, the finals and the published model."""
    waiting = PER_WAITING + (not config.rows_at_rungs)
    runs = PER_RUN * plan.concurrent + waiting * most_waiting(config)
    return checkpoint_bytes * (runs + config.keep + plan.finalists + 1)


def most_waiting(config: StudyConfig) -> int:
    """Return the most stopped trials that may continue, at any moment."""
    return 0 if config.population else config.scheduling("max").most_waiting(config.trials)
