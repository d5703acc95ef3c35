"""A study in its store: states, reasons, copies, and kills at every kind of moment."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from toys import HALVING, OBJECTIVE, PROMOTION, SPACE, Given, Killed, open_store, play, table

from sentune.errors import StudyConflict
from sentune.launchers.trial_report import Report
from sentune.records import TrialState
from sentune.study.runner.trial_source import SearchSource
from sentune.study.schedulers import Scheduler
from sentune.study.space.objectives import Objective
from sentune.study.space.space import Choice, SearchSpace
from sentune.study.store.storage import open_storage, open_study
from sentune.study.store.trial_codec import TWIN
from sentune.study.store.trial_store import TrialStore


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """The table of a study that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    store = open_store(folder)
    play(store, folder)
    return table(store)


def test_a_study_has_every_planned_trial_and_starts_with_the_published_point(whole):
    assert len(whole) == 12
    assert whole[0][3] == SPACE.published
    assert whole[0][1] == TrialState.COMPLETE


def test_stopped_trials_are_pruned_and_keep_their_curve(whole):
    stopped = [row for row in whole if row[1] == TrialState.PRUNED]
    assert stopped
    for _, _, reason, _, _, metrics, examples, curve in stopped:
        assert examples in HALVING.rungs
        assert list(curve) == [rung for rung in HALVING.rungs if rung <= examples]
        assert metrics[OBJECTIVE] == max(point[OBJECTIVE] for point in curve.values())
        assert f"at {examples} examples" in reason


@pytest.mark.parametrize(
    ("x", "reason"),
    [(9, f"{OBJECTIVE} is nan at 100 examples"), (8, "ValueError: eight is too much")],
)
def test_a_trial_that_cannot_go_on_fails_with_a_reason(tmp_path: Path, x: int, reason: str):
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={}, fixed={"x": x, "y": 0})
    store = open_store(tmp_path, space=space)
    play(store, tmp_path, space=space)
    (record,) = store.records()
    assert (record.state, record.reason, record.metrics) == (TrialState.FAILED, reason, {})


def test_a_reason_names_a_place_without_its_password(tmp_path: Path):
    store = open_store(tmp_path)
    number = store.create({}, {}, settings={"x": 1, "y": 0}, seed=0)
    told = "OSError: s3://ann:hush@bucket/corpus is not there"
    record = store.fail(number, told, traceback=f"Traceback ...\n{told}")
    assert record.reason == "OSError: s3://bucket/corpus is not there"
    assert "hush" not in str(store.get(number).user_attrs)


@pytest.mark.parametrize(
    ("writes", "database"),
    [(2, False), (3, False), (5, False), (11, False), (11, True), (13, True), (23, True)],
)
def test_kills_between_any_two_writes_change_nothing(
    tmp_path: Path, whole, writes: int, database: bool
):
    starts = 0
    while True:
        starts += 1
        assert starts < 1000, "a study that never gets anywhere"
        try:
            store = open_store(tmp_path, writes=writes, database=database)
            play(store, tmp_path)
            break
        except Killed:
            continue
    assert starts > 1
    assert table(store) == whole
    stored = store.study.get_trials()
    assert not [t for t in stored if not t.state.is_finished()]


@pytest.mark.parametrize("scheduler", [HALVING, PROMOTION])
@pytest.mark.parametrize("database", [False, True])
def test_a_kill_after_any_single_write_changes_nothing(
    tmp_path: Path, database: bool, scheduler: Scheduler
):
    """The driver is refused its next write, once, after each number of writes that there is."""

    def table_of(folder: Path, writes: int | None) -> tuple[bool, list[tuple[object, ...]]]:
        folder.mkdir(exist_ok=True)
        try:
            store = open_store(folder, writes=writes, database=database, scheduler=scheduler)
            play(store, folder, trials=2)
        except Killed:
            store = open_store(folder, database=database, scheduler=scheduler)
            play(store, folder, trials=2)
            assert all(t.state.is_finished() for t in store.all_trials())
            return True, table(store)
        return False, table(store)

    _, undisturbed = table_of(tmp_path / "whole", None)
    writes, killed = 0, True
    while killed:
        killed, found = table_of(tmp_path / f"killed-{writes}", writes)
        assert found == undisturbed, f"killed after {writes} writes"
        writes += 1
    assert writes > (15 if database else 6)


def test_no_configuration_is_run_twice(tmp_path: Path):
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Choice(0, 1, 2, 3, 4)},
                        fixed={"y": 0})  # fmt: skip
    store = open_store(tmp_path, space=space)
    given = Given(*({"x": x} for x in (1, 1, 2, 1, 0, 3, 4)))
    heard = play(store, tmp_path, space=space, trials=30, sampler=given)
    started = Counter(number for number, _, examples in heard.said if not examples)
    assert len(started) == 5, "the space is used up after its five points"
    assert set(started.values()) == {1}
    copies = [t for t in store.study.get_trials() if TWIN in t.user_attrs]
    assert len(copies) == 2, "asked for again, and answered from the store"
    for copy in copies:
        twin = store.get(copy.user_attrs[TWIN])
        assert (copy.state, copy.params) == (twin.state, twin.params)
        assert copy.intermediate_values == twin.intermediate_values


def test_settings_that_are_running_are_not_given_out_again(tmp_path: Path):
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Choice(1, 2)})
    store = open_store(tmp_path, space=space)
    source = SearchSource(store, space, trials=8, seed=0, sampler="random")
    given = [source.next(live=live) for live in range(3)]
    assert given[2] is None
    assert given[0] is not None
    assert given[1] is not None
    assert given[0].settings != given[1].settings
    assert not source.finished
    source.next(live=0)
    assert source.finished


