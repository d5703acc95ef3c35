"""A study's launcher, chosen once and used for its trials and its finalists alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sentune.launchers.control_actor import ControlClient
from sentune.training.trial import Program


@dataclass(kw_only=True)
class Launch:
    """How training runs are started.

    Attributes:
        program: what trains; picklable.
        launcher: ``inline`` or ``train``.
        workers: of a trial; a range makes the group elastic.
        cpus: CPUs of a worker.
        gpus: GPUs of a worker.
        max_failures: deaths of a trial's processes that are forgiven.
        code: fingerprint of the driver's code, which every worker must have.
        storage: the study's folder or URI.
        control: client of the control actor.
    """

    program: Program
    launcher: str
    workers: int | tuple[int, int]
    cpus: float
    gpus: float
    max_failures: int
    code: str
    storage: str
    control: ControlClient = field(init=False)

    def __post_init__(self) -> None:
        self.control = ControlClient()

    @property
    def verdicts(self) -> ControlClient | None:
        """The client that gives groups their verdicts; None where Tune stops a trial."""
        return self.control if self.launcher == "train" else None

    def close(self) -> None:
        """End the control actor."""
        self.control.close()

    def trainable(self) -> Callable[[dict[str, Any]], None]:
        """Return the Tune function of the launcher."""
        if self.verdicts is None:
            from sentune.launchers.inline import inline_trainable  # loads Ray Tune

            return inline_trainable(
                self.program,
                cpus=self.cpus,
                gpus=self.gpus,
                code=self.code,
                control=self.control.actor,
            )
        from sentune.launchers.ray_train import (  # loads Ray Train
            WorkerGroupConfig,
            train_trainable,
        )

        return train_trainable(
            WorkerGroupConfig(
                program=self.program,
                workers=self.workers,
                cpus=self.cpus,
                gpus=self.gpus,
                max_failures=self.max_failures,
                control=self.control.actor,
                code=self.code,
                storage=f"{self.storage}/ray-train",
            )
        )
