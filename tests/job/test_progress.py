"""What a person sees of a running study, on a terminal and in a log."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from sentune.formatting import clock, percent, short
from sentune.job import progress as shown
from sentune.job.progress import Display, RemainingTime
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.study.space.objectives import Objective
from sentune.study.store.study_index import StudyPlace
from sentune.study.store.study_view import StoredRun, StudySnapshot

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


class Scene:
    """A display that writes into a file, as in a submitted job, and the study that it shows."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.runs: dict[int, StoredRun] = {}
        self.finals: dict[tuple[int, int], StoredRun] = {}
        self.mode = "max"

    def look(self) -> StudySnapshot:
        return StudySnapshot(
            place=StudyPlace(name="s", folder="", url=""),
            objectives=(Objective(METRIC, self.mode),),
            runs=tuple(self.runs.values()),
            finals=tuple(self.finals.values()),
        )

    def begin(self, **plan: int) -> None:
        shown = {**PLAN, **plan}
        self.display = Display(
            self.console, summary(self.mode), shown, self.look, varied=("batch_size",)
        )

    def store(self, record: TrialRecord, curve: dict[int, float] | None = None) -> None:
        """A run of the search is stored as it is now."""
        self.runs[record.id] = stored(record, curve)
        self.display.refresh()

    def final(self, trial: int, seed: int, record: TrialRecord, curve: dict[int, float]) -> None:
        """A run of the finals is stored as it is now."""
        self.finals[trial, seed] = replace(stored(record, curve), trial=trial, seed=seed)
        self.display.refresh()


def stored(record: TrialRecord, curve: dict[int, float] | None = None) -> StoredRun:
    points = {at: {METRIC: value} for at, value in (curve or {}).items()}
    over = record.state is not TrialState.RUNNING
    kept = replace(record, curve=points)
    return StoredRun(trial=record.id, record=kept, ended=1 if over else None)


@pytest.fixture
def log() -> tuple[Scene, io.StringIO]:
    text = io.StringIO()
    return Scene(Console(file=text, width=80)), text


def test_a_log_gets_a_line_for_each_event_and_long_lines_stay_whole(log) -> None:
    scene, text = log
    scene.begin()
    scene.store(trial(0, TrialState.RUNNING))
    scene.store(trial(0, TrialState.RUNNING, 0.7, 100), {100: 0.7})
    failed = trial(0, TrialState.FAILED, 0.7, 100)
    failed.reason = "after 128 examples: loss nan " + "x" * 90
    scene.store(failed, {100: 0.7})
    scene.display.refresh()  # nothing has changed since
    lines = [line.partition("] ")[2] for line in text.getvalue().splitlines()]
    assert lines == [
        "Study s: 4 trials of up to 900 examples, rungs at 100, 300",
        "trial 0 started: batch_size=32",
        f"trial 0 at 100 examples: {METRIC} 70.0 % (best 70.0 %, trial 0; 0 of 4 trials done)",
        f"trial 0 failed ({failed.reason}): {METRIC} 70.0 %",
    ]


def test_events_between_two_looks_have_a_line_each(log) -> None:
    scene, text = log
    scene.begin()
    scene.store(trial(5, TrialState.COMPLETE, 0.8, 900), {100: 0.6, 300: 0.7, 900: 0.8})
    lines = [line.partition("] ")[2] for line in text.getvalue().splitlines()][1:]
    assert [line.partition(":")[0] for line in lines] == [
        "trial 5 started", "trial 5 at 100 examples", "trial 5 at 300 examples",
        "trial 5 at 900 examples", "trial 5 complete",
    ]  # fmt: skip


