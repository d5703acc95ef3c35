"""The train launcher: each trial is a Ray Train group of workers, fixed or elastic.

The Tune trial's own process only starts the group and passes on what it says. The workers ask the
judge at each milestone and leave by themselves; a worker that dies is replaced, and the group goes
on from the newest checkpoint in the trial's directory.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray
import ray.train
import torch
from ray import tune
from ray.train.torch import TorchTrainer, get_device
from ray.train.v2.api.exceptions import TrainingFailedError, WorkerGroupError
from ray.tune.integration.ray_train import TuneReportCallback

from sentune.code import require_code
from sentune.training.group import Group
from sentune.training.launchers.follow import follow
from sentune.training.launchers.inline import UNWIND_SECONDS
from sentune.training.launchers.report import Report, failed
from sentune.training.launchers.sealed import Sealed
from sentune.training.trial import Program, TrialSpec

DRIVER = {"cpu": 0, "node:__internal_head__": 0.001}
"""The Tune trial's own process takes no CPU from its workers."""

POLL_SECONDS = "1"
"""How often Ray Train fetches what workers report; they wait for the answer at each rung."""

MAY_PASS = (RuntimeError, OSError)
"""What a worker raises when another one dies; such errors are tried again, others are not."""


@dataclass(frozen=True, kw_only=True)
class Team:
    """The workers of a trial, and what each is given.

    Attributes:
        program: what trains.
        workers: their number, or (fewest, most) of an elastic group.
        cpus: CPUs of a worker; torch uses as many threads.
        gpus: GPUs of a worker, fractions allowed.
        max_failures: failures of the group that are forgiven.
        judge: actor that gives the verdicts.
        code: fingerprint of the driver's code.
        storage: folder or URI where Ray Train keeps its own notes.
    """

    program: Program
    workers: int | tuple[int, int]
    cpus: float
    gpus: float
    max_failures: int
    judge: Any
    code: str
    storage: str


def train_trainable(team: Team) -> Callable[[dict[str, Any]], None]:
    """The Tune function that runs one trial on a Ray Train group."""

    def trial(config: dict[str, Any]) -> None:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = UNWIND_SECONDS
        os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", POLL_SECONDS)
        try:
            _trainer(team, config["trial"], config["spec"]).fit()
        except TrainingFailedError as error:
            tune.report(_epitaph(team, config["trial"], error))

    return tune.with_resources(trial, DRIVER)


def _trainer(team: Team, name: str, spec: Sealed[TrialSpec]) -> TorchTrainer:
    resources = {"CPU": team.cpus, "GPU": team.gpus} if team.gpus else {"CPU": team.cpus}
    return TorchTrainer(
        _work,
        train_loop_config={"name": name, "spec": spec, "team": team},
        scaling_config=ray.train.ScalingConfig(
            num_workers=team.workers, use_gpu=team.gpus > 0, resources_per_worker=resources
        ),
        run_config=ray.train.RunConfig(
            name=name,
            storage_path=team.storage,
            callbacks=[TuneReportCallback()],
            failure_config=ray.train.FailureConfig(
                max_failures=team.max_failures, controller_failure_limit=3
            ),
        ),
    )


def _work(config: dict[str, Any]) -> None:
    """One worker, from its start to the end of the trial."""
    team: Team = config["team"]
    name: str = config["name"]
    if (buried := ray.get(team.judge.obituary.remote(name))) is not None:
        _tell(team, name, buried)
        return
    try:
        require_code(team.code)
        torch.set_num_threads(max(1, int(team.cpus)))
        for report in follow(team.program, config["spec"].value, _group()):
            if not _tell(team, name, report.to_result()):
                return
    except Exception as error:
        if not isinstance(error, MAY_PASS) or isinstance(error, torch.OutOfMemoryError):
            said = failed(error, traceback.format_exc()).to_result()
            ray.get(team.judge.bury.remote(name, said))
        raise


def _group() -> Group:
    if torch.distributed.is_initialized():
        return Group.from_torch_distributed(get_device())
    return Group.single(get_device())


def _tell(team: Team, name: str, result: dict[str, Any]) -> bool:
    """Reports, and waits until the driver has heard it: a report may not be lost at the end."""
    ray.train.report(result)
    return bool(ray.get(team.judge.verdict.remote(name, result["examples"])))


def _epitaph(team: Team, name: str, error: TrainingFailedError) -> dict[str, Any]:
    """Why the group failed: what a worker said of it, else the first worker's error."""
    if (buried := ray.get(team.judge.obituary.remote(name))) is not None:
        return dict(buried)
    said: Report = failed(error, traceback.format_exc())
    if isinstance(error, WorkerGroupError) and error.worker_failures:
        first = error.worker_failures[min(error.worker_failures)]
        said = failed(getattr(first, "base_exc", None) or first, str(first))
    return said.to_result()
