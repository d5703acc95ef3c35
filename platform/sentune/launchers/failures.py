"""Tell why a Ray Train group has failed: on which rank, and whether a restart may help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import ray
import torch
from ray.train.v2.api.exceptions import ControllerError, TrainingFailedError, WorkerGroupError
from torch import distributed

from sentune.errors import SentuneError
from sentune.launchers.ray_train_internals import unwrapped
from sentune.launchers.trial_report import Report, failed
from sentune.training.group import Group
from sentune.training.memory import short_of_memory

_TALK = re.compile(
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
    if isinstance(
        error, OSError | distributed.DistError | torch.AcceleratorError | ray.exceptions.RayError
    ):
        return True
    return isinstance(error, RuntimeError) and bool(_TALK.search(str(error)))


def own_error(error: BaseException, group: Group, traceback: str) -> Report:
    """Return the report of a worker's own error, with its rank where it is that rank's alone."""
    said = failed(error, traceback)
    if group.world_size == 1 or isinstance(error, SentuneError):  # all workers meet the latter
        return said
    return replace(said, failure=f"{said.failure} (on rank {group.rank} of {group.world_size})")


def killed_for_memory(error: TrainingFailedError) -> bool:
    """Return whether Ray has ended a worker because its machine ran out of memory."""
    return any(isinstance(e, ray.exceptions.OutOfMemoryError) for _, e in _failures(error))


def group_failure(error: TrainingFailedError, traceback: str) -> Report:
    """Return why a group without a recorded failure has failed; a dead process comes first."""
    if isinstance(error, ControllerError):
        return failed(error.controller_failure, traceback)
    failures = sorted(_failures(error), key=lambda failure: (_talks(failure[1]), failure[0]))
    if not failures:
        return failed(error, traceback)
    rank, first = failures[0]
    if isinstance(first, ray.exceptions.RayActorError):
        lines = [line.strip() for line in str(first).splitlines() if line.strip()]
        words = lines[-1][:300] if lines else "no word"
        return Report(failure=f"the process of rank {rank} died: {words}", traceback=str(first))
    said = failed(first, str(first))
    if _talks(first):  # Ray has not missed its peer yet, which has left no word either
        words = said.failure.split(". ")[0][:200]
        return replace(said, failure=f"a worker was lost, as rank {rank} noticed: {words}")
    return replace(said, failure=f"{said.failure} (on rank {rank})")


def _talks(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and bool(_TALK.search(str(error)))


def _failures(error: TrainingFailedError) -> list[tuple[int, BaseException]]:
    """Return (rank, error) of each failed worker, without what Ray Train wraps around it."""
    found: Mapping[int, BaseException] = (
        error.worker_failures if isinstance(error, WorkerGroupError) else {}
    )
    return [(rank, unwrapped(failure)) for rank, failure in found.items()]
