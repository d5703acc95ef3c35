"""What becomes of a Ray Train group that has failed, told by the errors that Ray Train gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import ray
import torch
from ray.train.v2._internal.exceptions import (
    UserExceptionWithTraceback,
    WorkerGroupStartupTimeoutError,
    WorkerHealthCheckFailedError,
)
from ray.train.v2.api.exceptions import ControllerError, WorkerGroupError

from sentune.errors import TrialFailed
from sentune.launchers.failures import (
    Attempt,
    after_failure,
    own_error,
    passes,
)
from sentune.launchers.launch import halved
from sentune.launchers.trial_report import Report, failed
from sentune.training.group import Group
from sentune.training.memory import OutOfMemory
from sentune.training.trial import TrialSpec

GLOO = RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:55")
CPU = torch.device("cpu")


def spec(**changes: Any) -> TrialSpec:
    values: dict[str, Any] = {
        "study": "tests", "trial": "0000", "method": "gumbel", "settings": {"batch_size": 48},
        "encoder": "", "corpus": None, "dev": None, "max_examples": 96, "milestones": (96,),
        "objective": "direction/accuracy",
    }  # fmt: skip
    return TrialSpec(**{**values, **changes})


def user(error: Exception) -> Exception:
    return UserExceptionWithTraceback(error, "Traceback ...")


def dead(error: Exception) -> Exception:
    return WorkerHealthCheckFailedError("worker is gone", error)


def then(
    *failures: Exception, word: Report | None = None, deaths: int = 0, **changes: Any
) -> Attempt | Report:
    """What follows where rank 0, 1, ... met these; two deaths are forgiven."""
    error = WorkerGroupError("two of them", dict(enumerate(failures)))
    attempt = Attempt(spec=spec(**changes), workers=3, deaths=deaths, notes=("before",))
    return after_failure(error, word, attempt, 2, "traceback")


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
    assert own_error(KeyError("x"), group, "").failure == "KeyError: 'x' (on rank 1 of 3)"
    assert own_error(KeyError("x"), Group.single("cpu"), "").failure == "KeyError: 'x'"
    assert own_error(TrialFailed("loss nan"), group, "").failure == "loss nan", "all ranks meet it"


def test_an_error_of_its_own_ends_a_trial_whatever_its_peers_met() -> None:
    word = own_error(KeyError("x"), Group(1, 3, CPU), "where")
    end = then(user(GLOO), user(KeyError("x")), user(GLOO), word=word)
    assert isinstance(end, Report)
    assert end.failure == "KeyError: 'x' (on rank 1 of 3)"
    assert (end.repeats, end.traceback, end.notes) == (True, "where", ["before"])


def test_a_group_that_was_ended_for_its_silence_says_so_and_counts_as_dead() -> None:
    killed = dead(ray.exceptions.RayActorError(error_msg="killed by ray.kill"))
    error = WorkerGroupError("both of them", {0: killed, 1: killed})
    attempt = Attempt(spec=spec(), workers=2, deaths=1)
    again = after_failure(error, None, attempt, 2, "", "no beat for 300 s")
    assert isinstance(again, Attempt)
    assert (again.deaths, again.notes) == (2, ("started again: no beat for 300 s",))
    end = after_failure(error, None, again, 2, "", "no beat for 300 s")
    assert isinstance(end, Report)
    assert end.failure == "no beat for 300 s"


def test_a_death_is_forgiven_twice_and_named_before_its_peers_noise() -> None:
    words = "The actor died unexpectedly.\nIts node was killed."
    death = ray.exceptions.RayActorError(error_msg=words)
    again = then(user(GLOO), dead(death), user(GLOO), deaths=1)
    assert isinstance(again, Attempt)
    assert again.deaths == 2
    assert again.notes[1].startswith("started again: the process of rank 1 died: ")
    end = then(user(GLOO), dead(death), user(GLOO), deaths=2)
    assert isinstance(end, Report)
    assert end.failure.startswith("the process of rank 1 died: ")
    assert (end.restarts, end.out_of_memory) == (2, False)


def test_noise_alone_is_forgiven_too() -> None:
    lost = f"a worker was lost, as rank 0 noticed: RuntimeError: {GLOO}"
    more = RuntimeError(f"{GLOO}. It may be that the remote worker crashed. Good luck!")
    again = then(user(more), user(GLOO))
    assert isinstance(again, Attempt)
    assert again.notes[1] == f"started again: {lost}"
    end = then(user(more), user(GLOO), deaths=2)
    assert isinstance(end, Report)
    assert end.failure == lost
    assert "Good luck" in end.traceback


def test_no_memory_on_a_device_starts_all_again_with_half_and_counts_for_nothing() -> None:
    word = failed(OutOfMemory("after 32 examples: out of memory on the device", 8))
    again = then(user(GLOO), word=word, deaths=2)
    assert isinstance(again, Attempt)
    assert (again.spec.micro_batch, again.deaths) == (8, 2)
    assert again.notes[1] == (
        "micro_batch 8 from here on: after 32 examples: out of memory on the device"
    )
    word = failed(OutOfMemory("out of memory on the device, even with a micro_batch of 1"))
    end = then(user(GLOO), word=word)
    assert isinstance(end, Report)
    assert (end.out_of_memory, end.repeats) == (True, True)


def test_no_memory_on_the_host_starts_all_again_with_half() -> None:
    killed = dead(ray.exceptions.OutOfMemoryError("Task was killed due to the node running low"))
    again = then(user(GLOO), killed, deaths=2)
    assert isinstance(again, Attempt)
    assert (again.spec.micro_batch, again.deaths) == (8, 2), "a third of 48, halved"
    end = then(killed, micro_batch=1)
    assert isinstance(end, Report)
    assert end.failure.startswith("out of memory on the host")
    assert end.out_of_memory


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
        ({"micro_batch": 1}, 1, 0),
    ],
)
def test_half_of_what_a_worker_holds(changes: dict[str, Any], workers: int, half: int) -> None:
    assert halved(spec(**changes), workers) == half


def test_a_group_that_cannot_be_started_is_given_up() -> None:
    error = ControllerError(WorkerGroupStartupTimeoutError(3))
    end = after_failure(error, None, Attempt(spec=spec(), workers=3), 2, "traceback")
    assert isinstance(end, Report)
    assert end.failure.startswith("WorkerGroupStartupTimeoutError: ")


def test_an_elastic_group_that_found_no_room_tries_again_with_another_size() -> None:
    error = ControllerError(WorkerGroupStartupTimeoutError(3))
    attempt = Attempt(spec=spec()).sized(3, fewest=2)
    again = after_failure(error, None, attempt, 0, "traceback")
    assert again == attempt.noted("there was no room for 3 workers after all")
    assert isinstance(after_failure(error, None, again.sized(2, fewest=2), 0, ""), Report)


def test_an_attempt_notes_another_size_than_the_last_one_had() -> None:
    first = Attempt(spec=spec()).sized(1, fewest=1)
    assert (first.workers, first.may_shrink, first.notes) == (1, False, ())
    assert first.sized(1, fewest=1) == first
    grown = first.noted("left at 16 examples").sized(4, fewest=1)
    assert (grown.workers, grown.may_shrink) == (4, True)
    assert grown.notes == ("left at 16 examples; 4 instead of 1 workers from there on",)


def test_a_group_that_has_left_says_why_it_goes_on() -> None:
    left = Report(examples=1600, left=True)
    assert left.departure == "", "it was sent home"
    assert replace(left, preempted=True).departure == (
        "its machine was taken back; it went on elsewhere from 1,600 examples"
    )
    assert replace(left, resizes=True).departure == (
        "left at 1,600 examples: there was room for more workers"
    )
    assert Attempt(spec=spec(), deaths=1).noted("it left").deaths == 1
