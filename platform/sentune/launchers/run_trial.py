"""Run a program on one worker: checkpoints, checks and reports, for both launchers."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sentune.code import require_code
from sentune.errors import TrialFailed
from sentune.launchers.control_signal import Ask, ControlSignal, no_signal
from sentune.launchers.trial_report import Report, failed, left, said
from sentune.lazy_import import LazyModule
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec

if TYPE_CHECKING:
    from torch import distributed
else:
    distributed = LazyModule("torch.distributed")

SECONDS = "train/seconds"
"""Metric of a program that counts its own time over restarts."""


def run_trial(
    program: Program,
    spec: TrialSpec,
    group: Group,
    ask: Ask = no_signal,
    notes: Sequence[str] = (),
) -> Generator[Report, None, None]:
    """Run the program and yield a report of each milestone, its checkpoint written.

    Between milestones a checkpoint is written every ``spec.checkpoint_every`` examples, and when
    the trial is to leave; the last report then says that it has left.

    Args:
        program: what trains.
        spec: the training run.
        group: of which this process is a worker.
        ask: what the trial is to do; asked after each step.
        notes: what has happened to the trial so far, for its reports.

    Raises:
        TrialFailed: the objective was not measured or is not finite.
        RuntimeError: another worker of the group is lost.
    """
    writer = _CheckpointWriter(spec) if spec.directory and group.is_first else None
    told = [*notes] + (writer.notes if writer is not None else [])
    started = time.monotonic()
    spec = replace(spec, every_step=True)
    with _peers_lost(group), closing(program(spec, group)) as progresses:  # type: ignore[type-var]
        for progress in progresses:
            score = _score(progress, spec, group)
            signal = ControlSignal.NONE if progress.final else ask()
            if writer is not None:
                writer.write(progress, score, at_once=signal is not ControlSignal.NONE)
            notes = [*told, *progress.notes]
            if signal is not ControlSignal.NONE:
                preempted, resizes = (
                    signal is ControlSignal.PREEMPTED,
                    signal is ControlSignal.RESIZE,
                )
                yield replace(left(progress, preempted=preempted, resizes=resizes), notes=notes)
                return
            if progress.milestone:
                yield replace(said(progress, _seconds(progress, started)), notes=notes)


@contextmanager
def _peers_lost(group: Group) -> Iterator[None]:
    """Raise ``RuntimeError`` where the group has been taken down under its workers.

    Ray Train does that when one of them is lost. The others then hear from torch that there never
    was a group, a ValueError that looks like the trial's own.
    """
    try:
        yield
    except ValueError as error:
        if group.world_size == 1 or distributed.is_initialized():
            raise
        message = f"the process group was taken down, another worker is lost ({error})"
        raise RuntimeError(message) from error


def guarded(
    program: Program, spec: TrialSpec, group: Group, code: str, ask: Ask = no_signal
) -> Generator[Report, None, None]:
    """``run_trial`` on the driver's code, where an error is the last report and not an exception.

    Args:
        program: what trains.
        spec: the training run.
        group: of which this process is a worker.
        code: fingerprint of the driver's code; with another one the trial fails.
        ask: what the trial is to do.
    """
    try:
        require_code(code)
        yield from run_trial(program, spec, group, ask)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the trial's end and is told
        yield failed(error, traceback.format_exc())


class _CheckpointWriter:
    """Writes a trial's checkpoints, on its first worker.

    A milestone that is said again is not newer than what is there: writing it once more would drop
    the newer state between milestones.
    """

    def __init__(self, spec: TrialSpec) -> None:
        self._store, self._every = (
            CheckpointStore(spec.directory, spec.generation),
            spec.checkpoint_every,
        )
        newest = self._store.last_progress()
        self._kept = newest.examples if newest is not None else -1
        self._seen = max(self._kept, 0)
        self.notes = self._store.notes

    def write(self, progress: Progress, score: float | None, *, at_once: bool) -> None:
        """Write the checkpoint that is due, if any.

        Args:
            progress: newest.
            score: higher is better; None between milestones.
            at_once: the trial leaves with it.
        """
        seen, self._seen = self._seen, max(self._seen, progress.examples)
        due = bool(self._every) and self._seen // self._every > seen // self._every
        if progress.examples > self._kept and (progress.milestone or due or at_once):
            self._store.save(progress, score)
            self._kept = progress.examples


def _score(progress: Progress, spec: TrialSpec, group: Group) -> float | None:
    """Return the objective, higher is better; None between milestones."""
    if not progress.milestone:
        return None
    measured = group.broadcast_object(progress.metrics)
    value = _objective(measured, progress.examples, spec)
    return -value if spec.mode == "min" else value


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
