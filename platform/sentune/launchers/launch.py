"""Settings with which a study launches the training runs of its search and finals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from sentune.launchers.control_actor import ControlClient
from sentune.training.trial import Program, TrialSpec

GROW_SECONDS = 60.0
"""Seconds of room for more workers after which a group leaves to grow. Its restart has a cost: each
worker imports its packages again."""


@dataclass(frozen=True, repr=False)
class OpaqueValue:
    """Wrapper that keeps Tune from copying, resolving or printing a value of a configuration.

    Tune copies configurations deeply, writes them into names and logs, and may resolve object
    references in them. A trial's corpus is such a reference.
    """

    value: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> OpaqueValue:
        return self

    def __repr__(self) -> str:
        return f"OpaqueValue({type(self.value).__name__})"


@dataclass(kw_only=True)
class Launch:
    """Settings of a study's training runs, which workers get with the control actor's handle.

    Attributes:
        program: picklable program that trains.
        workers: fewest and most workers of a trial; they differ for elastic groups only.
        cpus, gpus: CPUs and GPUs of a worker, also fractions; torch uses as many threads as CPUs.
        code: fingerprint of the driver's code, which every worker must have.
        storage: the study's folder or URI.
        grow_seconds: see ``GROW_SECONDS``.
        control: client of the control actor, which it starts.
    """

    program: Program
    workers: tuple[int, int]
    cpus: float
    gpus: float
    code: str
    storage: str
    grow_seconds: float = GROW_SECONDS
    control: ControlClient = field(default_factory=ControlClient, init=False)

    @property
    def needs(self) -> dict[str, float]:
        """Resources of a worker."""
        return {"CPU": self.cpus, "GPU": self.gpus} if self.gpus else {"CPU": self.cpus}


def halved(spec: TrialSpec, workers: int = 1) -> int:
    """Return half of each worker's micro-batch, rounded up; 0 if it is 1 already."""
    # imported here, because all workers import this module, but few run out of memory
    from sentune.methods import TRAINED, find
    from sentune.training.settings import TrainingSettings
    from sentune.user_code import installed

    usual = {"batch_size": 1, "micro_batch": None}
    if spec.method in TRAINED or ":" in spec.method or spec.method in installed("methods"):
        usual["batch_size"] = TrainingSettings.model_fields["batch_size"].default
        usual |= find(spec.method).training_defaults
    stated = {**usual, **spec.settings}
    share = math.ceil(int(stated["batch_size"]) / max(1, workers))
    micro = stated["micro_batch"]
    now = spec.micro_batch or (share if micro in (None, "none") else int(micro))
    return math.ceil(min(now, share) / 2) if min(now, share) > 1 else 0
