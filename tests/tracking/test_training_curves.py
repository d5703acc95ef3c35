"""The training's curve between milestones, and the driver's machine, in MLflow."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from sentune.records import TrialRecord, TrialState
from sentune.tracking.client import mlflow_client
from sentune.tracking.machine import MachineMetrics
from tests.tracking.story import BEGAN, Held, Story, close, run_of, tracker_in

LOSS, SPEED = "train/loss", "train/examples_per_second"


def traced(story: Story, points: int) -> None:
    """Trial 0 runs, and has so many points between its milestones."""
    means = {LOSS: 9.0, SPEED: 9.0, "direction/accuracy": 0.7}
    record = TrialRecord(
        id=0, state=TrialState.RUNNING, settings={}, examples=4000,
        curve={1000: means, 4000: means},
    )  # fmt: skip
    trace = tuple((float(10 * n), 1 / n, 100.0 + n, BEGAN / 1000 + n) for n in range(1, points + 1))
    story.runs[0] = replace(run_of(record), trace=trace)


def test_loss_and_speed_have_a_point_for_each_of_the_trace(
    storage: Path, story: Story, held: Held
) -> None:
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    traced(story, 30)
    assert tracker.flush(60)
    traced(story, 60)
    tracker.notify()
    uri = close(tracker)
    points = held(uri)["trial-0000"]["points"]
    assert points[LOSS] == [(10 * n, 1 / n) for n in range(1, 61)], "and no mean among them"
    assert points[SPEED] == [(10 * n, 100.0 + n) for n in range(1, 61)]
    assert [step for step, _ in points["direction/accuracy"]] == [1000, 4000]
    client = mlflow_client(uri)
    run = held(uri)["trial-0000"]["id"]
    first = client.get_metric_history(run, LOSS)[0]
    assert first.timestamp == BEGAN + 1000


def test_a_study_of_an_older_version_keeps_its_means(
    storage: Path, story: Story, held: Held
) -> None:
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    traced(story, 0)
    points = held(close(tracker))["trial-0000"]["points"]
    assert points[LOSS] == [(1000, 9.0), (4000, 9.0)]


def wait_for(told: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not told() and time.monotonic() < end:
        time.sleep(0.02)
    assert told()


def test_the_drivers_machine_is_on_the_run_of_the_study(
    storage: Path, story: Story, held: Held
) -> None:
    """A next start goes on behind the last point."""
    cpu, memory = "system/cpu_utilization_percentage", "system/system_memory_usage_percentage"
    watch = partial(MachineMetrics, seconds=0.02, samples=1)

    def points() -> list[tuple[int, float]]:
        found: list[tuple[int, float]] = held(uri)["little"]["points"].get(memory, [])
        return found

    tracker = tracker_in(storage, machine=watch)
    uri = tracker.tracking_uri
    tracker.start(story.snapshot, story.summary())
    wait_for(lambda: tracker.flush(30) and len(points()) >= 2)
    tracker.update(story.summary("interrupted"))
    close(tracker)
    known = points()
    assert [step for step, _ in known] == list(range(len(known)))
    assert all(0 < share <= 100 for _, share in known)
    assert cpu in held(uri)["little"]["points"]
    again = tracker_in(storage, machine=watch)
    again.start(story.snapshot, story.summary())
    wait_for(lambda: again.flush(30) and len(points()) > len(known) + 1)
    again.update(story.summary("interrupted"))
    close(again)
    steps = [step for step, _ in points()]
    assert len(set(steps)) == len(steps)
