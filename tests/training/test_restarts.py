"""What is told of a Ray Train group that has failed, by the errors that Ray Train gives."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import torch
from ray.train.v2.api.exceptions import ControllerError, WorkerGroupError

from sentune import user_code
from sentune.errors import TrialFailed
from sentune.launchers.failures import (
    failure_of,
    own_error,
    passes,
    without_place,
)
from sentune.launchers.launch import halved
from sentune.launchers.trial_report import Report
from sentune.methods.gumbelcse import Gumbelcse
from sentune.training.group import Group
from sentune.training.memory import OutOfMemory
from sentune.training.trial import TrialSpec
from tests.third_party_internals import (
    UserExceptionWithTraceback,
    WorkerGroupStartupTimeoutError,
    WorkerHealthCheckFailedError,
)

GLOO = RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:55")
CPU = torch.device("cpu")


def spec(**changes: Any) -> TrialSpec:
    values: dict[str, Any] = {
        "trial": "0000", "method": "gumbel", "settings": {"batch_size": 48},
        "encoder": "", "corpus": None, "dev": None, "max_examples": 96, "milestones": (96,),
        "objective": "direction/accuracy",
    }  # fmt: skip
    return TrialSpec(**{**values, **changes})


def user(error: Exception) -> Exception:
    return UserExceptionWithTraceback(error, "Traceback ...")


def dead(error: Exception) -> Exception:
    return WorkerHealthCheckFailedError("worker is gone", error)


def why(*failures: Exception, **of: Any) -> Report:
    """What is told of a group of three where rank 0, 1, ... met these."""
    error = WorkerGroupError("two of them", dict(enumerate(failures)))
    return failure_of(error, spec(**of), 3, "")


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (GLOO, True),
        (RuntimeError("NCCL communicator was aborted on rank 1"), True),
        (torch.distributed.DistBackendError("NCCL error"), True),
        (ConnectionResetError(), True),
        (torch.AcceleratorError("CUDA error: uncorrectable ECC error"), True),
        (ray.exceptions.ObjectLostError("ab", None, ""), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("connection closed by peer"), False),
        (TrialFailed("loss nan"), False),
        (OutOfMemory("out of memory on the device", 4), False),
        (torch.OutOfMemoryError("CUDA out of memory"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_lost_peer_network_or_device_says_may_pass(error: Exception, may: bool) -> None:
    assert passes(error) is may


def test_an_error_of_one_rank_is_told_with_its_rank() -> None:
    group = Group(1, 3, CPU)
    told = own_error(KeyError("x"), group, "where")
    assert told.failure == "KeyError: 'x' (on rank 1 of 3)"
    assert (told.repeats, told.died, told.traceback) == (True, False, "where")
    assert own_error(KeyError("x"), Group.single("cpu"), "").failure == "KeyError: 'x'"
    assert own_error(TrialFailed("loss nan"), group, "").failure == "loss nan", "all ranks meet it"


def test_a_death_is_named_before_its_peers_noise() -> None:
    words = "The actor died unexpectedly.\nIts node was killed."
    death = ray.exceptions.RayActorError(error_msg=words)
    end = why(user(GLOO), dead(death), user(GLOO))
    assert end.failure.startswith("the process of rank 1 died: ")
    assert (end.died, end.out_of_memory) == (True, False)


def test_noise_alone_is_a_death_too() -> None:
    lost = f"a worker was lost, as rank 0 noticed: RuntimeError: {GLOO}"
    more = RuntimeError(f"{GLOO}. It may be that the remote worker crashed. Good luck!")
    end = why(user(more), user(GLOO))
    assert (end.failure, end.died) == (lost, True)
    assert "Good luck" in end.traceback


def test_no_memory_on_a_device_is_no_death_and_says_what_may_fit() -> None:
    group = Group(1, 3, CPU)
    found = own_error(OutOfMemory("after 32 examples: out of memory on the device", 8), group, "")
    assert (found.micro_batch, found.out_of_memory, found.died) == (8, True, False)
    assert found.failure == "after 32 examples: out of memory on the device"
    none = OutOfMemory("out of memory on the device, even with a micro_batch of 1")
    found = own_error(none, group, "")
    assert (found.out_of_memory, found.repeats, found.micro_batch) == (True, True, 0)


def test_no_memory_on_the_host_is_no_death_and_says_what_may_fit() -> None:
    killed = dead(ray.exceptions.OutOfMemoryError("Task was killed due to the node running low"))
    end = why(user(GLOO), killed)
    assert (end.micro_batch, end.died) == (8, False), "a third of 48, halved"
    end = why(killed, micro_batch=1)
    assert end.failure.startswith("out of memory on the host")
    assert (end.out_of_memory, end.micro_batch) == (True, 0)


@pytest.mark.parametrize(
    ("changes", "workers", "half"),
    [
        ({}, 1, 24),
        ({}, 2, 12),
        ({"settings": {"batch_size": 48, "micro_batch": 10}}, 1, 5),
        ({"settings": {"batch_size": 48, "micro_batch": "none"}}, 1, 24),
        ({"micro_batch": 6, "settings": {"batch_size": 48, "micro_batch": 10}}, 1, 3),
        ({"settings": {}}, 1, 32),
        ({"settings": {"batch_size": "6", "micro_batch": None}}, 1, 3),
        ({"settings": {"micro_batch": "4", "batch_size": 6}}, 1, 2),
        ({"settings": {"batch_size": 5}}, 1, 3),
        ({"settings": {}, "method": "laes"}, 1, 0),
        ({"settings": {}, "method": "intersent"}, 1, 128),
        ({"settings": {}, "method": "invertible"}, 2, 128),
        ({"settings": {}, "method": "mine"}, 1, 32),
        ({"micro_batch": 1}, 1, 0),
    ],
)
def test_half_of_what_a_worker_holds(
    changes: dict[str, Any], workers: int, half: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = type("Mine", (Gumbelcse,), {"title": "Mine"})
    point = SimpleNamespace(load=lambda: mine)  # the entry point of a user's package
    monkeypatch.setattr(user_code, "installed", lambda group: {"mine": point})
    assert halved(spec(**changes), workers) == half


def test_a_group_that_cannot_be_started_is_given_up() -> None:
    error = ControllerError(WorkerGroupStartupTimeoutError(3))
    assert without_place(error)
    end = failure_of(error, spec(), 3, "traceback")
    assert end.failure.startswith("WorkerGroupStartupTimeoutError: ")
    assert not end.died


def test_a_group_that_has_left_says_why_it_goes_on() -> None:
    left = Report(examples=1600, left=True)
    assert left.departure == "", "it was sent home"
    assert replace(left, preempted=True).departure == (
        "its machine was taken back; it went on elsewhere from 1,600 examples"
    )
    assert replace(left, resizes=True).departure == (
        "left at 1,600 examples: there was room for more workers"
    )
