"""What a person sees of a running study, on a terminal and in a log."""

import io

import pytest
from rich.console import Console

from sentune.formatting import clock, percent, short
from sentune.job import display as shown
from sentune.job.display import Display, Pace
from sentune.records import StudySummary, TrialRecord, TrialState

PLAN = {"trials": 4, "max_examples": 900, "rungs": [100, 300], "finalists": 2}
METRIC = "direction/accuracy"


def summary(mode: str = "max") -> StudySummary:
    return StudySummary(
        study="s", method="gumbel", state="running", objective=METRIC, mode=mode,
        corpora={}, space={},
    )  # fmt: skip


def trial(number: int, state: TrialState, value: float | None = None, examples: int = 0):
    metrics = {} if value is None else {METRIC: value}
    return TrialRecord(
        id=number, state=state, settings={"batch_size": 32, "other": 1}, metrics=metrics,
        examples=examples,
    )  # fmt: skip


@pytest.fixture
def log() -> tuple[Display, io.StringIO]:
    """A display that writes into a file, as in a submitted job."""
    text = io.StringIO()
    return Display(Console(file=text, width=80), varied=("batch_size",)), text


def test_a_log_gets_a_line_for_each_event_and_long_lines_stay_whole(log) -> None:
    display, text = log
    display.study_started(summary(), PLAN)
    display.trial_started(trial(0, TrialState.RUNNING))
    display.trial_progressed(trial(0, TrialState.RUNNING, 0.7, 100), 100, {METRIC: 0.7})
    failed = trial(0, TrialState.FAILED, 0.7, 100)
    failed.reason = "after 128 examples: loss nan " + "x" * 90
    display.trial_ended(failed)
    lines = text.getvalue().splitlines()
    assert len(lines) == 4
    assert "4 trials of up to 900 examples, rungs at 100, 300" in lines[0]
    assert lines[1].endswith("trial 0 started: batch_size=32")
    assert "70.0 %" in lines[2]
    assert "x" * 90 in lines[3]


def test_the_best_is_the_best_in_either_mode(log) -> None:
    display, _ = log
    for mode, best in (("max", 1), ("min", 0)):
        display.study_started(summary(mode), PLAN)
        for number, value in enumerate((0.2, 0.9)):
            display.trial_ended(trial(number, TrialState.COMPLETE, value, 900))
        assert display.tally.best.id == best


def test_what_an_earlier_start_did_is_one_line_and_no_speed(log) -> None:
    display, text = log
    display.study_started(summary(), PLAN)
    done = trial(0, TrialState.COMPLETE, 0.8, 900)
    display.trial_started(done)
    for examples in (100, 300, 900):
        display.trial_progressed(done, examples, {METRIC: 0.8})
    display.trial_ended(done)
    assert len(text.getvalue().splitlines()) == 2
    assert "complete at an earlier start: direction/accuracy 80.0 %" in text.getvalue()
    assert display.pace.seen == 0


def test_a_trial_of_another_study_is_none_of_those_planned(log) -> None:
    display, text = log
    display.study_started(summary(), PLAN)
    taken = trial(0, TrialState.COMPLETE, 0.8, 900)
    taken.source = "old/3"
    display.trial_started(taken)
    display.trial_ended(taken)
    assert "trial 0 complete in old/3: direction/accuracy 80.0 %" in text.getvalue()
    assert display.to_come() == 4 * 900 + 2 * 900
    display.trial_progressed(trial(1, TrialState.RUNNING), 100, {METRIC: 0.7})
    assert "best 80.0 %, trial 0; 0 of 4 trials done" in text.getvalue()


def test_what_is_to_come_counts_waiting_running_and_finals(log) -> None:
    display, _ = log
    display.study_started(summary(), PLAN)
    assert display.to_come() == 4 * 900 + 2 * 900
    display.trial_ended(trial(0, TrialState.PRUNED, 0.5, 300))
    # a coming trial costs what the ended one did
    assert display.to_come() == 3 * 300 + 2 * 900
    display.finalist_started(0, 1)
    display.finalist_progressed(0, 1, 300, {METRIC: 0.6})
    assert display.to_come() == 3 * 300 + 2 * 900 - 300


def test_pace_counts_from_the_first_milestone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    pace = Pace()
    assert pace.left(1000) is None
    pace.add(50)
    now[0] = 110.0
    assert pace.left(1000) is None
    pace.add(200)
    assert pace.left(1000) == pytest.approx(50.0)  # 200 examples in 10 s


def test_the_live_table_shows_trials_finalists_and_hides_old_ones() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=80)
    display = Display(console, varied=("batch_size",))
    with display.shown():
        display.study_started(summary(), {**PLAN, "trials": 30})
        for number in range(25):
            display.trial_ended(trial(number, TrialState.COMPLETE, number / 100, 900))
        wide = trial(25, TrialState.RUNNING)
        wide.settings = {"batch_size": "x" * 200}
        display.trial_started(wide)
        display.finalist_started(24, 1)
        display.finalist_progressed(24, 1, 300, {METRIC: 0.31})
        console.print(display._screen())
    table = text.getvalue()
    assert "24.0 %" in table
    assert "31.0 %" in table
    assert "25 of 30 trials done" in table
    for column in ("trial", "state", "examples", METRIC, "settings"):
        assert column in table


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (75, "1:15"), (4000, "1:06:40")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_figures_are_written_the_same_everywhere() -> None:
    assert percent(0.93125) == "93.1 %"
    assert percent(0.9, 0.004) == "90.0 ± 0.4 %"
    assert percent(None) == "-"
    assert short({"learning_rate": 0.000123456, "pooling": "cls"}) == (
        "learning_rate=0.000123, pooling=cls"
    )
