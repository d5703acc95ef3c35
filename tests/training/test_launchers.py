"""Both launchers on one toy: the same metrics, the same ends, and CPUs that come back."""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import torch

from sentune.code import loaded_code
from sentune.errors import TrialFailed
from sentune.launchers.control_actor import (
    POLL_SECONDS,
    ControlClient,
    ControlSignal,
    listening,
)
from sentune.launchers.run_trial import guarded, run_trial
from sentune.launchers.trial_report import Report, failed
from sentune.records import TrialState
from sentune.study.space.space import Choice, SearchSpace
from sentune.study.study import Study, StudyConfig, StudyOutcome
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec
from tests.interpreter import run_python
from tests.toy_trials import OBJECTIVE, cluster_of_two_cpus, toy_spec

MILESTONES = (100, 300)


def make_program() -> Program:
    """A program that is pickled by value, as its module is not on the workers' path.

    x = 3 goes on to the end; x = 8 raises in the second worker, or in the only one.
    """

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        last = CheckpointStore(spec.directory).last_progress() if group.is_first else None
        last = group.broadcast_object(last)
        if last is not None:
            yield last.again(lambda folder: None)
        x = float(spec.settings["x"])
        for examples in spec.milestones:
            if last is not None and examples <= last.examples:
                continue
            if x == 8 and group.rank == group.world_size - 1:
                raise ValueError("eight is too much")
            mean = float(group.all_reduce_mean(torch.tensor([x], dtype=torch.float64)))
            metrics = {
                OBJECTIVE: examples / 1000 - mean,
                "toy/workers": group.world_size,
                "toy/collects_after": gc.get_threshold()[0],
            }
            yield Progress(
                examples=examples,
                metrics=metrics,
                final=examples == spec.max_examples,
                save=lambda folder: None,
            )

    return program


def study(folder: Path, **changes: Any) -> StudyOutcome:
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Choice(3, 8)})
    config = StudyConfig(
        name="toy", storage=str(folder), max_examples=300, first_rung=100, sampler="grid",
        scheduler="asha", trials=2, finalists=0, concurrent=1, **changes,
    )  # fmt: skip

    return Study(config, space, toy_spec, make_program(), (), {}).run()


def a_spec(directory: str = "") -> TrialSpec:
    return toy_spec({}, "0000", 0, MILESTONES, directory=directory)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with cluster_of_two_cpus():
        yield


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_a_group_of_two_gives_what_one_process_gives_and_leaves_its_cpus(tmp_path: Path):
    """Each trial takes both CPUs: one that ended and kept them would block the next. Workers
    collect garbage rarely while they import, and as often as Python does while they train."""
    inline = study(tmp_path / "inline", launcher="inline")
    train = study(tmp_path / "train", launcher="train", workers=2)

    usual = int(run_python("import gc; print(gc.get_threshold()[0])"))
    states = [TrialState.COMPLETE, TrialState.FAILED]
    for outcome, workers in ((inline, 1), (train, 2)):
        ends = [(record.state, record.reason) for record in outcome.trials]
        assert [state for state, _ in ends] == states, ends
        complete, broken = outcome.trials
        assert list(complete.curve) == [100, 300]
        where = " (on rank 1 of 2)" if workers == 2 else ""
        assert broken.reason == f"ValueError: eight is too much{where}"
        assert complete.metrics["toy/workers"] == workers
        assert complete.metrics["toy/collects_after"] == usual
    for one, other in zip(inline.trials, train.trials, strict=True):
        assert one.metrics.get(OBJECTIVE) == other.metrics.get(OBJECTIVE)
        assert one.reason in other.reason
    assert ray.available_resources().get("CPU") == 2
    importing = ray.remote(num_cpus=1)(lambda: gc.get_threshold()[0])
    assert ray.get(importing.remote()) > 10 * usual


