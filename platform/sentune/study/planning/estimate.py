"""What a plan will cost, from a probe: hours, GPU hours, CPU hours and bytes on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sentune.study.config import StudyConfig
from sentune.study.runner.retention import bytes_bound


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a short training run on this machine took.

    Attributes:
        start_seconds: until the first step: the method built, the corpus opened.
        seconds_per_example: of training, validation left out.
        seconds_per_validation: 0 where none was reached in time.
        checkpoint_bytes: of one checkpoint.
        gpu: whether it ran on a GPU.
        basis: what was run, in a few words.
    """

    start_seconds: float
    seconds_per_example: float
    seconds_per_validation: float
    checkpoint_bytes: int
    gpu: bool
    basis: str


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a study is expected to cost, finals included.

    Attributes:
        hours: of wall time with all trials at a time that the plan allows.
        hours_now: with those that the machines hold which are up; None where they hold none.
        gpu_hours: hours times GPUs of all runs.
        cpu_hours: hours times CPUs of all runs.
        checkpoint_bytes: of one checkpoint.
        disk_bytes: of all checkpoints that stand at a time, at the most.
        basis: what it was reckoned from.
    """

    hours: float
    hours_now: float | None
    gpu_hours: float
    cpu_hours: float
    checkpoint_bytes: int
    disk_bytes: int
    basis: str


class Asked(Protocol):
    """A plan as it is reckoned with; see ``Plan``."""

    @property
    def trials(self) -> int: ...
    @property
    def finalists(self) -> int: ...
    @property
    def max_examples(self) -> int: ...
    @property
    def examples_expected(self) -> int: ...
    @property
    def validations_expected(self) -> int: ...
    @property
    def validations_full(self) -> int: ...
    @property
    def concurrent(self) -> int: ...
    @property
    def concurrent_now(self) -> int: ...


def estimate(plan: Asked, config: StudyConfig, probe: Probe) -> Estimate:
    """Reckons a plan's cost; n workers are taken to train n times as fast, one validates."""
    workers, _ = config.worker_range

    def seconds(runs: int, examples: int, validations: int) -> float:
        training = probe.seconds_per_example * examples / workers
        return runs * probe.start_seconds + training + probe.seconds_per_validation * validations

    full = seconds(1, plan.max_examples, plan.validations_full)
    finals = plan.finalists * full
    search = seconds(plan.trials, plan.examples_expected, plan.validations_expected) - seconds(
        0, plan.finalists * plan.max_examples, plan.finalists * plan.validations_full
    )

    def wall(concurrent: int) -> float:
        rounds = -(-plan.finalists // concurrent)
        return (max(search / concurrent, full) + rounds * full) / 3600

    held = (search + finals) * workers / 3600
    return Estimate(
        hours=wall(plan.concurrent),
        hours_now=wall(plan.concurrent_now) if plan.concurrent_now else None,
        gpu_hours=held * config.gpus_per_worker,
        cpu_hours=held * config.cpus_per_worker,
        checkpoint_bytes=probe.checkpoint_bytes,
        disk_bytes=disk_bound(config, plan.concurrent, plan.finalists, probe.checkpoint_bytes),
        basis=_basis(probe, config),
    )


def disk_bound(config: StudyConfig, concurrent: int, finals: int, checkpoint_bytes: int) -> int:
    """Bytes of checkpoints that the study never exceeds."""
    return bytes_bound(checkpoint_bytes, concurrent=concurrent, keep=config.keep, finals=finals)


def _basis(probe: Probe, config: StudyConfig) -> str:
    parts = [probe.basis]
    workers, _ = config.worker_range
    if workers > 1:
        parts.append(f"{workers} workers are taken to train {workers} times as fast")
    if config.gpus_per_worker and not probe.gpu:
        parts.append("a GPU trains faster than this CPU, so this is an upper bound")
    return "; ".join([*parts, "on other machines it will differ"])


def size_of(count: int) -> str:
    """1300000 -> ``1.3 MB``."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"
