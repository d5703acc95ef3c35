"""When a trial counts as stalled, by a clock of the test's own, and what is then done with it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sentune import beats
from sentune.beats import Beat
from sentune.launchers.trial_report import Report
from sentune.records import TrialState
from sentune.study.runner import stalls
from sentune.study.runner.stalls import StallWatch
from tests.study.test_trial_runner import Study

ALIVE = {"0000": 1}


def ticks(
    watch: StallWatch, count: int, numbers: dict[str, int | None], seconds: float = 2.0
) -> int:
    """Ticks until a trial has stalled; 0 if none has."""
    for tick in range(1, count + 1):
        if watch.tick(seconds, numbers):
            return tick
    return 0


def test_five_minutes_of_silence_are_a_stall() -> None:
    watch, _, _ = a_watch()
    watch.tick(2.0, ALIVE)
    assert ticks(watch, 200, ALIVE) == 150


def test_while_the_driver_is_suspended_no_silence_is_counted() -> None:
    watch, _, _ = a_watch(60.0)
    watch.tick(2.0, ALIVE)
    assert not watch.tick(3600.0, ALIVE), "one tick, however long the driver slept"
    assert watch._silent["0000"][1] == stalls.MOST_TICK
    assert ticks(watch, 100, ALIVE) == (60 - stalls.MOST_TICK) / 2 + 0.5


def test_slow_beats_raise_the_automatic_timeout_and_a_stated_one_stays() -> None:
    (auto, _, _), (stated, _, _) = a_watch(), a_watch(60.0)
    for watch in (auto, stated):
        watch.tick(2.0, ALIVE)
        for _ in range(20):
            assert not watch.tick(2.0, ALIVE)
        watch.tick(2.0, {"0000": 2})
    assert auto.slowest == 42.0
    assert auto.timeout == 420.0
    assert stated.timeout == 60.0
    assert ticks(auto, 300, {"0000": 2}) == 210


def test_the_wait_for_a_first_beat_is_no_interval_between_two() -> None:
    watch, _, _ = a_watch()
    for _ in range(100):
        assert not watch.tick(2.0, {"0000": None})
    watch.tick(2.0, ALIVE)
    assert watch.slowest == 0.0
    assert watch._silent["0000"][1] == 0.0


def test_a_trial_that_is_gone_and_comes_back_begins_again() -> None:
    watch, _, _ = a_watch(10.0)
    watch.tick(2.0, ALIVE)
    assert ticks(watch, 4, ALIVE) == 0
    watch.tick(2.0, {})
    assert ticks(watch, 5, ALIVE) == 0


class Control:
    """A control actor that answers what a test says."""

    def __init__(self) -> None:
        self.answer: dict[str, Beat] | None = {}

    def beats(self) -> dict[str, Beat] | None:
        return self.answer


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    actors: list[Any] = []
    monkeypatch.setattr(stalls.ray, "kill", actors.append)
    return actors


def a_watch(timeout: float | None = None) -> tuple[StallWatch, Control, list[float]]:
    now, control = [0.0], Control()
    watch = StallWatch(
        control=control,  # type: ignore[arg-type]
        limit=timeout,
        grouped=False,
        clock=lambda: now[0],
    )
    return watch, control, now


def test_silence_counts_only_while_the_control_actor_answers(killed: list[Any]) -> None:
    watch, control, now = a_watch(10.0)
    control.answer = {"0000": Beat(number=1)}
    watch.look(lambda: {"0000": "its actor"})
    control.answer = None
    for _ in range(100):
        now[0] += 2.0
        assert watch.look(lambda: {"0000": "its actor"}) == {}
    control.answer = {"0000": Beat(number=1)}
    assert watch.look(lambda: {"0000": "its actor"}) == {}, "200 s without an answer are one tick"
    assert killed == []


def test_the_beat_of_a_run_that_has_ended_is_forgotten() -> None:
    watch, control, _ = a_watch(10.0)
    control.answer = {"0000": Beat(number=1), "0001": Beat(number=1)}
    watch.look(lambda: {"0000": "its actor", "0001": "another"})
    read = watch.beats
    watch.forget("0000")
    assert watch.beats.keys() == {"0001"}
    assert read.keys() == {"0000", "0001"}, "a thread may go through it"


def test_a_run_that_stalls_is_ended_and_given_out_again(
    tmp_path: Path, killed: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    study = Study(tmp_path, trials=1)
    watch, control, now = a_watch(10.0)
    study.runner.stalls = watch
    for death in range(3):
        candidate = study.start(f"t{death}")
        assert candidate is not None, "two are forgiven, as with a process that dies"
        beat = Beat(phase="training", examples=96, number=7, node="10.0.0.5", pid=4711)
        control.answer = {candidate.name: beat}
        study.say(f"t{death}", 100)
        while len(killed) == death:
            study.runner.watch(lambda: {"0000": f"actor {death}"})  # noqa: B023
            now[0] += 2.0
        study.runner.end(f"t{death}", Report(failure="killed by ray.kill"))
    assert killed == ["actor 0", "actor 1", "actor 2"]
    record = study.store.record(0)
    assert (record.state, record.restarts) == (TrialState.FAILED, 2)
    why = "no beat for 10 s (--stall-timeout 10): training at 96 examples, process 4711 on 10.0.0.5"
    assert record.reason == why
    assert all(why in note for note in record.notes)
    assert caplog.text.count(why) == 2, "twice it goes on"
    assert study.control.forgotten == [candidate.name] * 3


def test_what_runs_wait_for_is_said_once(
    killed: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    watch, control, now = a_watch(1000.0)
    beat = Beat(number=1, waits="the file system of /studies/s")
    for number in range(1, 40):
        control.answer = {"0000": replace(beat, number=number)}
        watch.look(lambda: {"0000": "one", "0001": "two"})
        now[0] += 2.0
    place = "a place on the cluster, or its processes to come up,"
    assert [record.getMessage() for record in caplog.records] == [
        "run 0000: waiting for the file system of /studies/s since 30 s",
        f"run 0001: waiting for {place} since 30 s",
    ]
    assert killed == []


def test_a_beat_keeps_what_it_is_not_told() -> None:
    beats.begin("10.0.0.5", 7)
    first = beats.newest()
    assert (first.phase, first.examples, first.loss, first.pid) == ("loading", 0, None, 7)
    beats.beat("training", examples=32, loss=0.5, done=2, total=9)
    beats.beat()
    now = beats.newest()
    assert (now.phase, now.examples, now.loss, now.done, now.total) == ("training", 32, 0.5, 2, 9)
    assert now.number == first.number + 2, "a sign of life, though nothing has changed"
    beats.beat("validating")
    assert (beats.newest().examples, beats.newest().done, beats.newest().total) == (32, 0, 0)
    assert str(now) == "training at 32 examples, 2 of 9"
    beats.begin()
    assert beats.newest().loss is None
    assert beats.newest().number > now.number


def test_a_block_that_cannot_give_beats_is_alive_while_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beats, "SECONDS", 0.001)
    beats.begin("10.0.0.5", 7)
    with beats.beating("training"):
        first = beats.newest().number
        while beats.newest().number < first + 3:
            time.sleep(0.001)
    last = beats.newest()
    assert (last.phase, last.pid) == ("training", 7)
    time.sleep(0.02)
    assert beats.newest() == last
