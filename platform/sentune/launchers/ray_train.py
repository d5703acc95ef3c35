"""The train launcher: each trial is a Ray Train group of workers, fixed or elastic.

The Tune trial's own process only starts the group and passes on what it says. The workers ask the
control actor at each milestone and leave by themselves. A group that has lost a worker, leaves a
machine that is being taken back or has no memory starts again from the newest checkpoint in the
trial's directory. Ray Train alone would start it again without a word about why, and with nothing
changed.
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
from ray.train.v2.api.exceptions import TrainingFailedError
from ray.tune.integration.ray_train import TuneReportCallback

from sentune.code import require_code
from sentune.io.object_store import files_at, is_local
from sentune.launchers.control_signal import ControlSignal, GroupListener, Listener
from sentune.launchers.elastic_sizing import GROW_SECONDS, ElasticSizing
from sentune.launchers.failures import own_error, passes
from sentune.launchers.inline import UNWIND_SECONDS
from sentune.launchers.opaque_value import OpaqueValue
from sentune.launchers.ray_train_internals import PlacedTrainer
from sentune.launchers.restarts import Attempt, after_failure, after_return, without_place
from sentune.launchers.run_trial import run_trial
from sentune.launchers.trial_report import Report
from sentune.training.group import Group
from sentune.training.trial import Program

DRIVER = {"cpu": 0, "node:__internal_head__": 0.001}
"""The Tune trial's own process takes no CPU from its workers."""

POLL_SECONDS = "1"
"""How often Ray Train fetches what workers report (they wait for the answer at each rung), and
looks for machines that are being taken back."""


@dataclass(frozen=True, kw_only=True)
class WorkerGroupConfig:
    """The workers of a trial, and what each is given.

    Attributes:
        program: what trains.
        workers: their number, or (fewest, most) of an elastic group.
        cpus: CPUs of a worker; torch uses as many threads.
        gpus: GPUs of a worker, fractions allowed.
        max_failures: failures of the group that are forgiven.
        control: actor that gives the verdicts and keeps what workers say at their end.
        code: fingerprint of the driver's code.
        storage: folder or URI where Ray Train keeps its own notes.
        grow_seconds: how long there must be room for more workers before a group leaves for it.
    """

    program: Program
    workers: int | tuple[int, int]
    cpus: float
    gpus: float
    max_failures: int
    control: Any
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

    def sizing(self, trial: str) -> ElasticSizing | None:
        """Where a trial's elastic group finds its size; None for a fixed one."""
        if isinstance(self.workers, int):
            return None
        return ElasticSizing(f"{self.storage} {trial}", self.workers, self.needs, self.grow_seconds)


def train_trainable(config: WorkerGroupConfig) -> Callable[[dict[str, Any]], None]:
    """Return the Tune function that runs a trial on a Ray Train group, with restarts."""

    def trial(given: dict[str, Any]) -> None:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = UNWIND_SECONDS
        os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", POLL_SECONDS)
        os.environ.setdefault("RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S", POLL_SECONDS)
        name: str = given["trial"]
        attempt: Attempt | None = Attempt(spec=given["spec"].value)
        sizing = config.sizing(name)
        while attempt is not None:
            attempt = _sized(config, sizing, attempt)
            with sizing.watched(attempt.workers, config.control, name) if sizing else nullcontext():
                attempt = _attempted(config, name, attempt)

    return tune.with_resources(trial, DRIVER)


def _sized(config: WorkerGroupConfig, sizing: ElasticSizing | None, attempt: Attempt) -> Attempt:
    """Return the attempt with the number of its workers."""
    size = config.fewest if sizing is None else sizing.size()
    return attempt.sized(size, fewest=config.fewest)


def _attempted(config: WorkerGroupConfig, name: str, attempt: Attempt) -> Attempt | None:
    """Run a group to its end; return the next attempt, None where the trial is over."""
    try:
        _trainer(config, name, attempt).fit()
    except TrainingFailedError as error:
        if not attempt.may_shrink and without_place(error):
            return _waiting(config, attempt)
        recorded = ray.get(config.control.take_failure.remote(name))
        then = after_failure(error, recorded, attempt, config.max_failures, traceback.format_exc())
        if isinstance(then, Attempt):
            return then
        tune.report(then.to_result())
        return None
    return after_return(ray.get(config.control.take_departure.remote(name)), attempt)


def _waiting(config: WorkerGroupConfig, attempt: Attempt) -> Attempt | None:
    """Return the same attempt to wait on, None with a last report if the study is to end."""
    here = ray.get_runtime_context().get_node_id()
    if ray.get(config.control.signal.remote(here)) is not ControlSignal.LEAVE:
        return attempt
    tune.report(Report(left=True, notes=[*attempt.notes], restarts=attempt.deaths).to_result())
    return None


def _trainer(config: WorkerGroupConfig, name: str, attempt: Attempt) -> TorchTrainer:
    # elastic groups of other trials look at what Ray Train says that this one must have
    trainer = PlacedTrainer if isinstance(config.workers, int) else TorchTrainer
    return trainer(
        _work,
        train_loop_config={"name": name, "attempt": OpaqueValue(attempt), "config": config},
        scaling_config=ray.train.ScalingConfig(
            num_workers=attempt.workers, use_gpu=config.gpus > 0, resources_per_worker=config.needs
        ),
        run_config=ray.train.RunConfig(
            name=name,
            **_kept_in(config.storage),
            callbacks=[TuneReportCallback()],
            failure_config=ray.train.FailureConfig(
                max_failures=0, controller_failure_limit=0 if attempt.may_shrink else 3
            ),
        ),
    )


def _kept_in(storage: str) -> dict[str, Any]:
    """Return Ray Train's storage arguments, through fsspec like all else.

    Pyarrow's own client of S3 makes objects for folders, which some servers take for files.
    """
    files, root = files_at(storage)
    if is_local(files):
        return {"storage_path": storage}
    return {"storage_path": root, "storage_filesystem": PyFileSystem(FSSpecHandler(files))}


def _work(given: dict[str, Any]) -> None:
    """Run one worker until the trial or this attempt ends."""
    config: WorkerGroupConfig = given["config"]
    name: str = given["name"]
    group = _group(config.most)
    try:
        require_code(config.code)
        torch.set_num_threads(max(1, int(config.cpus)))
        _train(config, name, given["attempt"].value, group)
    except Exception as error:
        if not passes(error):
            said = own_error(error, group, traceback.format_exc())
            ray.get(config.control.record_failure.remote(name, said.to_result()))
        raise


def _train(config: WorkerGroupConfig, name: str, attempt: Attempt, group: Group) -> None:
    with Listener(config.control, name) if group.is_first else nullcontext() as listener:
        ask = GroupListener(group, listener)
        for report in run_trial(config.program, attempt.spec, group, ask, attempt.notes):
            if report.preempted or report.resizes:
                if group.is_first:
                    ray.get(
                        config.control.record_departure.remote(
                            name, report.examples, report.preempted
                        )
                    )
                return
            gpus, restarts = config.gpus * group.world_size, attempt.deaths
            if not _tell(config, name, replace(report, gpus=gpus, restarts=restarts).to_result()):
                return


def _group(most: int) -> Group:
    if torch.distributed.is_initialized():
        return Group.from_torch_distributed(get_device(), most)
    return Group.single(get_device(), most)


def _tell(config: WorkerGroupConfig, name: str, result: dict[str, Any]) -> bool:
    """Report a result and wait for the driver's verdict: no report may be lost at the end."""
    ray.train.report(result)
    return bool(ray.get(config.control.verdict.remote(name, result["examples"])))
