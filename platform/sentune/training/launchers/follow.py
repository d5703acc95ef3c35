"""Following a program on one worker: checkpoints, checks and reports, for both launchers."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterator
from contextlib import closing

from sentune.code import require_code
from sentune.errors import TrialFailed
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.launchers.report import Report, failed, said
from sentune.training.trial import Program, Progress, TrialSpec

SECONDS = "train/seconds"
"""Metric in which a program that counts its own time over restarts says it."""


def follow(program: Program, spec: TrialSpec, group: Group) -> Iterator[Report]:
    """Runs the program and turns what it says into reports, each with its checkpoint written.

    Raises:
        TrialFailed: the objective was not measured or is not finite.
    """
    store = CheckpointStore(spec.directory) if spec.directory and group.is_first else None
    started = time.monotonic()
    with closing(program(spec, group)) as progresses:  # type: ignore[type-var]
        for progress in progresses:
            measured = group.broadcast_object(progress.metrics)
            value = _objective(measured, progress.examples, spec)
            if store is not None:
                store.save(progress, -value if spec.mode == "min" else value)
            yield said(progress, _seconds(progress, started))


def guarded(program: Program, spec: TrialSpec, group: Group, code: str) -> Iterator[Report]:
    """``follow`` on the driver's code, where an error is the last report and not an exception.

    Args:
        program: what trains.
        spec: the training run.
        group: of which this process is a worker.
        code: fingerprint of the driver's code; with another one the trial fails.
    """
    try:
        require_code(code)
        yield from follow(program, spec, group)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the trial's end and is told
        yield failed(error, traceback.format_exc())


def _objective(metrics: dict[str, float], examples: int, spec: TrialSpec) -> float:
    if spec.objective not in metrics:
        named = ", ".join(sorted(metrics)) or "nothing"
        raise TrialFailed(
            f"{spec.objective} was not measured at {examples:,} examples; {named} was"
        )
    value = metrics[spec.objective]
    if not math.isfinite(value):
        raise TrialFailed(f"{spec.objective} is {value} at {examples:,} examples")
    return value


def _seconds(progress: Progress, started: float) -> float:
    return float(progress.metrics.get(SECONDS, time.monotonic() - started))