def paced() -> Program:
    """A program of steps of ten examples, slow ones in its first start; pickled by value."""

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        last = CheckpointStore(spec.directory).last_progress() if group.is_first else None
        last = group.broadcast_object(last)
        start = last.examples if last is not None else 0
        if group.is_first:
            Path(spec.directory).mkdir(parents=True, exist_ok=True)
            with (Path(spec.directory).parent / "starts").open("a") as starts:
                starts.write(f"{start}\n")
        for examples in range(start + 10, spec.max_examples + 10, 10):
            time.sleep(0.3 if not start else 0.0)
            milestone = examples in spec.milestones
            yield Progress(
                examples=examples,
                metrics={OBJECTIVE: examples / 1000} if milestone else {},
                milestone=milestone,
                final=examples == spec.max_examples,
                save=lambda folder: None,
            )

    return program


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_a_group_that_leaves_for_more_workers_goes_on_from_its_checkpoint(tmp_path: Path):
    """Leaving is no failure: none is forgiven here."""
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Choice(3)})
    config = StudyConfig(
        name="toy", storage=str(tmp_path), max_examples=300, first_rung=100, sampler="grid",
        trials=1, finalists=0, concurrent=1, launcher="train", max_failures=0, workers=(1, 2),
    )  # fmt: skip
    study = Study(config, space, toy_spec, paced(), (), {})
    control = study.launch.control.actor

    def grow() -> None:
        assert until(lambda: ray.get(control.running.remote("0000")))
        control.resize.remote("0000")

    beside = threading.Thread(target=grow, daemon=True)
    beside.start()
    (record,) = study.run().trials
    beside.join()
    assert (record.state, record.reason) == (TrialState.COMPLETE, "")
    assert record.restarts == 0
    assert list(record.curve) == [100, 300]
    first, second = (tmp_path / "toy/trials/starts").read_text().splitlines()
    assert first == "0"
    left = f"left at {second} examples: there was room for more workers"
    assert sorted(record.notes) == [left, "trained by 2 workers"]
    assert until(lambda: ray.available_resources().get("CPU") == 2)


def until(condition: Callable[[], bool]) -> bool:
    """Whether it comes to hold within five minutes, on a machine however busy."""
    over = time.monotonic() + 300
    while not (held := condition()) and time.monotonic() < over:
        time.sleep(0.05)
    return held


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_a_trial_hears_what_it_is_asked_and_outlives_whoever_asks(caplog):
    control = ControlClient()
    with listening(control.actor, "0000") as ask:
        time.sleep(POLL_SECONDS)
        assert ask() is ControlSignal.NONE
        control.ask_to_leave()
        assert until(lambda: ask() is ControlSignal.LEAVE)
        control.close()
        assert until(lambda: "the control actor is gone" in caplog.text)
        assert ask() is ControlSignal.LEAVE
    assert until(lambda: not [t for t in threading.enumerate() if t.name == "control-signal"])


def says(values: list[float | None]) -> Program:
    """Says these scores, one a milestone."""

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        for place, value in enumerate(values, start=1):
            metrics = {} if value is None else {OBJECTIVE: value}
            yield Progress(
                examples=100 * place, metrics={**metrics, "toy/other": 1.0}, save=lambda f: None
            )

    return program


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_ends_a_trial_before_its_checkpoint(tmp_path: Path, value):
    spec = a_spec(str(tmp_path))
    reports = run_trial(says([0.5, value]), spec, Group.single("cpu"))
    assert next(reports).metrics[OBJECTIVE] == 0.5
    with pytest.raises(TrialFailed, match=f"{OBJECTIVE} is {value} at 200 examples"):
        next(reports)
    last = CheckpointStore(str(tmp_path)).last_progress()
    assert last is not None
    assert last.examples == 100


def test_a_score_that_is_missing_is_named_with_what_is_there():
    (report,) = guarded(says([None]), a_spec(), Group.single("cpu"), loaded_code().fingerprint)
    assert report.failure == f"{OBJECTIVE} was not measured at 100 examples; toy/other was"
    assert report.repeats


def test_another_code_than_the_drivers_ends_a_trial_and_is_no_verdict_on_its_settings():
    (report,) = guarded(says([0.5]), a_spec(), Group.single("cpu"), "other")
    assert "the driver runs code other" in report.failure
    assert not report.repeats


def test_a_report_survives_the_way_to_the_driver():
    report = Report(
        examples=3,
        metrics={"a/b": 0.1, "a/c": math.nan},
        readouts={"a/beta": 0.5, "a/name": None},
        seconds=1.5,
        traceback="line\nline",
    )
    returned = Report.from_result(report.to_result())
    assert repr(returned) == repr(report)
    assert Report.from_result({"done": True}) is None


@pytest.mark.parametrize(
    ("error", "failure", "repeats", "poisoned"),
    [
        (TrialFailed("the loss is nan"), "the loss is nan", True, False),
        (KeyError("x"), "KeyError: 'x'", True, False),
        (RuntimeError("first\nsecond"), "RuntimeError: first", True, False),
        (RuntimeError(), "RuntimeError: no message", True, False),
        (ConnectionError("gone"), "ConnectionError: gone", False, False),
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory on the device", True, True),
        (MemoryError(), "out of memory on the host", True, False),
    ],
)
def test_an_error_becomes_one_line_that_a_user_understands(error, failure, repeats, poisoned):
    said = failed(error)
    assert said.failure.startswith(failure)
    assert "\n" not in said.failure
    assert (said.repeats, said.poisoned) == (repeats, poisoned)
