"""The time left: the work that is left at measured costs, and recorded studies seen again."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sentune.beats import Beat
from sentune.job.time_left import SLOWER, PlannedWork, TimeLeft, shown_left
from sentune.records import TrialRecord, TrialState
from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import Capacity, Node
from sentune.study.planning.plan import make_plan
from sentune.study.space.objectives import Objective
from sentune.study.space.space import SearchSpace, Uniform
from sentune.study.store.study_index import StudyPlace
from sentune.study.store.study_view import StoredRun, StudySnapshot
from tests.job.recorded_study import FOLDER, frames

WORK = PlannedWork(trials=2, finals=0, concurrent=1, milestones=(100, 300))
RECORDED = sorted(file.stem for file in FOLDER.glob("*.json"))


def run(
    number: int,
    *,
    process: float = 5.0,
    validation: float = 4.0,
    upto: int = 300,
    ended: bool = True,
    seed: int | None = None,
) -> StoredRun:
    """A run of 20 examples a second; its milestones validate, and its process comes up before."""
    curve, times, seconds, before = {}, {}, 0.0, 0
    for at in (at for at in WORK.milestones if at <= upto):
        seconds += (at - before) / 20 + validation
        curve[at] = {"train/seconds": seconds, "train/examples_per_second": 20.0}
        times[at], before = round(1000 * (process + seconds)), at
    record = TrialRecord(
        id=number, state=TrialState.COMPLETE if ended else TrialState.RUNNING, settings={},
        curve=curve, examples=before, seconds=seconds,
    )  # fmt: skip
    return StoredRun(
        trial=number, seed=seed, record=record, times=times, ended=1 if ended else None
    )


def study(*runs: StoredRun) -> StudySnapshot:
    return StudySnapshot(
        place=StudyPlace(name="s", folder="", url=""),
        objectives=(Objective("task/metric"),),
        runs=tuple(run for run in runs if run.seed is None),
        finals=tuple(run for run in runs if run.seed is not None),
    )


def told(
    *runs: StoredRun, work: PlannedWork = WORK, beats: dict[str, Beat] | None = None
) -> float | None:
    left = TimeLeft(work=work, clock=lambda: 0.0)
    left.look(study(*runs), beats or {})
    return left.seconds


def test_training_validation_and_starts_are_measured_apart() -> None:
    costs = TimeLeft(work=WORK).measured([run(0), run(1, process=1.0)], [], {})
    assert costs is not None
    assert costs.example == pytest.approx(1 / 20)
    assert costs.validation == pytest.approx(4.0)
    assert (costs.process, costs.start) == (pytest.approx(5.0), pytest.approx(1.0))


def test_a_pause_between_two_drivers_is_no_start_of_a_process() -> None:
    """Interrupted before its first milestone, an hour before this driver went on with it."""
    hour, now = 3_600_000, 0.0
    before = run(0, upto=100, ended=False)
    before = replace(before, times={100: before.times[100] + hour})
    left = TimeLeft(work=replace(WORK, trials=1), clock=lambda: now, since=hour)
    left.look(study(before), {"0000": Beat()})
    now = 7.0
    left.look(study(before), {"0000": Beat(phase="training", examples=100, rate=20.0)})
    assert left.seconds == pytest.approx(200 / 20 + 4)
    own = replace(run(1, process=1.0), began=hour)
    own = replace(own, times={at: hour + time for at, time in own.times.items()})
    costs = left.measured([before, own], [], {})
    assert costs is not None
    assert (costs.process, costs.start) == (pytest.approx(7.0), pytest.approx(1.0))


def test_before_a_validation_its_rows_are_taken_to_cost_what_examples_do() -> None:
    first, work = run(0, upto=0, ended=False), replace(WORK, trials=1, judged=40)
    beat = Beat(phase="training", examples=50, rate=20.0)
    left = 250 / 20 + 2 * 40 / 20
    assert told(first, work=work, beats={"0000": beat}) == pytest.approx(left)
    few = replace(beat, examples=20)  # the first steps tell little
    assert told(first, work=work, beats={"0000": few}) is None
    assert told(first, work=work) is None


def test_the_start_of_the_next_trials_process_is_known_once_one_trains() -> None:
    now = 0.0
    work = replace(WORK, trials=3, concurrent=2, reused=False)
    left, first = TimeLeft(work=work, clock=lambda: now), run(0, upto=0, ended=False)
    left.look(study(first), {"0000": Beat()})
    assert left.seconds is None
    now = 9.0  # for two and a half seconds of which it has trained
    left.look(study(first), {"0000": Beat(phase="training", examples=50, rate=20.0)})
    assert left.seconds == pytest.approx(250 / 20 + (9 - 2.5) + 300 / 20)


def test_a_run_at_work_still_needs_its_own_rest() -> None:
    first = run(0, upto=100, ended=False)
    work = replace(WORK, trials=1)
    training = Beat(phase="training", examples=150, rate=20.0)
    assert told(first, work=work, beats={"0000": training}) == pytest.approx(150 / 20 + 4)
    slower = Beat(phase="training", examples=150, rate=10.0)
    slow = told(first, work=work, beats={"0000": slower})
    assert slow is not None
    assert 150 / 20 + 4 < slow < 150 / 10 + 4
    half = Beat(phase="validating", examples=300, rate=20.0, done=3, total=6)
    assert told(first, work=work, beats={"0000": half}) == pytest.approx(2)
    fits = (Beat(phase="training", examples=examples) for examples in (0, 300))
    assert len({told(first, work=work, beats={"0000": beat}) for beat in fits}) == 1, "no rate"
    saving = Beat(phase="saving", examples=300)
    assert told(first, work=work, beats={"0000": saving}) == pytest.approx(0)


def test_coming_trials_share_the_places_and_finals_follow_in_new_processes() -> None:
    whole = 300 / 20 + 2 * 4
    work = replace(WORK, trials=4, finals=1, concurrent=2)
    # two trials at a time, after two that have measured a start of 5 s; then the finals
    assert told(run(0), run(1), work=work) == pytest.approx(whole + (5 + whole))
    assert told(run(0), run(1), run(9, seed=1), work=work) == pytest.approx(0)


def test_a_trial_passes_a_rung_as_often_as_the_scheduler_lets_one_pass() -> None:
    stopped = [replace(run(n, upto=100), trial=n) for n in range(3)]
    work = replace(WORK, trials=4, chances={100: 1 / 3})
    to_rung, from_rung = 100 / 20 + 4, 200 / 20 + 4
    start = 5.0  # of the later ones, as that of the first
    assert told(*stopped, work=work) == pytest.approx(start + to_rung + from_rung / 3, rel=0.05)


@pytest.mark.parametrize(
    ("scheduler", "chances"),
    [
        ("asha", {100: 0.42, 300: 0.8214}),
        ("asha-promotion", {100: 0.355, 300: 0.3803}),
        ("hyperband", {100: 0.685, 300: 0.9197}),
        ("median", {200: 0.6, 300: 0.8, 400: 0.9688}),
    ],
)
def test_the_chances_at_rungs_are_those_of_the_plan(
    scheduler: str, chances: dict[int, float]
) -> None:
    config = StudyConfig(name="s", storage="studies", max_examples=900, scheduler=scheduler)
    space = SearchSpace(method="toy", objective="toy/score", settings={"rate": Uniform(0.0, 1.0)})
    plan = make_plan(config, space, Capacity.fixed(Node(cpus=2)))
    left = TimeLeft.of_plan(config, space, plan.to_dict(), judged=0)
    assert left is not None
    assert left.since > 0, "when this driver began"
    found = {at: share for at, share in left.work.chances.items() if share < 1}
    assert found == pytest.approx(chances, abs=1e-4)
    assert found.keys() <= set(plan.rungs)
    reached = config.search_scheduler(space).expected(config.trials)
    assert math.prod(left.work.chances.values()) == pytest.approx(reached[900] / config.trials)


def test_what_is_shown_does_not_grow_until_work_is_slower_by_half() -> None:
    shown = shown_left(None, 100.0)
    assert shown == 100.0
    for left in (104.0, 120.0, 90.0, 115.0):
        before, shown = shown, shown_left(shown, left)
        assert shown <= before
    assert shown_left(shown, 3 * SLOWER * 100.0) == 3 * SLOWER * 100.0


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_studies_are_told_within_30_percent_and_never_grow(name: str) -> None:
    """From a quarter of the way on, or 5 % of the whole where less than a sixth of it is left."""
    work, course = frames(name)
    now = 0.0
    left = TimeLeft(work=work, clock=lambda: now)
    end, before, seen = course[-1][0], float("inf"), 0
    for seconds, snapshot, beats in course:
        now = seconds
        left.look(snapshot, beats)
        if left.seconds is None:
            continue
        assert left.seconds <= before + 0.5, f"it grows at {seconds:.0f} s"
        before = left.seconds
        if seconds >= end / 4:
            true, seen = end - seconds, seen + 1
            error = abs(left.seconds - true)
            assert error <= max(0.3 * true, 0.05 * end), f"at {seconds:.0f} of {end:.0f} s"
    assert seen > 10


def test_there_are_recorded_studies() -> None:
    assert len(RECORDED) >= 2
