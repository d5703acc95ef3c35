"""Trials that wait for a place wait as long as it takes, and no longer than their study."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.util import placement_group, placement_group_table, remove_placement_group

from sentune.code import runtime_env
from sentune.records import TrialState
from sentune.study.config import Budget
from sentune.study.runner.limits import Alone
from sentune.study.study import Study, StudyConfig, StudyOutcome
from tests.autoscaling import toy_study
from tests.toy_trials import toy_spec

TRIES = 4
"""Ray Train's own ones; then it gives a group up."""


@pytest.fixture(scope="module")
def machine() -> Iterator[None]:
    """One CPU, and groups that are told again and again that there is no place yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "2")
        ray.init(
            address="local", num_cpus=1, include_dashboard=False, log_to_driver=False,
            logging_level="ERROR", runtime_env=runtime_env(),
        )  # fmt: skip
        ray.cloudpickle.register_pickle_by_value(toy_study)
        yield
        ray.cloudpickle.unregister_pickle_by_value(toy_study)
        ray.shutdown()


@contextmanager
def taken(until: Callable[[], bool]) -> Iterator[threading.Event]:
    """The one CPU is taken until something has happened; the event says that it has."""
    held, free = placement_group([{"CPU": 1}]), threading.Event()
    assert held.wait(30)

    def watch() -> None:
        while not over.wait(0.2):
            if until():
                remove_placement_group(held)
                free.set()
                return

    over = threading.Event()
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield free
    finally:
        over.set()
        thread.join()
        remove_placement_group(held)


def in_vain() -> int:
    """How many groups have waited in vain so far."""
    states = [group["state"] for group in placement_group_table().values()]
    return states.count("REMOVED")


class Waiting(Alone):
    """Its hours begin with the first trial: before it, a busy machine may take any time."""

    def __init__(self, begun: Callable[[], object]) -> None:
        super().__init__()
        self._begun = begun

    @property
    def hours(self) -> float:
        if not self._begun():
            self._started = time.monotonic()
        return super().hours


def run(folder: Path, **config: Any) -> StudyOutcome:
    (folder / toy_study.NAME).mkdir(exist_ok=True)
    settings: dict[str, Any] = {"trials": 1, "concurrent": 1, **config}
    planned = StudyConfig(
        name=toy_study.NAME, storage=str(folder), max_examples=200, finalists=0, sampler="random",
        scheduler="none", **settings,
    )  # fmt: skip
    study = Study(planned, toy_study.SPACE, toy_spec, toy_study.program, (), {})
    study.held = Waiting(study.store.trials)
    return study.run()


def test_a_group_waits_longer_than_ray_trains_patience(machine: None, tmp_path: Path) -> None:
    before = in_vain()
    with taken(until=lambda: in_vain() > before + TRIES) as free:
        outcome = run(tmp_path, launcher="train")
        assert free.is_set()
    (trial,) = outcome.trials
    assert (trial.state, trial.reason, trial.notes) == (TrialState.COMPLETE, "", [])
    assert trial.restarts == 0


@pytest.mark.parametrize("launcher", ["inline", "train"])
def test_a_study_whose_time_is_up_waits_for_no_node(
    machine: None, tmp_path: Path, launcher: str
) -> None:
    limit = 5 / 3600
    started = time.monotonic()
    with taken(until=lambda: False):
        first = run(tmp_path, launcher=launcher, budget=Budget(max_hours=limit))
        assert time.monotonic() - started > 5
    assert first.state == "stopped"
    assert [trial.state for trial in first.trials] == [TrialState.RUNNING]
    second = run(tmp_path, launcher=launcher)
    assert [(trial.state, trial.notes) for trial in second.trials] == [(TrialState.COMPLETE, [])]
