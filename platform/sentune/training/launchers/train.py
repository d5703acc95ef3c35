"""The train launcher: each trial is a Ray Train group of workers, fixed or elastic.

The Tune trial's own process only starts the group and passes on what it says. The workers ask the
desk at each milestone and leave by themselves. A group that has lost a worker, leaves a machine
that is being taken back or has no memory starts again from the newest checkpoint in the trial's
directory. Ray Train alone would start it again without a word about why, and with nothing changed.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import ray
import ray.train
import torch
from ray import tune
from ray.train.torch import TorchTrainer, get_device
from ray.train.v2.api.exceptions import TrainingFailedError
from ray.tune.integration.ray_train import TuneReportCallback

from sentune.code import require_code
from sentune.training.group import Group
from sentune.training.launchers.blame import own_error, passes
from sentune.training.launchers.follow import follow
from sentune.training.launchers.inline import UNWIND_SECONDS
from sentune.training.launchers.restarts import Attempt, after_failure, after_return
from sentune.training.launchers.sealed import Sealed
from sentune.training.launchers.wish import GroupListener, Listener
from sentune.training.trial import Program

DRIVER = {"cpu": 0, "node:__internal_head__": 0.001}
"""The Tune trial's own process takes no CPU from its workers."""

POLL_SECONDS = "1"
"""How often Ray Train fetches what workers report (they wait for the answer at each rung), and
looks for machines that are being taken back."""


@dataclass(frozen=True, kw_only=True)
class Team:
    """The workers of a trial, and what each is given.

    Attributes:
        program: what trains.
        workers: their number, or (fewest, most) of an elastic group.
        cpus: CPUs of a worker; torch uses as many threads.
        gpus: GPUs of a worker, fractions allowed.
        max_failures: failures of the group that are forgiven.
        desk: actor that gives the verdicts and keeps what workers say at their end.
        code: fingerprint of the driver's code.
        storage: folder or URI where Ray Train keeps its own notes.
    """

    program: Program
    workers: int | tuple[int, int]
    cpus: float
    gpus: float
    max_failures: int
    desk: Any
    code: str
    storage: str


def train_trainable(team: Team) -> Callable[[dict[str, Any]], None]:
    """The Tune function that runs one trial on a Ray Train group, again where that may help."""

    def trial(config: dict[str, Any]) -> None:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = UNWIND_SECONDS
        os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", POLL_SECONDS)
        os.environ.setdefault("RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S", POLL_SECONDS)
        name: str = config["trial"]
        attempt: Attempt | None = Attempt(spec=config["spec"].value)
        while attempt is not None:
            attempt = _attempted(team, name, attempt)

    return tune.with_resources(trial, DRIVER)


def _attempted(team: Team, name: str, attempt: Attempt) -> Attempt | None:
    """Runs a group to its end; the next attempt, None where the trial is over."""
    try:
        _trainer(team, name, attempt).fit()
    except TrainingFailedError as error:
        word = ray.get(team.desk.obituary.remote(name))
        then = after_failure(
            error, word, attempt, team.workers, team.max_failures, traceback.format_exc()
        )
        if isinstance(then, Attempt):
            return then
        tune.report(then.to_result())
        return None
    return after_return(ray.get(team.desk.departure.remote(name)), attempt)


def _trainer(team: Team, name: str, attempt: Attempt) -> TorchTrainer:
    resources = {"CPU": team.cpus, "GPU": team.gpus} if team.gpus else {"CPU": team.cpus}
    return TorchTrainer(
        _work,
        train_loop_config={"name": name, "attempt": Sealed(attempt), "team": team},
        scaling_config=ray.train.ScalingConfig(
            num_workers=team.workers, use_gpu=team.gpus > 0, resources_per_worker=resources
        ),
        run_config=ray.train.RunConfig(
            name=name,
            storage_path=team.storage,
            callbacks=[TuneReportCallback()],
            failure_config=ray.train.FailureConfig(max_failures=0, controller_failure_limit=3),
        ),
    )


def _work(config: dict[str, Any]) -> None:
    """One worker, from its start to the end of the trial or of this attempt."""
    team: Team = config["team"]
    name: str = config["name"]
    group = _group()
    try:
        require_code(team.code)
        torch.set_num_threads(max(1, int(team.cpus)))
        _train(team, name, config["attempt"].value, group)
    except Exception as error:
        if not passes(error):
            said = own_error(error, group, traceback.format_exc())
            ray.get(team.desk.bury.remote(name, said.to_result()))
        raise


def _train(team: Team, name: str, attempt: Attempt, group: Group) -> None:
    with Listener(team.desk) if group.is_first else nullcontext() as listener:
        ask = GroupListener(group, listener)
        for report in follow(team.program, attempt.spec, group, ask, attempt.notes):
            if report.preempted:
                if group.is_first:
                    ray.get(team.desk.depart.remote(name, report.examples))
                return
            gpus, restarts = team.gpus * group.world_size, attempt.deaths
            if not _tell(team, name, replace(report, gpus=gpus, restarts=restarts).to_result()):
                return


def _group() -> Group:
    if torch.distributed.is_initialized():
        return Group.from_torch_distributed(get_device())
    return Group.single(get_device())


def _tell(team: Team, name: str, result: dict[str, Any]) -> bool:
    """Reports, and waits until the driver has heard it: a report may not be lost at the end."""
    ray.train.report(result)
    return bool(ray.get(team.desk.verdict.remote(name, result["examples"])))
