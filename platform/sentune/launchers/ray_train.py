"""The train launcher: each trial is a Ray Train group of workers, fixed or elastic.

The Tune trial's own process only starts the group and passes on what it says. The workers ask the
control actor at each milestone and leave by themselves. A group that has lost a worker, leaves a
machine that is being taken back or has no memory starts again from the newest checkpoint in the
trial's directory. Ray Train alone would start it again without naming the cause, and with nothing
changed.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import ray
import ray.train
import torch
from pyarrow.fs import FSSpecHandler, PyFileSystem
from ray import tune
from ray.train.torch import TorchTrainer, get_device
from ray.train.v2.api.exceptions import TrainingFailedError
from ray.tune.integration.ray_train import TuneReportCallback
from ray.util import get_current_placement_group, get_node_ip_address

from sentune.code import require_code
from sentune.io.object_store import files_at, is_local
from sentune.launchers.control_actor import (
    ControlSignal,
    Worker,
    group_signal,
    listening,
    no_signal,
)
from sentune.launchers.elastic_sizing import ElasticSizing
from sentune.launchers.failures import (
    Attempt,
    after_failure,
    own_error,
    passes,
    without_place,
)
from sentune.launchers.inline import UNWIND_SECONDS
from sentune.launchers.launch import Launch, OpaqueValue
from sentune.launchers.ray_train_internals import PlacedTrainer
from sentune.launchers.run_trial import run_trial
from sentune.launchers.trial_report import Report
from sentune.training.group import Group

DRIVER = {"cpu": 0, "node:__internal_head__": 0.001}
"""The Tune trial's own process takes no CPU from its workers."""

POLL_SECONDS = "1"
"""How often Ray Train fetches what workers report (they wait for the answer at each rung), and
looks for machines that are being taken back."""


def train_trainable(launch: Launch) -> Callable[[dict[str, Any]], None]:
    """Return the Tune function that runs a trial on a Ray Train group, with restarts."""

    def trial(given: dict[str, Any]) -> None:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = UNWIND_SECONDS
        os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", POLL_SECONDS)
        os.environ.setdefault("RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S", POLL_SECONDS)
        name: str = given["trial"]
        attempt: Attempt | None = Attempt(spec=given["spec"].value)
        control, (fewest, most) = launch.control.actor, launch.workers
        of_trial = f"{launch.storage}/ray-train {name}"
        sizing = None
        if fewest < most:
            sizing = ElasticSizing(of_trial, launch.workers, launch.needs, launch.grow_seconds)
        while attempt is not None:
            ray.get(control.start.remote(name))
            attempt = attempt.sized(sizing.size() if sizing else fewest, fewest=fewest)
            watched = sizing.watched(attempt.workers, control, name) if sizing else nullcontext()
            with watched:
                attempt = _run_group(launch, name, attempt)

    placed: Callable[[dict[str, Any]], None] = tune.with_resources(trial, DRIVER)
    return placed


def _run_group(launch: Launch, name: str, attempt: Attempt) -> Attempt | None:
    """Run a group to its end; return the next attempt, None where the trial is over."""
    control = launch.control.actor
    then: Attempt | Report
    try:
        _trainer(launch, name, attempt).fit()
    except TrainingFailedError as error:
        words = traceback.format_exc()
        if not attempt.may_shrink and without_place(error):  # it waits on, unless the study ends
            here = ray.get_runtime_context().get_node_id()
            if ray.get(control.signal.remote(here)) is not ControlSignal.LEAVE:
                return attempt
            then = Report(left=True, notes=[*attempt.notes], restarts=attempt.deaths)
        else:
            end = ray.get(control.take_end.remote(name))
            report, stall = end.get("failure"), end.get("stall", "")
            then = after_failure(error, report, attempt, launch.max_failures, words, stall)
        if isinstance(then, Attempt):
            return then
        tune.report(then.to_result())
        return None
    departure = ray.get(control.take_end.remote(name)).get("departure")
    return attempt.noted(departure) if departure else None


def _trainer(launch: Launch, name: str, attempt: Attempt) -> TorchTrainer:
    storage = f"{launch.storage}/ray-train"
    files, root = files_at(storage)
    kept_in: dict[str, Any] = {"storage_path": storage}
    if not is_local(files):
        # pyarrow's own client of S3 makes objects for folders, which some servers take for files
        kept_in = {"storage_path": root, "storage_filesystem": PyFileSystem(FSSpecHandler(files))}
    # elastic groups of other trials look at what Ray Train says that this one must have
    trainer = PlacedTrainer if launch.workers[0] == launch.workers[1] else TorchTrainer
    return trainer(
        _work,
        train_loop_config={"name": name, "attempt": OpaqueValue(attempt), "launch": launch},
        scaling_config=ray.train.ScalingConfig(
            num_workers=attempt.workers, use_gpu=launch.gpus > 0, resources_per_worker=launch.needs
        ),
        run_config=ray.train.RunConfig(
            name=name,
            **kept_in,
            callbacks=[TuneReportCallback()],
            failure_config=ray.train.FailureConfig(
                max_failures=0, controller_failure_limit=0 if attempt.may_shrink else 3
            ),
        ),
    )


def _work(given: dict[str, Any]) -> None:
    """Run one worker until the trial or this attempt ends."""
    launch: Launch = given["launch"]
    name: str = given["name"]
    distributed = torch.distributed.is_initialized()
    make = Group.from_torch_distributed if distributed else Group.single
    # a batch has as many shards as there can be workers, however many there are
    group = make(get_device(), launch.workers[1])
    try:
        this = Worker(
            rank=group.rank,
            node=get_node_ip_address(),
            pid=os.getpid(),
            actor=ray.get_runtime_context().current_actor,
            group=get_current_placement_group(),
        )
        ray.get(launch.control.actor.enter.remote(name, this))
        require_code(launch.code)
        torch.set_num_threads(max(1, int(launch.cpus)))
        _train(launch, name, given["attempt"].value, group)
    except Exception as error:
        if not passes(error):
            report = own_error(error, group, traceback.format_exc())
            ray.get(launch.control.actor.record_end.remote(name, failure=report))
        raise


def _train(launch: Launch, name: str, attempt: Attempt, group: Group) -> None:
    """Report each milestone and wait for its verdict: no report may be lost at the end."""
    control = launch.control.actor
    gpus, restarts = launch.gpus * group.world_size, attempt.deaths
    with listening(control, name) if group.is_first else nullcontext(no_signal) as ask:
        together = group_signal(group, ask)
        for report in run_trial(launch.program, attempt.spec, group, together, attempt.notes):
            if report.departure:
                if group.is_first:
                    ray.get(control.record_end.remote(name, departure=report.departure))
                return
            ray.train.report(replace(report, gpus=gpus, restarts=restarts).to_result())
            if not ray.get(control.verdict.remote(name, report.examples)):
                return
