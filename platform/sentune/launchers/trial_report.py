"""A trial's report to its driver, and its form in Tune's and Train's result dictionaries."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import ray

from sentune.code import CodeMismatch
from sentune.errors import CheckpointGone, Overtaken, SentuneError, first_line, last_line
from sentune.io.atomic import StorageError
from sentune.training.memory import OutOfMemory, short_of_memory

PAYLOAD = "said"
"""The one key under which a report travels through Tune's and Train's result dictionaries."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One milestone, or the reason why there will be none.

    Attributes:
        examples: the milestone; where it left, of the checkpoint from which it will go on.
        final: the budget is used up.
        metrics, readouts, trace: as of ``Progress``.
        seconds: seconds of training and validation up to here, over all starts.
        failure: why the trial cannot go on; empty while it can.
        died: processes of its group did, which may be forgiven.
        repeats: the same settings would fail in the same way.
        poisoned: the process should run no further trial (an accelerator in an unknown state, a
            machine that is being taken back).
        storage: the storage cannot be written, which is not this trial's fault alone.
        left: it wrote a checkpoint and ended because it was asked to; it can go on.
        preempted: it left because its machine is being taken back.
        resizes: it left because there is room for more workers.
        micro_batch: with which a new start may fit in memory; 0 where none may.
        notes: what happened to it beside its curve, a sentence each.
        gpus: of all workers of the group.
        anew: another run's checkpoint, from which it was to go on, is missing or damaged.
        overtaken: a later start of the study drives it now.
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
        """Why it left and goes on elsewhere or with more workers; empty for any other report."""
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
        """Return the report in a result dictionary; None for Tune's own closing entry."""
        return cls(**json.loads(result[PAYLOAD])) if PAYLOAD in result else None


def failed(error: BaseException, traceback: str = "") -> Report:
    """Return the report of an error that ended the trial."""
    import torch  # a driver does without it

    short = isinstance(error, OutOfMemory) or bool(short_of_memory(error))
    return Report(
        failure=reason(error),
        # a network, a disk or the right code may be there next time
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
    """Return the report of a process that died, from what Ray says of it."""
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        why = "out of memory on the host: Ray ended a process before the machine stood still"
        return Report(failure=why, out_of_memory=True)
    if isinstance(error, ray.exceptions.RayTaskError):
        return Report(failure=reason(error.cause))
    if getattr(error, "preempted", False):
        return Report(failure="its machine was taken back", preempted=True)
    words = last_line(error)[:300] if error is not None else ""
    return Report(failure=f"its process died: {words}" if words else "its process died")


def reason(error: BaseException) -> str:
    """Return a line for users: the error's message, with its type unless it is one of ours."""
    words = first_line(error)
    if isinstance(error, SentuneError):
        return words
    if where := short_of_memory(error):
        return f"out of memory on {where} ({words})"
    return f"{type(error).__name__}: {words}"
