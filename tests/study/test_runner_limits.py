"""What ends a study early: budgets, too little gain, and signals."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from test_trial_runner import SPACE, Held, Study
from toys import open_store

from sentune.launchers.trial_report import Report, died
from sentune.study.config import Budget
from sentune.study.runner.limits import Limits
from sentune.study.runner.tune_adapter import own_signals


def test_hours_and_gpu_hours_count_what_earlier_starts_used_up(tmp_path: Path) -> None:
    held, store = Held(hours=1.5), open_store(tmp_path, space=SPACE)
    hours = Limits(store, budget=Budget(max_hours=2), held=held)
    assert hours.watch() is None
    held.hours = 2.1
    halt = hours.watch()
    assert halt is not None
    assert (halt.state, "--max-hours 2" in halt.reason) == ("stopped", True)

    earlier = store.create({}, {}, settings={}, seed=0)
    store.charge(earlier, "start", seconds=900, gpus=2)
    gpus = Limits(store, budget=Budget(max_gpu_hours=1), held=Held())
    gpus.gpu_seconds["attempt"] = 1000
    gpus.gpu_seconds["attempt"] = 1500
    assert gpus.watch() is None
    gpus.gpu_seconds["another"] = 400
    halt = gpus.watch()
    assert halt is not None
    assert "1.03 GPU hours so far" in halt.reason, "half an hour, 1500 s and 400 s"


def test_the_search_ends_early_enough_for_the_finals(tmp_path: Path) -> None:
    held = Held(hours=1.0)
    study = Study(tmp_path, budget=Budget(max_hours=2), held=held, finals=2)
    limits = study.runner.limits
    study.whole("a", seconds=900.0)
    held.hours = 1.6
    assert study.start("b") is None, "half an hour is kept for the finals, and as much for itself"
    assert study.runner.finished
    assert limits.halt is None, "nobody is sent home"
    limits.begin_finals(0.0)
    assert "--max-hours 2" in limits.ended_early
    assert limits.watch() is None
    assert not limits.closed(), "they may use what was kept for them"
    assert "--max-hours 2" in limits.ended_early


def test_no_trial_starts_that_leaves_no_hours_for_the_finals(tmp_path: Path) -> None:
    """Half an hour a run: the trial that would start, then the two of the finals."""
    held = Held()
    study = Study(tmp_path, budget=Budget(max_hours=2.9), held=held, finals=2)
    for name in "abc":
        study.start(name)
        held.hours += 0.5
        study.say(name, final=True, seconds=1800.0)
        study.runner.end(name)
    assert study.start("d") is None, "1.5 hours are used up, and 1.5 are needed"
    assert "1.5 are reserved for a last trial and the finals" in study.runner.limits.ended_early
    study.runner.limits.begin_finals(0.0)
    held.hours = 2.0
    assert not study.runner.limits.closed()


def test_a_trial_waits_for_those_at_work_where_the_finals_may_lack_gpu_hours(
    tmp_path: Path,
) -> None:
    """A minute on one GPU a run; two are at work, of which one has come to a third of its way."""
    for minutes, starts in ((5.1, True), (4.9, False)):
        folder = tmp_path / str(minutes)
        folder.mkdir()
        study = Study(folder, budget=Budget(max_gpu_hours=minutes / 60), finals=1, concurrent=9)
        study.whole("a")
        study.start("b")
        study.start("c")
        study.say("b", 300, gpus=2 / 3)
        # used 1 1/3; rests 2/3 and 1; the new one and the final 2
        assert (study.start("d") is not None) is starts
    assert not study.runner.finished
    study.say("c", 0, failure="its loss is nan", metrics={}, gpus=0.0)
    study.runner.end("c")
    assert study.start("d") is not None, "without c's rest there is room"


def test_an_interrupted_trial_needs_only_the_rest_of_its_hours(tmp_path: Path) -> None:
    before = Study(tmp_path)
    before.whole("a", seconds=1800.0)
    before.start("b")
    before.say("b", 300, seconds=600.0)
    again = Study(tmp_path, budget=Budget(max_hours=2), held=Held(hours=1.0), finals=1)
    assert again.start("b") is not None, "a third of an hour, and half an hour"
    assert again.start("c") is None


def test_most_trials_and_no_gain_close_the_search(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    few = Study(tmp_path / "a", budget=Budget(max_trials=2))
    few.whole("a")
    few.whole("b")
    assert few.start("c") is None
    assert "--max-trials 2" in few.runner.limits.ended_early

    flat = Study(tmp_path / "b", budget=Budget(no_gain=2))
    for name, value in zip("abcd", (0.5, 0.6, 0.6, 0.55), strict=True):
        flat.whole(name, value)
    assert flat.start("e") is None
    assert "2 trials in a row" in flat.runner.limits.ended_early


@pytest.mark.parametrize(
    ("budget", "given"),
    [
        (Budget(max_trials=4), [2, 3]),
        (Budget(no_gain=1), [2, 3]),
        (Budget(max_hours=1.0), []),
        (Budget(max_gpu_hours=0.03, max_trials=4), []),
    ],
)
def test_trials_that_an_interruption_left_go_on_unless_hours_are_used_up(
    tmp_path: Path, budget: Budget, given: list[int]
) -> None:
    before = Study(tmp_path)
    for name in "ab":
        before.whole(name, seconds=900.0)
    for name in "cd":
        before.start(name)
    again = Study(tmp_path, budget=budget, held=Held(hours=0.8), finals=1)
    runs = [again.start(name) for name in "cde"]
    assert [run.number for run in runs if run is not None] == given
    assert len(again.store.all_trials()) == 4, "no other one is started"


def test_of_trials_that_an_interruption_left_no_more_go_on_than_leave_hours_for_the_finals(
    tmp_path: Path,
) -> None:
    """Half an hour a run, one after the other; --max-trials has closed the search before."""
    before = Study(tmp_path)
    before.whole("a", seconds=1800.0)
    for name in "bcde":
        before.start(name)
    held, given = Held(hours=0.5), []
    again = Study(tmp_path, budget=Budget(max_trials=5, max_hours=2), held=held, finals=1)
    for name in "bcde":
        if (run := again.start(name)) is None:
            break
        given.append(run.number)
        held.hours += 0.5
        again.say(name, final=True, seconds=1800.0)
        again.runner.end(name)
    assert given == [1], "1.0 hours are used up; a second one and the final do not fit in 2"
    assert "--max-hours 2 is used up" in again.runner.limits.ended_early


@pytest.mark.parametrize(
    ("budget", "given"), [(Budget(max_trials=1), [0, 1]), (Budget(max_hours=1.0), [0])]
)
def test_where_no_trial_is_complete_one_that_an_interruption_left_comes_to_its_end(
    tmp_path: Path, budget: Budget, given: list[int]
) -> None:
    before = Study(tmp_path)
    for name in "ab":
        before.start(name)
    before.say("a", 300, seconds=900.0)
    again = Study(tmp_path, budget=budget, held=Held(hours=0.9), finals=1)
    runs = [again.start(name) for name in "abc"]
    assert [run.number for run in runs if run is not None] == given


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_trials_for_checkpoints_and_a_second_one_ends(
    tmp_path: Path, number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    study = Study(tmp_path)
    study.start("a")
    study.start("b")
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with own_signals(study.runner):
            signal.raise_signal(number)
            assert study.runner.limits.halt is not None
            assert study.runner.limits.halt.state == "interrupted"
            assert (study.runner.limits.halt.reason == "") is (number == signal.SIGINT)
            said = capfd.readouterr().err
            assert said == "writing checkpoints of 2 trials, again to leave now\n"
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    ("saves", "grouped", "runs", "said"),
    [(True, False, "", "ending"), (False, False, "a", "ending"),
     (False, True, "ab", "waiting for 2 trials"),
     (True, True, "a", "writing checkpoints of 1 trial")],
)  # fmt: skip
def test_a_signal_promises_no_checkpoint_if_none_is_written(
    tmp_path: Path,
    saves: bool,
    grouped: bool,
    runs: str,
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    study = Study(tmp_path)
    study.runner.saves, study.runner.grouped = saves, grouped
    for name in runs:
        study.start(name)
    with own_signals(study.runner):
        signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == f"{said}, again to leave now\n"


def test_a_killed_fit_is_continued_by_the_next_start(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.start("a")
    study.runner.last["a"] = Report(left=True)
    study.runner.end("a", died())
    again = Study(tmp_path)
    run = again.start("a")
    assert run is not None
    assert run.number == 0, "the same trial"
    record = again.store.record(0)
    assert (record.restarts, record.reason) == (0, "")


def test_a_limit_is_no_request(tmp_path: Path) -> None:
    held = Held()
    limits = Study(tmp_path, budget=Budget(max_hours=2), held=held).runner.limits
    held.hours = 2.1
    exhausted = limits.watch()
    held.signal = "stop"
    limits = Study(tmp_path, held=held).runner.limits
    asked = limits.watch()
    assert exhausted is not None
    assert asked is not None
    assert (exhausted.requested, asked.requested) == (False, True)


def test_stop_now_asks_for_no_checkpoint_also_after_stop(tmp_path: Path) -> None:
    held = Held()
    runner = Study(tmp_path, held=held).runner
    for held.signal, at_once in (("stop", False), ("stop now", True), ("stop now", True)):
        runner.watch()
        halt = runner.limits.halt
        assert halt is not None
        assert (halt.state, halt.requested, halt.at_once) == ("stopped", True, at_once)


def test_an_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    """``nohup`` starts a process so."""
    study = Study(tmp_path)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with own_signals(study.runner):
            signal.raise_signal(signal.SIGHUP)
        assert study.runner.limits.halt is None
    finally:
        signal.signal(signal.SIGHUP, before)