def test_more_trials_than_before_go_on_where_the_study_stopped(tmp_path: Path):
    play(open_store(tmp_path), tmp_path, trials=4)
    before = table(open_store(tmp_path))
    play(open_store(tmp_path), tmp_path, trials=4)
    assert table(open_store(tmp_path)) == before
    play(open_store(tmp_path), tmp_path, trials=7)
    after = table(open_store(tmp_path))
    assert len(after) == 7
    assert after[:4] == before


def test_a_grid_is_run_in_its_order_and_once(tmp_path: Path):
    space = SPACE.narrow({"x": "1,5", "y": "2,0"})
    store = open_store(tmp_path, space=space)
    play(store, tmp_path, space=space, trials=99, sampler="grid", first=False)
    points = [(r.settings["x"], r.settings["y"]) for r in store.records()]
    assert points == [(1, 2), (1, 0), (5, 2), (5, 0)]


def test_another_world_is_refused_and_the_difference_spelled_out(tmp_path: Path):
    open_store(tmp_path)
    with pytest.raises(StudyConflict) as refused:
        open_store(tmp_path, space=SPACE.narrow({"x": "2..5"}))
    said = str(refused.value)
    assert "'toy'" in said
    assert "space.settings.x.integer: was [0, 9], is now [2, 5]" in said
    assert "space.settings.y" not in said


@pytest.mark.parametrize(
    ("was", "said"),
    [
        ({"code": "0123456789abcdef"}, "code: was recorded by another version of sentune"),
        ({"code": {"sentune/geometry/boxes.py": "1"}}, "code: another sentune/geometry/boxes.py"),
    ],
)
def test_other_code_is_refused_with_the_file_that_changed(
    tmp_path: Path, was: dict[str, Any], said: str
):
    storage = open_storage(str(tmp_path / "optuna.journal"), driver=True)
    code = {"sentune/geometry/boxes.py": "2", "sentune/geometry/base.py": "3"}
    if isinstance(was["code"], dict):
        was = {"code": {**code, **was["code"]}}
    open_study(storage, "toy", modes=["max"], fingerprint=was)
    open_study(storage, "toy", modes=["max"], fingerprint=was)
    with pytest.raises(StudyConflict) as refused:
        open_study(storage, "toy", modes=["max"], fingerprint={"code": code})
    assert said in str(refused.value)
    assert "--fork NAME" in str(refused.value)


@pytest.mark.parametrize("database", ["optuna.journal", "sqlite"])
@pytest.mark.parametrize("state", ["", "running", "failed"])
def test_a_start_that_came_to_no_milestone_does_not_refuse_the_corrected_one(
    tmp_path: Path, database: str, state: str
):
    url = f"sqlite:///{tmp_path}/o.db" if database == "sqlite" else str(tmp_path / database)
    storage = open_storage(url, driver=True)

    def opened(x: int, **options: Any) -> TrialStore:
        study = open_study(storage, "toy", modes=["max"], fingerprint={"x": x}, **options)
        return TrialStore(
            study=study, storage=storage, objectives=[Objective(OBJECTIVE)], budget=900
        )

    first = opened(1)
    if state:
        number = first.create({}, {}, settings={"x": 1}, seed=0)
        if state == "failed":
            first.fail(number, "no such file")
    with pytest.raises(StudyConflict):
        opened(2)  # a run has a folder
    second = opened(2, keeps_runs=False)
    assert second.records() == []
    number = second.create({}, {}, settings={"x": 2}, seed=0)
    assert [record.settings for record in second.records()] == [{"x": 2}]
    second.milestone(number, Report(examples=100, metrics={OBJECTIVE: 0.5}))
    with pytest.raises(StudyConflict, match="x: was 2, is now 3"):
        opened(3, keeps_runs=False)
    if database != "sqlite":
        storage.compact()
    assert [record.examples for record in second.records()] == [100], "its ids are the same"
    assert len(opened(2, keeps_runs=False).records()) == 1


def test_a_driver_corrects_what_an_earlier_one_has_begun(tmp_path: Path):
    """Each writes the number of its start into the journal, and is not taken for a late one."""
    path = str(tmp_path / "optuna.journal")
    for generation in (1, 2):
        storage = open_storage(path, driver=True)
        storage.file.generation = generation
        given = {"modes": ["max"], "fingerprint": {"x": generation}, "keeps_runs": False}
        study = open_study(storage, "toy", **given)
        study.set_user_attr("said", generation)
    assert open_storage(path).get_study_user_attrs(0) == {"fingerprint": {"x": 2}, "said": 2}


def test_a_verdict_that_was_given_stands(tmp_path: Path):
    """An orphan says its last result again, when later trials have changed what a rung asks."""
    store = open_store(tmp_path)
    source = SearchSource(store, SPACE, trials=3, seed=0, first=False)
    runs = [source.next(live=0) for _ in range(3)]

    def says(run: object, score: float) -> bool:
        report = Report(examples=100, metrics={OBJECTIVE: score})
        return bool(store.milestone(run.number, report))  # type: ignore[attr-defined]

    assert not says(runs[2], 0.1)
    assert not says(runs[0], 0.5)
    assert says(runs[1], 0.4)
    assert not says(runs[2], 0.1), "asked again it would be the last of three"
    assert store.get(runs[2].number).intermediate_values == {100: 0.1}


def test_records_come_from_the_store_alone(tmp_path: Path, whole):
    play(open_store(tmp_path), tmp_path)
    again = open_store(tmp_path)
    assert table(again) == whole
    assert [r.seconds for r in again.records()] == [r.examples / 100 for r in again.records()]
