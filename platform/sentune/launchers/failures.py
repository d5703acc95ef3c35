"""Failures of Ray Train groups: reports from which the runner decides whether a trial restarts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

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
"""Messages of torch's backends if a peer worker is gone."""


def passes(error: BaseException) -> bool:
    """Return whether an error may not occur again: of a lost peer, network, disk or device.

    If a worker dies, its peers get an error in their next collective, which is not the trial's.
    """
    if short_of_memory(error) or isinstance(error, SentuneError | ray.exceptions.RayTaskError):
        return False
    return _lost_peer(error) or isinstance(
        error, OSError | distributed.DistError | torch.AcceleratorError | ray.exceptions.RayError
    )


def own_error(error: BaseException, group: Group, traceback: str) -> Report:
    """Return the report of a worker's own error, with its rank unless all workers have it."""
    report = failed(error, traceback)
    if group.world_size == 1 or isinstance(error, SentuneError):  # the latter hits all workers
        return report
    return replace(report, failure=f"{report.failure} (on rank {group.rank} of {group.world_size})")


def failure_of(error: TrainingFailedError, spec: TrialSpec, workers: int, traceback: str) -> Report:
    """Return the report of a group that failed without a report from its workers."""
    if isinstance(error, ControllerError):
        return failed(error.controller_failure, traceback)
    found = error.worker_failures if isinstance(error, WorkerGroupError) else {}
    failures = [(rank, unwrapped(failure)) for rank, failure in found.items()]
    for _, failure in failures:
        if isinstance(failure, ray.exceptions.OutOfMemoryError):
            half, why = halved(spec, workers), died(failure).failure
            why += "" if half else ", even with a micro_batch of 1"
            return Report(failure=why, repeats=True, out_of_memory=True, micro_batch=half)
    return replace(_first_failure(failures) or failed(error, traceback), died=True)


def without_place(error: TrainingFailedError) -> bool:
    """Return whether the group got no place in time.

    Ray Train waits a minute and tries three times more. A cloud's node takes two to six minutes,
    and a spot machine may take hours.
    """
    return isinstance(error, ControllerError) and isinstance(
        error.controller_failure, WorkerGroupStartupTimeoutError
    )


def _first_failure(failures: Sequence[tuple[int, BaseException]]) -> Report | None:
    """Return the report of the first worker's failure, dead processes before lost peers."""
    if not failures:
        return None
    rank, first = min(failures, key=lambda failure: (_lost_peer(failure[1]), failure[0]))
    if isinstance(first, ray.exceptions.RayActorError):
        words = last_line(first)[:300] or "no message"
        return Report(failure=f"the process of rank {rank} died: {words}", traceback=str(first))
    report = failed(first, str(first))
    if _lost_peer(first):  # Ray has not noticed the lost peer yet
        words = report.failure.split(". ")[0][:200]
        return replace(report, failure=f"a worker was lost, as rank {rank} noticed: {words}")
    return replace(report, failure=f"{report.failure} (on rank {rank})")


def _lost_peer(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and bool(_LOST_PEER.search(str(error)))
