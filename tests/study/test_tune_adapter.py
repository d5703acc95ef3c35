"""What Ray Tune calls for a trial runner."""

from __future__ import annotations

import os
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.tune.progress_reporter import TrialProgressCallback

from sentune.launchers.trial_report import Report
from sentune.study.runner import tune_adapter
from sentune.study.runner.limits import Halt
from sentune.study.runner.trial_runner import TrialRunner
from sentune.study.runner.tune_adapter import StudyScheduler


def test_what_waits_for_the_first_process_is_called_once_whether_that_comes_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    halts = SimpleNamespace(halt=None)
    runner: Any = SimpleNamespace(watch=lambda actors: None, limits=halts, live={})
    no_process = SimpleNamespace(get_live_trials=list)
    called: list[float] = []
    clock = [50.0]
    monkeypatch.setattr(tune_adapter.time, "monotonic", lambda: clock[0])
    scheduler = StudyScheduler(cast("TrialRunner", runner), lambda: called.append(clock[0]))
    for clock[0] in (50.0, 50.1, 50.9, 51.1, 51.2, 60.0):
        assert scheduler.choose_trial_to_run(no_process) is None
    scheduler.begin()
    assert called == [51.1]


def test_a_run_that_is_taken_back_has_the_folder_that_tune_asks_for_at_the_end() -> None:
    halted = SimpleNamespace(halt=Halt(state="interrupted", reason=""))
    runner: Any = SimpleNamespace(watch=lambda actors: None, limits=halted, live={}, last={})
    done: list[str] = []
    given = SimpleNamespace(
        trial_id="a", status="PENDING", init_local_path=lambda: done.append("folder")
    )
    controller = SimpleNamespace(
        get_live_trials=lambda: [given], stop_trial=lambda trial: done.append("stopped")
    )
    StudyScheduler(cast("TrialRunner", runner), lambda: None).choose_trial_to_run(controller)
    assert done == ["folder", "stopped"]
    assert runner.last["a"].left


@pytest.mark.parametrize(
    ("state", "at_once", "saves", "grouped", "killed"),
    [("interrupted", False, False, False, ["a", "b"]), ("interrupted", False, True, False, []),
     ("interrupted", False, False, True, []), ("stopped", False, False, False, []),
     ("stopped", True, True, False, ["a", "b"]), ("stopped", True, True, True, ["a", "b"])],
)  # fmt: skip
def test_runs_that_are_to_write_no_checkpoint_are_killed_when_a_user_halts_the_study(
    monkeypatch: pytest.MonkeyPatch, state: str, at_once: bool, saves: bool, grouped: bool,
    killed: list[str],
) -> None:  # fmt: skip
    halted = SimpleNamespace(halt=Halt(state=state, reason="", at_once=at_once))
    runner: Any = SimpleNamespace(
        watch=lambda actors: None, limits=halted, live={}, saves=saves, grouped=grouped,
        last={"a": Report(examples=100), "b": Report(final=True)},
    )  # fmt: skip
    running = [
        SimpleNamespace(
            trial_id=str(name), status="RUNNING", temporary_state=SimpleNamespace(ray_actor=name)
        )
        for name in ("a", "b", None)
    ]
    ended: list[str] = []
    monkeypatch.setattr(tune_adapter.ray, "kill", ended.append)
    controller = SimpleNamespace(get_live_trials=lambda: running)
    StudyScheduler(cast("TrialRunner", runner), lambda: None).choose_trial_to_run(controller)
    assert ended == killed
    assert runner.last["b"].final, "it has ended already, and its result counts"
    assert runner.last["a"].left is bool(killed)


def test_a_run_that_ends_sooner_calls_it_at_its_end() -> None:
    called: list[int] = []
    scheduler = StudyScheduler(cast("TrialRunner", None), lambda: called.append(1))
    for _ in range(2):
        scheduler.begin()
    assert called == [1]


@pytest.mark.parametrize("users", ["", "own.Callback"])
def test_tune_prints_nothing_of_a_trial_without_a_result(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], users: str
) -> None:
    def fit(trainable: Any, **given: Any) -> SimpleNamespace:
        assert not given["run_config"].callbacks, "Tune would import MLflow to count them"
        *others, (module, name) = [
            named.rsplit(".", 1) for named in os.environ["RAY_TUNE_CALLBACKS"].split(",")
        ]
        assert others == [users.split(".")] * bool(users)
        progress = getattr(import_module(module), name)()
        assert isinstance(progress, TrialProgressCallback), "Tune adds one of its own otherwise"
        trial: Any = SimpleNamespace(last_result={})
        return SimpleNamespace(fit=lambda: progress.on_trial_complete(0, [trial], trial))

    monkeypatch.setenv("RAY_TUNE_CALLBACKS", users)
    monkeypatch.setattr(tune_adapter.tune, "Tuner", fit)
    limits = SimpleNamespace(halt=None, check=lambda: None)
    runner: Any = SimpleNamespace(limits=limits, finished=True, live={})
    assert tune_adapter.run_trials(
        lambda config: None, runner, study="s", concurrent=1, begun=lambda: None
    )
    assert capfd.readouterr().out == ""
    assert os.environ["RAY_TUNE_CALLBACKS"] == users
