"""Reports of a trial to its driver, carried in Tune's and Train's result dictionaries."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import ray

from sentune.code import CodeMismatch
from sentune.errors import CheckpointGone, Overtaken, SentuneError, first_line, last_line
from sentune.io.atomic import StorageError
from sentune.lazy_import import torch
from sentune.training.memory import OutOfMemory, short_of_memory

PAYLOAD = "said"
"""Key of a report in a result dictionary of Tune or Train."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A milestone of a trial, or the end of its process.

    Attributes:
        examples: examples of the milestone, or, if the trial left, of its last checkpoint.
        final: whether the budget is used up.
        metrics, readouts, trace: as in ``Progress``.
        seconds: seconds of training and validation so far, over all starts.
        failure: why the trial cannot continue; empty if it can.
        died: whether processes of its group died, after which it may start again.
        repeats: whether the same settings would fail again.
        poisoned: whether the process must not run further trials, because its accelerator is in an
            unknown state or its machine is being preempted.
        traceback: traceback of the failure.
        storage: whether the storage cannot be written, which concerns all trials.
        left: whether it ended on request, after a checkpoint if it writes any; it can continue.
        preempted: whether it left because its machine is being preempted.
        resizes: whether it left because there is room for more workers.
        out_of_memory: whether it ran out of memory, of the device or the host.
        micro_batch: micro-batch with which a new start may fit in memory; 0 if there is none.
        notes: sentences on events beside the milestones.
        gpus: GPUs of all workers of the group.
        overtaken: whether a later start drives the study now.
        anew: whether the other run's checkpoint, from which it should start, is missing or damaged.
    """

    examples: int = 0
    final: bool = False
    metrics: dict[str, float] = field(default_factory=dict)
    readouts: dict[str, Any] = field(default_factory=dict)
    trace: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0
    failure: str = ""
    died: bool = False
    repeats: bool = False
    poisoned: bool = False
    traceback: str = ""
    storage: bool = False
    left: bool = False
    preempted: bool = False
    resizes: bool = False
    out_of_memory: bool = False
    micro_batch: int = 0
    notes: list[str] = field(default_factory=list)
    gpus: float = 0.0
    overtaken: bool = False
    anew: bool = False

    @property
    def departure(self) -> str:
        """Why it left to continue elsewhere or with more workers; empty for other reports."""
        if self.left and self.preempted:
            at = f"{self.examples:,} examples"
            return f"its machine was taken back; it went on elsewhere from {at}"
        if self.resizes:
            return f"left at {self.examples:,} examples: there was room for more workers"
        return ""

    def to_result(self) -> dict[str, Any]:
        """Return a result dictionary of Tune or Train."""
        return {PAYLOAD: json.dumps(self.__dict__)}

    @classmethod
    def from_result(cls, result: dict[str, Any]) -> Report | None:
        """Return the report in a result dictionary; None for Tune's own last result."""
        return cls(**json.loads(result[PAYLOAD])) if PAYLOAD in result else None


def failed(error: BaseException, traceback: str = "") -> Report:
    """Return the report of an error that ended the trial."""
    short = isinstance(error, OutOfMemory) or bool(short_of_memory(error))
    return Report(
        failure=reason(error),
        # the network, the disk or the code may be right next time
        repeats=not isinstance(error, OSError | CodeMismatch),
        poisoned=isinstance(error, torch.AcceleratorError | torch.OutOfMemoryError | OutOfMemory),
        traceback=traceback,
        out_of_memory=short,
        micro_batch=error.micro_batch if isinstance(error, OutOfMemory) else 0,
        storage=isinstance(error, StorageError),
        overtaken=isinstance(error, Overtaken),
        anew=isinstance(error, CheckpointGone),
    )


def died(error: BaseException | None = None) -> Report:
    """Return the report of a process that died, from Ray's error if there is one."""
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        why = "out of memory on the host: Ray killed a process to keep the machine responsive"
        return Report(failure=why, out_of_memory=True)
    if isinstance(error, ray.exceptions.RayTaskError):
        return Report(failure=reason(error.cause))
    if getattr(error, "preempted", False):
        return Report(failure="its machine was taken back", preempted=True)
    words = last_line(error)[:300] if error is not None else ""
    return Report(failure=f"its process died: {words}" if words else "its process died")


def reason(error: BaseException) -> str:
    """Return an error's first line for users, with its type unless the package defines it."""
    words = first_line(error)
    if isinstance(error, SentuneError):
        return words
    if where := short_of_memory(error):
        return f"out of memory on {where} ({words})"
    return f"{type(error).__name__}: {words}"
