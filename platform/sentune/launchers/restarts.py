"""Decide whether a Ray Train group starts again after its end, and with what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ray.train.v2.api.exceptions import ControllerError, TrainingFailedError

from sentune.launchers.failures import group_failure, killed_for_memory
from sentune.launchers.ray_train_internals import WorkerGroupStartupTimeoutError
from sentune.launchers.trial_report import Report
from sentune.training.trial import TrialSpec


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of a trial's group.

    Attributes:
        spec: the training run.
        workers: of the group; 0 before its first start.
        may_shrink: it could do with fewer workers.
        deaths: of the group's processes so far.
        notes: what has happened so far, a sentence each.
    """

    spec: TrialSpec
    workers: int = 0
    may_shrink: bool = False
    deaths: int = 0
    notes: tuple[str, ...] = ()

    def noted(self, note: str, **changes: Any) -> Attempt:
        """Return the next attempt."""
        return replace(self, notes=(*self.notes, note), **changes)

    def sized(self, workers: int, *, fewest: int) -> Attempt:
        """Return this attempt with a group of this size; its last note tells a change."""
        notes = self.notes
        if notes and self.workers not in (0, workers):
            size = f"{workers} instead of {self.workers} workers from there on"
            notes = (*notes[:-1], f"{notes[-1]}; {size}")
        return replace(self, workers=workers, may_shrink=workers > fewest, notes=notes)


def after_return(departed: tuple[int, bool] | None, attempt: Attempt) -> Attempt | None:
    """Return the next attempt of a group whose workers have returned; None where the trial is over.

    Args:
        departed: where it has left with a checkpoint, in examples, and whether because its machine
            is being taken back; if not, there was room for more workers.
        attempt: that has ended.
    """
    if departed is None:
        return None
    examples, preempted = departed
    if preempted:
        return attempt.noted(
            f"its machine was taken back; it went on elsewhere from {examples:,} examples"
        )
    return attempt.noted(f"left at {examples:,} examples: there was room for more workers")


def after_failure(
    error: TrainingFailedError,
    recorded: dict[str, Any] | None,
    attempt: Attempt,
    max_failures: int,
    traceback: str,
) -> Attempt | Report:
    """Return the next attempt of a group that has failed, or the trial's last report.

    A lack of memory is answered with half the micro-batch and counts for nothing, as it comes to
    an end by itself. A death is forgiven ``max_failures`` times.

    Args:
        error: of Ray Train.
        recorded: a worker's own last report, as a result.
        attempt: that has failed.
        max_failures: deaths that are forgiven.
        traceback: of ``error``.
    """
    said = Report.from_result(recorded) if recorded is not None else None
    if said is not None and said.micro_batch:
        spec = replace(attempt.spec, micro_batch=said.micro_batch)
        return attempt.noted(
            f"micro_batch {said.micro_batch} from here on: {said.failure}", spec=spec
        )
    if said is not None:
        return replace(said, notes=[*attempt.notes], restarts=attempt.deaths)
    if killed_for_memory(error):
        return _smaller(attempt)
    if attempt.may_shrink and without_place(error):
        return attempt.noted(f"there was no room for {attempt.workers} workers after all")
    said = group_failure(error, traceback)
    if isinstance(error, ControllerError) or attempt.deaths >= max_failures:
        return replace(said, notes=[*attempt.notes], restarts=attempt.deaths)
    return attempt.noted(f"started again: {said.failure}", deaths=attempt.deaths + 1)


def without_place(error: TrainingFailedError) -> bool:
    """Return whether the group found no place in time.

    Ray Train waits a minute and tries three times more; a cloud's node takes two to six minutes,
    and a spot machine may take hours.
    """
    return isinstance(error, ControllerError) and isinstance(
        error.controller_failure, WorkerGroupStartupTimeoutError
    )


def _smaller(attempt: Attempt) -> Attempt | Report:
    why = "out of memory on the host: Ray ended a worker before the machine stood still"
    smaller = halved(attempt.spec, attempt.workers)
    if not smaller:
        notes = [*attempt.notes]
        return Report(failure=f"{why}, even with a micro_batch of 1", repeats=True,
                      out_of_memory=True, notes=notes, restarts=attempt.deaths)  # fmt: skip
    spec = replace(attempt.spec, micro_batch=smaller)
    return attempt.noted(f"micro_batch {smaller} from here on: {why}", spec=spec)


def halved(spec: TrialSpec, workers: int = 1) -> int:
    """Return half of each worker's micro-batch; 0 where that is one example."""
    # every worker of a group has this module, and only its end needs the methods
    from sentune.methods import GENERATIVE, REGISTRY
    from sentune.training.settings import TrainingSettings

    method = REGISTRY.get(spec.method) or GENERATIVE.get(spec.method)
    values = {**getattr(method, "training_defaults", {}), **spec.settings}
    batch = int(values.get("batch_size") or TrainingSettings.model_fields["batch_size"].default)
    micro = values.get("micro_batch")
    share = -(-batch // max(1, workers))
    now = spec.micro_batch or (share if micro in (None, "none") else int(micro))
    return min(now, share) // 2
