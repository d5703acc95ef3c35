"""Trial on one worker, for both launchers: runs the program, writes checkpoints, makes reports."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

from sentune.beats import beat
from sentune.code import require_code
from sentune.errors import TrialFailed
from sentune.launchers.control_actor import Ask, ControlSignal, no_signal
from sentune.launchers.trial_report import Report, failed
from sentune.lazy_import import torch
from sentune.records import PART
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec

SECONDS = "train/seconds"
"""Metric with the training time, for programs that count it themselves over restarts."""


def run_trial(
    program: Program, spec: TrialSpec, group: Group, ask: Ask = no_signal
) -> Generator[Report, None, None]:
    """Run the program, and yield a report of each milestone after its checkpoint is written.

    Further checkpoints are written every ``spec.checkpoint_every`` examples, and when ``ask``
    returns a signal to leave after a step. The last report then has ``left`` set; a milestone
    reached at that step is reported again when the trial continues.

    Raises:
        TrialFailed: the objective was not measured or is not finite.
        RuntimeError: another worker of the group is lost.
    """
    writer = _CheckpointWriter(spec) if spec.directory and group.is_first else None
    notes = writer.notes if writer is not None else []
    spec, started = replace(spec, every_step=True), time.monotonic()
    try:
        with closing(program(spec, group)) as progresses:  # type: ignore[type-var]
            for progress in progresses:
                beat(examples=progress.examples, loss=progress.metrics.get("train/loss"))
                score = _score(progress, spec, group) if progress.milestone else None
                signal = ControlSignal.NONE if progress.final else ask()
                leaves = signal is not ControlSignal.NONE
                if writer is not None:
                    writer.write(progress, score, at_once=leaves)
                if not (leaves or progress.milestone):
                    continue
                metrics = {name: float(value) for name, value in progress.metrics.items()}
                yield Report(
                    examples=progress.examples,
                    metrics=metrics,
                    notes=[*notes, *progress.notes],
                    final=progress.final,
                    readouts=progress.readouts,
                    trace=progress.trace,
                    seconds=metrics.get(SECONDS, time.monotonic() - started),
                    left=leaves,
                    preempted=signal is ControlSignal.PREEMPTED,
                    resizes=signal is ControlSignal.RESIZE,
                    poisoned=signal is ControlSignal.PREEMPTED,
                )
                if leaves:
                    return
    except ValueError as error:
        # Ray Train destroys a process group when a worker is lost. Torch then raises a ValueError
        # in the other workers (no default group), which looks like an error of the trial
        if group.world_size == 1 or torch.distributed.is_initialized():
            raise
        message = f"the process group was destroyed, another worker is lost ({error})"
        raise RuntimeError(message) from error


def guarded(
    program: Program, spec: TrialSpec, group: Group, code: str, ask: Ask = no_signal
) -> Generator[Report, None, None]:
    """Run ``run_trial`` after a check of the code's fingerprint; errors become the last report."""
    try:
        require_code(code)
        yield from run_trial(program, spec, group, ask)
    except Exception as error:  # noqa: BLE001 - any error is the trial's end and its last report
        yield failed(error, traceback.format_exc())


class _CheckpointWriter:
    """Writes a trial's checkpoints, on its first worker.

    Progress that is not newer than the newest checkpoint, such as a repeated milestone, is not
    written: it would replace the newer state.
    """

    def __init__(self, spec: TrialSpec) -> None:
        self._store = CheckpointStore.of(spec)
        self._every = spec.checkpoint_every
        newest = self._store.last_progress()
        self._kept = newest.examples if newest is not None else -1
        self._seen = max(self._kept, 0)
        self.notes = self._store.notes

    def write(self, progress: Progress, score: float | None, *, at_once: bool) -> None:
        """Write a checkpoint if one is due, or if ``at_once``, before the trial leaves."""
        seen, self._seen = self._seen, max(self._seen, progress.examples)
        due = bool(self._every) and self._seen // self._every > seen // self._every
        if progress.examples > self._kept and (progress.milestone or due or at_once):
            beat("saving")
            self._store.save(progress, score)
            self._kept = progress.examples
            beat("training")


def _score(milestone: Progress, spec: TrialSpec, group: Group) -> float | None:
    """Return the first worker's objective, signed so that higher is better.

    None if it was measured on a part of dev.

    Raises:
        TrialFailed: it was not measured or is not finite.
    """
    metrics, examples = group.broadcast_object(milestone.metrics), milestone.examples
    if spec.objective not in metrics:
        named = ", ".join(sorted(metrics)) or "nothing"
        raise TrialFailed(
            f"{spec.objective} was not measured at {examples:,} examples; {named} was"
        )
    value = metrics[spec.objective]
    if not math.isfinite(value):
        raise TrialFailed(f"{spec.objective} is {value} at {examples:,} examples")
    if PART in metrics:
        return None
    return -value if spec.mode == "min" else value
