"""A study's launcher, chosen once and used for its trials and its finalists alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sentune.training.launchers.inline import inline_trainable
from sentune.training.launchers.judge import RemoteJudge
from sentune.training.launchers.train import Team, train_trainable
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
        judge: gives the verdicts on a group; None where Tune stops a trial.
    """

    program: Program
    launcher: str
    workers: int | tuple[int, int]
    cpus: float
    gpus: float
    max_failures: int
    code: str
    storage: str
    judge: RemoteJudge | None = field(init=False)

    def __post_init__(self) -> None:
        self.judge = RemoteJudge() if self.launcher == "train" else None

    @property
    def tune_failures(self) -> int:
        """Deaths that Tune forgives; Ray Train counts those of its groups itself."""
        return 0 if self.judge is not None else self.max_failures

    def trainable(self) -> Callable[[dict[str, Any]], None]:
        """The Tune function."""
        if self.judge is None:
            return inline_trainable(self.program, cpus=self.cpus, gpus=self.gpus, code=self.code)
        return train_trainable(
            Team(
                program=self.program,
                workers=self.workers,
                cpus=self.cpus,
                gpus=self.gpus,
                max_failures=self.max_failures,
                judge=self.judge.actor,
                code=self.code,
                storage=f"{self.storage}/ray-train",
            )
        )
