"""What a person sees of a running study, on a terminal and in a log."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from sentune.beats import QUIET_SECONDS, Beat
from sentune.formatting import clock, percent, short
from sentune.job.progress import Display
from sentune.job.time_left import PlannedWork, TimeLeft
from sentune.records import PART, StudySummary, TrialRecord, TrialState
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
        self.beats: dict[str, Beat] = {}
        self.mode, self.now = "max", 0.0

    def look(self) -> StudySnapshot:
        return StudySnapshot(
            place=StudyPlace(name="s", folder="", url=""),
            objectives=(Objective(METRIC, self.mode),),
            runs=tuple(self.runs.values()),
            finals=tuple(self.finals.values()),
        )

    def begin(self, **plan: Any) -> None:
        shown = {**PLAN, **plan}
        milestones = (*shown["rungs"], shown["max_examples"])
        ahead = PlannedWork(
            trials=shown["trials"], finals=shown["finalists"], concurrent=2,
            milestones=milestones, chances=dict(zip(shown["rungs"], (1 / 3, 3 / 4), strict=False)),
        )  # fmt: skip
        self.display = Display(
            self.console, summary(self.mode), shown, self.look, varied=("batch_size",),
            beats=lambda: self.beats, now=lambda: self.now,
            time_left=TimeLeft(work=ahead, clock=lambda: self.now),
        )  # fmt: skip

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


def test_what_a_part_of_dev_measured_is_marked_in_the_log(log) -> None:
    scene, text = log
    scene.begin()
    part = trial(0, TrialState.PRUNED, 0.7, 100)
    part.metrics[PART] = 500.0
    part.curve = {100: dict(part.metrics)}
    scene.runs[0] = StoredRun(trial=0, record=part, ended=1)
    scene.display.refresh()
    assert f"trial 0 at 100 examples: {METRIC} ~70.0 % (" in text.getvalue()
    assert f"trial 0 stopped early: {METRIC} ~70.0 %\n" in text.getvalue()


def test_a_log_says_which_gpus_are_not_used(log) -> None:
    scene, text = log
    scene.begin(gpus_unused=8)
    assert "] GPUs: 8 up, none used: give --gpus-per-worker 1 to train on them\n" in text.getvalue()


def test_one_that_goes_on_says_so_and_counts_once(log) -> None:
    scene, text = log
    scene.begin()
    scene.store(trial(0, TrialState.PRUNED, 0.7, 100), {100: 0.7})
    on = replace(
        trial(1, TrialState.RUNNING), parent=0, begun_at=100, notes=["went on from trial 0 at 100"]
    )
    scene.store(on)
    scene.store(trial(2, TrialState.RUNNING))
    scene.store(trial(2, TrialState.RUNNING, 0.6, 100), {100: 0.6})
    lines = text.getvalue()
    assert "trial 1 went on from trial 0 at 100: batch_size=32\n" in lines
    assert "(best 70.0 %, trial 0; 0 of 4 trials done)" in lines


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


def test_a_trial_that_breaks_a_constraint_is_not_the_best(log) -> None:
    scene, _ = log
    scene.begin()
    scene.store(trial(0, TrialState.COMPLETE, 0.2, 900))
    broken = trial(1, TrialState.COMPLETE, 0.9, 900)
    scene.store(replace(broken, violations={"train/seconds<=600": 20.0}))
    assert scene.display.best.id == 0


def test_what_an_earlier_start_did_is_one_line(log) -> None:
    scene, text = log
    curve = {100: 0.8, 300: 0.8, 900: 0.8}
    scene.runs[0] = stored(trial(0, TrialState.COMPLETE, 0.8, 900), curve)
    scene.runs[1] = stored(trial(1, TrialState.RUNNING, 0.8, 300), {100: 0.8, 300: 0.8})
    final = stored(trial(0, TrialState.COMPLETE, 0.8, 900), curve)
    scene.finals[0, 1] = replace(final, trial=0, seed=1)
    scene.begin()
    assert len(text.getvalue().splitlines()) == 4
    assert "complete at an earlier start: direction/accuracy 80.0 %" in text.getvalue()
    assert "seed 1 done at an earlier start: direction/accuracy 80.0 %" in text.getvalue()
    scene.store(trial(1, TrialState.COMPLETE, 0.8, 900), curve)
    assert "trial 1 at 900 examples: direction/accuracy 80.0 %" in text.getvalue()
    assert "trial 1 at 300 examples" not in text.getvalue()


def test_the_line_of_a_population_says_its_members(log) -> None:
    scene, text = log
    scene.begin(scheduler="population of 4", rungs=[])
    assert "4 trials of a population of 4, 900 examples a member" in text.getvalue()


def test_a_trial_of_another_study_is_none_of_those_planned(log) -> None:
    scene, text = log
    scene.begin()
    taken = replace(trial(0, TrialState.COMPLETE, 0.8, 900), source="old/3")
    scene.store(taken, {900: 0.8})
    assert "trial 0 complete in old/3: direction/accuracy 80.0 %" in text.getvalue()
    assert len(text.getvalue().splitlines()) == 2
    scene.store(trial(1, TrialState.RUNNING, 0.7, 100), {100: 0.7})
    assert "best 80.0 %, trial 0; 0 of 4 trials done" in text.getvalue()


def test_more_ended_trials_than_are_planned_are_counted_alone(log) -> None:
    """Fewer trials than before may be planned to change the finals only."""
    scene, text = log
    scene.begin(trials=1)
    for number in (0, 1):
        scene.store(trial(number, TrialState.COMPLETE, 0.8, 900), {900: 0.8})
    scene.store(trial(2, TrialState.RUNNING, 0.7, 100), {100: 0.7})
    assert "best 80.0 %, trial 0; 2 trials done" in text.getvalue()


def lines_of(text: io.StringIO) -> list[str]:
    return [line.partition("] ")[2] for line in text.getvalue().splitlines()]


def test_a_log_that_was_quiet_for_a_while_gets_a_line_on_all_that_is_at_work(log) -> None:
    scene, text = log
    scene.begin()
    for number in range(4):
        scene.store(trial(number, TrialState.RUNNING))
    scene.final(0, 1, trial(4, TrialState.RUNNING, examples=300), {300: 0.7})
    scene.beats = {
        "0000": Beat(phase="training", examples=512, loss=0.41234, rate=310.4, done=16, total=28),
        "0001": Beat(phase="validating", examples=300, loss=0.5, rate=290.0, done=3, total=12),
        "0002": Beat(phase="loading", waits="MLflow"),
        "finalist-0000-seed-1": Beat(phase="saving", examples=928),
    }
    before = len(lines_of(text))
    scene.now = QUIET_SECONDS - 1
    scene.display.look()
    assert len(lines_of(text)) == before
    scene.now = QUIET_SECONDS
    scene.display.look()
    scene.now += QUIET_SECONDS - 1
    scene.display.look()
    assert lines_of(text)[before:] == [
        "trial 0 training, 512 of 900 examples, loss 0.4123, 310 examples/s; "
        "trial 1 validating 3/12, 300 of 900 examples, loss 0.5; "
        "trial 2 waiting for MLflow; "
        "trial 3 starting; "
        "trial 0, seed 1 saving, 900 of 900 examples (0 of 4 trials done; about 0:32 left)"
    ]
    scene.store(trial(0, TrialState.RUNNING, 0.8, 100), {100: 0.8})  # another line
    scene.now += QUIET_SECONDS - 1
    scene.display.look()
    assert len(lines_of(text)) == before + 2
    scene.now += 1
    scene.display.look()
    assert len(lines_of(text)) == before + 3


def test_nothing_is_said_where_nothing_is_at_work(log) -> None:
    scene, text = log
    scene.begin()
    scene.store(trial(0, TrialState.COMPLETE, 0.8, 900), {900: 0.8})
    before, scene.now = len(lines_of(text)), 10 * QUIET_SECONDS
    scene.display.look()
    assert len(lines_of(text)) == before


@pytest.mark.parametrize("phase", ["loading", "tokenising", "training", "decoding", "saving"])
def test_every_phase_has_its_word(log, phase: str) -> None:
    scene, text = log
    scene.begin()
    scene.store(trial(0, TrialState.RUNNING))
    scene.beats, scene.now = {"0000": Beat(phase=phase, done=2, total=7)}, QUIET_SECONDS
    scene.display.look()
    position = "" if phase == "training" else " 2/7"
    assert lines_of(text)[-1].startswith(f"trial 0 {phase}{position}, 0 of 900 examples")


def screen_of(width: int, height: int = 40, **plan: int) -> tuple[Scene, Console]:
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, record=True
    )
    scene = Scene(console)
    scene.begin(**plan)
    return scene, console


def drawn(scene: Scene, console: Console) -> list[str]:
    """The lines that stand on the terminal."""
    console.export_text()
    console.print(scene.display.screen())
    return console.export_text(clear=True).splitlines()


def at_work(scene: Scene) -> None:
    """Two trials have ended, two are at work, and a finalist."""
    scene.beats = {
        "0002": Beat(phase="training", examples=450, loss=0.41234, rate=15.4, done=16, total=28),
        "0003": Beat(phase="validating", examples=100, loss=0.5, rate=29.0, done=3, total=12),
        "finalist-0001-seed-1": Beat(phase="training", examples=450, rate=1234.0),
    }
    scene.store(trial(0, TrialState.PRUNED, 0.31, 100), {100: 0.31})
    scene.store(trial(1, TrialState.COMPLETE, 0.81, 900), {100: 0.5, 300: 0.7, 900: 0.81})
    known = {"train/seconds": 10.0, "train/examples_per_second": 20.0, METRIC: 0.9}
    scene.runs[2] = replace(
        stored(trial(2, TrialState.RUNNING, 0.9, 100)), record=replace(
            trial(2, TrialState.RUNNING, 0.9, 100), curve={100: known}
        )
    )  # fmt: skip
    scene.store(trial(3, TrialState.RUNNING))
    scene.final(1, 1, trial(0, TrialState.RUNNING, 0.9, 300), {300: 0.9})


def test_a_terminal_shows_a_bar_for_each_run_and_one_line_for_the_study() -> None:
    scene, console = screen_of(100)
    at_work(scene)
    scene.now = 65.0
    table, ended, best, space, *bars, line = drawn(scene, console)
    assert space == ""
    assert table.split()[:3] == ["trial", "state", METRIC]
    assert "stopped early" in ended
    assert best.split()[:4] == ["1", "complete", "81.0", "%"]
    assert [bar[:15].rstrip() for bar in bars] == ["trial 2", "trial 3", "trial 1, seed 1"]
    assert [bar[15:].split()[0] for bar in bars] == ["training", "validating", "training"]
    assert "450/900" in bars[0]
    assert "loss 0.4123" in bars[0]
    assert "15/s" in bars[0]
    assert "validating 3/12" in bars[1]
    assert "29/s" not in bars[1], "a run that validates trains nothing"
    assert "1,234/s" in bars[2]
    assert bars[0].count("┿") == 2, "a mark for each rung"
    done, to_come = bars[0].count("━"), bars[0].count("─")
    assert abs(done + 2 - to_come) <= 1, "half of the budget"
    # trial 2: 450 examples at some 17 a second, and two validations of 5 s
    assert bars[0].split()[-1] == "0:35"
    assert line.startswith("1:05 elapsed (best 90.0 %, trial 2; 2 of 4 trials done; about ")
    assert line.endswith(" left)")


def test_the_best_trial_is_highlighted_at_work_and_ended() -> None:
    scene, console = screen_of(100)
    scene.store(trial(0, TrialState.COMPLETE, 0.8, 900), {900: 0.8})
    scene.store(trial(1, TrialState.RUNNING, 0.7, 100), {100: 0.7})
    console.print(scene.display.screen())
    styled = console.export_text(styles=True, clear=True).splitlines()
    (row,) = [line for line in styled if "80.0 %" in line and "elapsed" not in line]
    assert row.startswith("\x1b[1m"), "bold"
    scene.store(trial(1, TrialState.RUNNING, 0.9, 300), {300: 0.9})
    console.print(scene.display.screen())
    styled = console.export_text(styles=True, clear=True).splitlines()
    (bar,) = [line for line in styled if "trial 1" in line and "elapsed" not in line]
    assert bar.startswith("\x1b[1;32mtrial 1"), "bold and green"


@pytest.mark.parametrize("examples", [900, 27_000, 25_600_000])
def test_nothing_is_cut_at_80_columns(examples: int) -> None:
    scene, console = screen_of(80, max_examples=examples, trials=128)
    at_work(scene)
    scene.store(trial(127, TrialState.RUNNING))
    scene.beats["0127"] = Beat(
        phase="validating", examples=examples, loss=0.123456, done=1_234, total=5_678, rate=12_345.6
    )
    scene.final(101, 12, trial(3, TrialState.RUNNING), {})
    lines = drawn(scene, console)
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    shown = "\n".join(" ".join(line.split()) for line in lines)
    for text in ("trial 127 validating 1,234/5,678", "trial 101, seed 12 starting", "15/s"):
        assert text in shown
    assert "best 90.0 %, trial 2; 2 of 128 trials done" in shown


def test_many_runs_fit_a_low_terminal() -> None:
    scene, console = screen_of(80, height=24, trials=100)
    for number in range(30):
        scene.store(trial(number, TrialState.COMPLETE, 0.9 - number / 100, 900))
    for number in range(30, 60):
        scene.store(trial(number, TrialState.RUNNING))
    lines = drawn(scene, console)
    assert len(lines) <= 24
    assert "and 21 more at work" in lines
    numbers = [line.split()[0] for line in lines if "complete" in line]
    assert numbers[0] == "0", "the best one stays"
    assert numbers[-1] == "29"


def test_without_a_terminal_no_bar_is_drawn(log) -> None:
    scene, text = log
    scene.begin()
    with scene.display.shown():
        scene.store(trial(0, TrialState.RUNNING))
    assert lines_of(text)[1:] == ["trial 0 started: batch_size=32"]
    assert "\x1b" not in text.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (75, "1:15"),
        (4000, "1:06:40"),
        (-20, "-0:20"),
        (-4000, "-1:06:40"),
        (-0.2, "0:00"),
    ],
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_figures_are_written_the_same_everywhere() -> None:
    assert percent(0.93125) == "93.1 %"
    assert percent(0.9, 0.004) == "90.0 ± 0.4 %"
    assert percent(None) == "-"
    assert short({"learning_rate": 0.000123456, "pooling": "cls"}) == (
        "learning_rate=0.000123, pooling=cls"
    )
