"""Why a Ray Train group has failed, and whether and with what it starts again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
import torch
from ray.train.v2.api.exceptions import ControllerError, TrainingFailedError, WorkerGroupError
from torch import distributed

from sentune.errors import SentuneError, last_line
from sentune.launchers.launch import halved
from sentune.launchers.ray_train_internals import WorkerGroupStartupTimeoutError, unwrapped
from sentune.launchers.trial_report import Report, died, failed
from sentune.training.group import Group
from sentune.training.memory import short_of_memory
from sentune.training.trial import TrialSpec

_LOST_PEER = re.compile(
    r"gloo|nccl|tcpstore|connection (closed|reset|refused)|broken pipe|socket|process group",
    re.IGNORECASE,
)
"""What torch's backends say when the worker at the other end is gone."""


def passes(error: BaseException) -> bool:
    """Return whether an error may be gone at the next start: a lost peer, network, disk or device.

    A worker whose peer dies meets an error of its own in the next collective; it says nothing
    about the trial.
    """
    if short_of_memory(error) or isinstance(error, SentuneError | ray.exceptions.RayTaskError):
        return False
    return _lost_peer(error) or isinstance(
        error, OSError | distributed.DistError | torch.AcceleratorError | ray.exceptions.RayError
    )


def own_error(error: BaseException, group: Group, traceback: str) -> Report:
    """Return the report of a worker's own error, with its rank where it is that rank's alone."""
    report = failed(error, traceback)
    if group.world_size == 1 or isinstance(error, SentuneError):  # all workers meet the latter
        return report
    return replace(report, failure=f"{report.failure} (on rank {group.rank} of {group.world_size})")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of a trial's group.

    Attributes:
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
        """Return the next attempt, with what led to it."""
        return replace(self, notes=(*self.notes, note), **changes)

    def sized(self, workers: int, *, fewest: int) -> Attempt:
        """Return this attempt with a group of this size; its last note names a change."""
        notes = self.notes
        if notes and self.workers not in (0, workers):
            size = f"{workers} instead of {self.workers} workers from there on"
            notes = (*notes[:-1], f"{notes[-1]}; {size}")
        return replace(self, workers=workers, may_shrink=workers > fewest, notes=notes)


def after_failure(
    error: TrainingFailedError,
    report: Report | None,
    attempt: Attempt,
    max_failures: int,
    traceback: str,
    stall: str = "",
) -> Attempt | Report:
    """Return the next attempt of a group that has failed, or the trial's last report.

    A lack of memory is answered with half the micro-batch and counts for nothing, as it comes to
    an end by itself. A death is forgiven ``max_failures`` times.

    Args:
        error: of Ray Train.
        report: a worker's own last one.
        attempt: that has failed.
        max_failures: deaths that are forgiven.
        traceback: of ``error``.
        stall: why its workers were ended; empty where they were not.
    """
    found = error.worker_failures if isinstance(error, WorkerGroupError) else {}
    failures = [(rank, unwrapped(failure)) for rank, failure in found.items()]
    starved = [e for _, e in failures if isinstance(e, ray.exceptions.OutOfMemoryError)]
    if report is None and starved:
        smaller, why = halved(attempt.spec, attempt.workers), died(starved[0]).failure
        more = "" if smaller else ", even with a micro_batch of 1"
        report = Report(failure=why + more, repeats=True, out_of_memory=True, micro_batch=smaller)
    if report is not None and report.micro_batch:
        note = f"micro_batch {report.micro_batch} from here on: {report.failure}"
        return attempt.noted(note, spec=replace(attempt.spec, micro_batch=report.micro_batch))
    if report is None:
        if attempt.may_shrink and without_place(error):
            return attempt.noted(f"there was no room for {attempt.workers} workers after all")
        if isinstance(error, ControllerError):
            report = failed(error.controller_failure, traceback)
        else:
            report = _first_failure(failures) or failed(error, traceback)
            report = replace(report, failure=stall) if stall else report
            if attempt.deaths < max_failures:
                note = f"started again: {report.failure}"
                return attempt.noted(note, deaths=attempt.deaths + 1)
    return replace(report, notes=[*attempt.notes], restarts=attempt.deaths)


def without_place(error: TrainingFailedError) -> bool:
    """Return whether the group found no place in time.

    Ray Train waits a minute and tries three times more; a cloud's node takes two to six minutes,
    and a spot machine may take hours.
    """
    return isinstance(error, ControllerError) and isinstance(
        error.controller_failure, WorkerGroupStartupTimeoutError
    )


def _first_failure(failures: Sequence[tuple[int, BaseException]]) -> Report | None:
    """Return why a group without a recorded failure has failed; a dead process comes first."""
    if not failures:
        return None
    rank, first = min(failures, key=lambda failure: (_lost_peer(failure[1]), failure[0]))
    if isinstance(first, ray.exceptions.RayActorError):
        words = last_line(first)[:300] or "no word"
        return Report(failure=f"the process of rank {rank} died: {words}", traceback=str(first))
    report = failed(first, str(first))
    if _lost_peer(first):  # Ray has not missed its peer yet, which has left no word either
        words = report.failure.split(". ")[0][:200]
        return replace(report, failure=f"a worker was lost, as rank {rank} noticed: {words}")
    return replace(report, failure=f"{report.failure} (on rank {rank})")


def _lost_peer(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and bool(_LOST_PEER.search(str(error)))