def test_finals_have_lines_of_their_own(log) -> None:
    scene, text = log
    scene.begin()
    run = trial(0, TrialState.RUNNING)
    scene.final(5, 1, run, {})
    scene.final(5, 1, replace(run, examples=300, metrics={METRIC: 0.7}), {300: 0.7})
    done = trial(0, TrialState.COMPLETE, 0.8, 900)
    scene.final(5, 1, done, {300: 0.7, 900: 0.8})
    failed = replace(trial(1, TrialState.FAILED), reason="loss nan")
    scene.final(5, 2, failed, {})
    lines = [
        line.partition("] ")[2].partition(" (0 of")[0] for line in text.getvalue().splitlines()
    ]
    assert [line.partition(" (0 of")[0] for line in lines[1:]] == [
        "finalist: trial 5 again from seed 1",
        f"finalist: trial 5, seed 1 at 300 examples: {METRIC} 70.0 %",
        f"finalist: trial 5, seed 1 at 900 examples: {METRIC} 80.0 %",
        f"finalist: trial 5, seed 1 done: {METRIC} 80.0 %",
        "finalist: trial 5 again from seed 2",
        "finalist: trial 5, seed 2 failed (loss nan)",
    ]


@pytest.mark.parametrize(("mode", "best"), [("max", 1), ("min", 0)])
def test_the_best_is_the_best_in_either_mode(log, mode: str, best: int) -> None:
    scene, _ = log
    scene.mode = mode
    scene.begin()
    for number, value in enumerate((0.2, 0.9)):
        scene.store(trial(number, TrialState.COMPLETE, value, 900))
    assert scene.display.best.id == best


def test_what_an_earlier_start_did_is_one_line_and_no_speed(log) -> None:
    scene, text = log
    curve = {100: 0.8, 300: 0.8, 900: 0.8}
    scene.runs[0] = stored(trial(0, TrialState.COMPLETE, 0.8, 900), curve)
    scene.runs[1] = stored(trial(1, TrialState.RUNNING, 0.8, 300), {100: 0.8, 300: 0.8})
    scene.begin()
    assert len(text.getvalue().splitlines()) == 3
    assert "complete at an earlier start: direction/accuracy 80.0 %" in text.getvalue()
    assert scene.display.remaining.seen == 0
    scene.store(trial(1, TrialState.COMPLETE, 0.8, 900), curve)
    assert scene.display.remaining.seen == 600


def test_a_trial_of_another_study_is_none_of_those_planned(log) -> None:
    scene, text = log
    scene.begin()
    taken = replace(trial(0, TrialState.COMPLETE, 0.8, 900), source="old/3")
    scene.store(taken, {900: 0.8})
    assert "trial 0 complete in old/3: direction/accuracy 80.0 %" in text.getvalue()
    assert len(text.getvalue().splitlines()) == 2
    assert scene.display.to_come() == 4 * 900 + 2 * 900
    scene.store(trial(1, TrialState.RUNNING, 0.7, 100), {100: 0.7})
    assert "best 80.0 %, trial 0; 0 of 4 trials done" in text.getvalue()


def test_what_is_to_come_counts_waiting_running_and_finals(log) -> None:
    scene, _ = log
    scene.begin()
    display = scene.display
    assert display.to_come() == 4 * 900 + 2 * 900
    scene.store(trial(0, TrialState.PRUNED, 0.5, 300))
    # a coming trial costs what the ended one did
    assert display.to_come() == 3 * 300 + 2 * 900
    scene.store(trial(1, TrialState.RUNNING, 0.5, 100))
    assert display.to_come() == 2 * 300 + 200 + 2 * 900
    scene.final(0, 1, trial(0, TrialState.RUNNING, 0.6, 300), {300: 0.6})
    assert display.to_come() == 2 * 300 + 200 + 2 * 900 - 300


def test_pace_counts_from_the_first_milestone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    remaining = RemainingTime()
    assert remaining.left(1000) is None
    remaining.add(50)
    now[0] = 110.0
    assert remaining.left(1000) is None
    remaining.add(200)
    assert remaining.left(1000) == pytest.approx(50.0)  # 200 examples in 10 s


def test_the_live_table_shows_trials_finalists_and_hides_old_ones() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=80)
    scene = Scene(console)
    scene.begin(trials=30)
    with scene.display.shown():
        for number in range(25):
            scene.store(trial(number, TrialState.COMPLETE, number / 100, 900))
        wide = trial(25, TrialState.RUNNING)
        wide.settings = {"batch_size": "x" * 200}
        scene.store(wide)
        scene.final(24, 1, trial(0, TrialState.RUNNING, 0.31, 300), {300: 0.31})
        console.print(screen := scene.display.screen())
    trials, *_ = screen.renderables
    assert trials.row_count == 20
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
