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
from pyarrow.fs import FSSpecHandler, PyFileSystem
from ray import tune
from ray.train.torch import TorchTrainer, get_device
from ray.train.v2._internal.exceptions import WorkerGroupStartupTimeoutError
from ray.train.v2.api.exceptions import ControllerError, TrainingFailedError
from ray.tune.integration.ray_train import TuneReportCallback

from sentune.code import require_code
from sentune.io.object_store import files_at, is_local
from sentune.launchers.control_signal import GroupListener, Listener, Wish
from sentune.launchers.elastic_sizing import GROW_SECONDS, Room
from sentune.launchers.failures import own_error, passes
from sentune.launchers.inline import UNWIND_SECONDS
from sentune.launchers.opaque_value import Sealed
from sentune.launchers.ray_internals import PlacedTrainer
from sentune.launchers.restarts import Attempt, after_failure, after_return
from sentune.launchers.run_trial import follow
from sentune.launchers.trial_report import Report
from sentune.training.group import Group
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
        grow_seconds: how long there must be room for more workers before a group leaves for it.
    """

    program: Program
    workers: int | tuple[int, int]
    cpus: float
    gpus: float
    max_failures: int
    desk: Any
    code: str
    storage: str
    grow_seconds: float = GROW_SECONDS

    @property
    def needs(self) -> dict[str, float]:
        """Resources of a worker."""
        return {"CPU": self.cpus, "GPU": self.gpus} if self.gpus else {"CPU": self.cpus}

    @property
    def fewest(self) -> int:
        """Workers without which a group does not start."""
        return self.workers if isinstance(self.workers, int) else self.workers[0]

    @property
    def most(self) -> int:
        """Workers that a group may have: so many shards a batch has, however many there are."""
        return self.workers if isinstance(self.workers, int) else self.workers[1]

    def room(self, trial: str) -> Room | None:
        """Where a trial's elastic group finds its size; None for a fixed one."""
        if isinstance(self.workers, int):
            return None
        return Room(f"{self.storage} {trial}", self.workers, self.needs, self.grow_seconds)


def train_trainable(team: Team) -> Callable[[dict[str, Any]], None]:
    """The Tune function that runs one trial on a Ray Train group, again where that may help."""

    def trial(config: dict[str, Any]) -> None:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = UNWIND_SECONDS
        os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", POLL_SECONDS)
        os.environ.setdefault("RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S", POLL_SECONDS)
        name: str = config["trial"]
        attempt: Attempt | None = Attempt(spec=config["spec"].value)
        room = team.room(name)
        while attempt is not None:
            attempt = _sized(team, room, attempt)
            with room.watched(attempt.workers, team.desk, name) if room else nullcontext():
                attempt = _attempted(team, name, attempt)

    return tune.with_resources(trial, DRIVER)


def _sized(team: Team, room: Room | None, attempt: Attempt) -> Attempt:
    """The attempt with the number of its workers."""
    size = team.fewest if room is None else room.size()
    return attempt.sized(size, fewest=team.fewest)


def _attempted(team: Team, name: str, attempt: Attempt) -> Attempt | None:
    """Runs a group to its end; the next attempt, None where the trial is over."""
    try:
        _trainer(team, name, attempt).fit()
    except TrainingFailedError as error:
        if not attempt.may_shrink and _without_place(error):
            return _waiting(team, attempt)
        word = ray.get(team.desk.obituary.remote(name))
        then = after_failure(error, word, attempt, team.max_failures, traceback.format_exc())
        if isinstance(then, Attempt):
            return then
        tune.report(then.to_result())
        return None
    return after_return(ray.get(team.desk.departure.remote(name)), attempt)


def _without_place(error: TrainingFailedError) -> bool:
    """Whether the group's smallest size has found no place in time, which is no failure.

    Ray Train waits a minute and tries three times more; a cloud's node takes two to six minutes,
    and a spot machine may take hours.
    """
    return isinstance(error, ControllerError) and isinstance(
        error.controller_failure, WorkerGroupStartupTimeoutError
    )


def _waiting(team: Team, attempt: Attempt) -> Attempt | None:
    """Waits on, as a trial without a group does, unless the study is to end."""
    here = ray.get_runtime_context().get_node_id()
    if ray.get(team.desk.wish.remote(here)) is not Wish.LEAVE:
        return attempt
    tune.report(Report(left=True, notes=[*attempt.notes], restarts=attempt.deaths).to_result())
    return None


def _trainer(team: Team, name: str, attempt: Attempt) -> TorchTrainer:
    # elastic groups of other trials look at what Ray Train says that this one must have
    trainer = PlacedTrainer if isinstance(team.workers, int) else TorchTrainer
    return trainer(
        _work,
        train_loop_config={"name": name, "attempt": Sealed(attempt), "team": team},
        scaling_config=ray.train.ScalingConfig(
            num_workers=attempt.workers, use_gpu=team.gpus > 0, resources_per_worker=team.needs
        ),
        run_config=ray.train.RunConfig(
            name=name,
            **_kept_in(team.storage),
            callbacks=[TuneReportCallback()],
            failure_config=ray.train.FailureConfig(
                max_failures=0, controller_failure_limit=0 if attempt.may_shrink else 3
            ),
        ),
    )


def _kept_in(storage: str) -> dict[str, Any]:
    """Where Ray Train keeps its notes: through fsspec, like all else.

    Pyarrow's own client of S3 makes objects for folders, which some servers take for files.
    """
    files, root = files_at(storage)
    if is_local(files):
        return {"storage_path": storage}
    return {"storage_path": root, "storage_filesystem": PyFileSystem(FSSpecHandler(files))}


def _work(config: dict[str, Any]) -> None:
    """One worker, from its start to the end of the trial or of this attempt."""
    team: Team = config["team"]
    name: str = config["name"]
    group = _group(team.most)
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
    with Listener(team.desk, name) if group.is_first else nullcontext() as listener:
        ask = GroupListener(group, listener)
        for report in follow(team.program, attempt.spec, group, ask, attempt.notes):
            if report.preempted or report.resizes:
                if group.is_first:
                    ray.get(team.desk.depart.remote(name, report.examples, report.preempted))
                return
            gpus, restarts = team.gpus * group.world_size, attempt.deaths
            if not _tell(team, name, replace(report, gpus=gpus, restarts=restarts).to_result()):
                return


def _group(most: int) -> Group:
    if torch.distributed.is_initialized():
        return Group.from_torch_distributed(get_device(), most)
    return Group.single(get_device(), most)


def _tell(team: Team, name: str, result: dict[str, Any]) -> bool:
    """Reports, and waits until the driver has heard it: a report may not be lost at the end."""
    ray.train.report(result)
    return bool(ray.get(team.desk.verdict.remote(name, result["examples"])))
