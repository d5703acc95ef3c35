"""Train launcher: each trial is a Ray Train group of workers, fixed or elastic.

The Tune trial's own process only starts the group and passes on its reports. The workers ask the
control actor at each milestone, and end by themselves. If a group loses a worker, leaves a machine
that is preempted or runs out of memory, the trial ends with a report, and the trial runner starts
it again from the newest checkpoint in its directory. Ray Train would restart it without naming the
cause, and without any change.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
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
from sentune.formatting import counted
from sentune.io.object_store import files_at, is_local
from sentune.launchers.control_actor import (
    ControlSignal,
    Worker,
    group_signal,
    listening,
    no_signal,
)
from sentune.launchers.elastic_sizing import ElasticSizing
from sentune.launchers.failures import failure_of, own_error, passes, without_place
from sentune.launchers.inline import UNWIND_SECONDS
from sentune.launchers.launch import Launch, OpaqueValue
from sentune.launchers.ray_train_internals import PlacedTrainer
from sentune.launchers.run_trial import run_trial
from sentune.launchers.trial_report import Report
from sentune.lazy_import import collect_as_usual
from sentune.training.group import Group
from sentune.training.trial import TrialSpec

DRIVER = {"cpu": 0, "node:__internal_head__": 0.001}
"""Resources of the Tune trial's own process, which takes no CPU from its workers."""

POLL_SECONDS = "1"
"""Seconds between Ray Train's polls for reports, at which workers wait for their verdict, and for
machines that are being preempted."""


def train_trainable(launch: Launch) -> Callable[[dict[str, Any]], None]:
    """Return the Tune function that runs a trial on a Ray Train group."""

    def trial(given: dict[str, Any]) -> None:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = UNWIND_SECONDS
        os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", POLL_SECONDS)
        os.environ.setdefault("RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S", POLL_SECONDS)
        spec: TrialSpec = given["spec"].value
        control, (size, most) = launch.control.actor, launch.workers
        ray.get(control.forget.remote(spec.trial))
        watched: AbstractContextManager[None] = nullcontext()
        if size < most:
            of_trial = f"{launch.storage}/ray-train {spec.trial}"
            sizing = ElasticSizing(of_trial, launch.workers, launch.needs, launch.grow_seconds)
            size = sizing.size()
            watched = sizing.watched(size, control, spec.trial)
        with watched:
            report = _run_group(launch, spec, size)
        if report is not None:
            tune.report(replace(report, gpus=launch.gpus * size).to_result())

    placed: Callable[[dict[str, Any]], None] = tune.with_resources(trial, DRIVER)
    return placed


def _run_group(launch: Launch, spec: TrialSpec, size: int) -> Report | None:
    """Run a group to its end; return the report of an early end, or None if workers sent all."""
    control = launch.control.actor
    while True:
        try:
            _trainer(launch, spec, size).fit()
        except TrainingFailedError as error:
            if not without_place(error):
                told: Report | None = ray.get(control.take_end.remote(spec.trial))
                return told or failure_of(error, spec, size, traceback.format_exc())
            if size > launch.workers[0]:
                why = f"there was no room for {size} workers after all"
                return Report(failure=why, preempted=True, died=True)
            here = ray.get_runtime_context().get_node_id()
            if ray.get(control.signal.remote(here)) is ControlSignal.LEAVE:
                return Report(left=True)
        else:
            left: Report | None = ray.get(control.take_end.remote(spec.trial))
            return left


def _trainer(launch: Launch, spec: TrialSpec, size: int) -> TorchTrainer:
    """Return the trainer of a group with so many workers."""
    storage, (fewest, most) = f"{launch.storage}/ray-train", launch.workers
    files, root = files_at(storage)
    kept_in: dict[str, Any] = {"storage_path": storage}
    if not is_local(files):
        # pyarrow's S3 client creates objects for folders, which some servers treat as files
        kept_in = {"storage_path": root, "storage_filesystem": PyFileSystem(FSSpecHandler(files))}
    # an elastic group needs Ray Train's own resource request, which other elastic groups respect
    trainer = PlacedTrainer if fewest == most else TorchTrainer
    return trainer(
        _work,
        train_loop_config={"spec": OpaqueValue(spec), "launch": launch},
        scaling_config=ray.train.ScalingConfig(
            num_workers=size, use_gpu=launch.gpus > 0, resources_per_worker=launch.needs
        ),
        run_config=ray.train.RunConfig(
            name=spec.trial,
            **kept_in,
            callbacks=[TuneReportCallback()],
            failure_config=ray.train.FailureConfig(
                max_failures=0, controller_failure_limit=0 if size > fewest else 3
            ),
        ),
    )


def _work(given: dict[str, Any]) -> None:
    """Run one worker until the trial or its group ends."""
    launch: Launch = given["launch"]
    spec: TrialSpec = given["spec"].value
    distributed = torch.distributed.is_initialized()
    make = Group.from_torch_distributed if distributed else Group.single
    # a batch has as many shards as the most workers, so it is the same for any group size
    group = make(get_device(), launch.workers[1])
    control = launch.control.actor
    this = Worker(
        rank=group.rank,
        node=get_node_ip_address(),
        pid=os.getpid(),
        actor=ray.get_runtime_context().current_actor,
        group=get_current_placement_group(),
    )
    try:
        ray.get(control.enter.remote(spec.trial, this))
        require_code(launch.code)
        torch.set_num_threads(max(1, int(launch.cpus)))
        collect_as_usual()
        _train(launch, spec, group)
    except Exception as error:
        if not passes(error):
            report = own_error(error, group, traceback.format_exc())
            ray.get(control.record_end.remote(spec.trial, report))
        raise


def _train(launch: Launch, spec: TrialSpec, group: Group) -> None:
    """Report each milestone and wait for its verdict, so that no report is lost at the end."""
    control, name = launch.control.actor, spec.trial
    fewest, most = launch.workers
    size = [f"trained by {counted(group.world_size, 'worker')}"] if fewest < most else []
    with listening(control, name) if group.is_first else nullcontext(no_signal) as ask:
        for report in run_trial(launch.program, spec, group, group_signal(group, ask)):
            notes, gpus = [*size, *report.notes], launch.gpus * group.world_size
            report = replace(report, notes=notes, gpus=gpus)
            if report.departure:
                if group.is_first:
                    ray.get(control.record_end.remote(name, report))
                return
            ray.train.report(report.to_result())
            if not ray.get(control.verdict.remote(name, report.examples)):
                return
