"""Which studies there are, and how they stand, read without a driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from study_folders import OBJECTIVE, SPACE, TRIALS, make_study, trial_of

from sentune import records
from sentune.errors import InvalidValue
from sentune.study.config import StudyConfig
from sentune.study.planning.cluster_doctor import marked
from sentune.study.space.objectives import Objective
from sentune.study.store import driver_lock, trial_codec
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.driver_process import Driver
from sentune.study.store.file_lock import LOCK_FILE, FileLock
from sentune.study.store.storage import open_storage
from sentune.study.store.study_index import StudyPlace, every_study, find_study, is_database
from sentune.study.store.study_view import StoredRun, StudySnapshot, StudyView
from sentune.study.store.trial_codec import MEMORY, PARENT, record_of

FINALS = ((2, 1, 0.31), (2, 2, 0.35), (0, 1, 0.5))
TOLD: dict[str, Any] = {"options": {"trials": 30}, "space": SPACE.to_dict(), "started": ""}


def view(storage: Path, name: str = "toy") -> StudyView:
    return StudyView(find_study(str(storage), name))


@contextmanager
def driven_by(storage: Path, **changes: str) -> Iterator[None]:
    """The study's lock in the hands of another driver than this process."""
    lock = FileLock(storage / "toy" / LOCK_FILE)
    assert lock.lock()
    lock.begin(replace(Driver.current(), **changes))
    yield
    lock.unlock()


def test_a_snapshot_counts_what_the_study_ran_itself(tmp_path: Path):
    make_study(tmp_path, finals=FINALS, told=TOLD)
    found = view(tmp_path).snapshot()
    assert found.counts == {"complete": 2, "pruned": 1, "failed": 1, "running": 1}
    assert (found.ended, found.planned) == (4, 30)
    assert found.taken_over == 1
    assert found.best is not None
    assert found.best.id == 5, "also where another study ran it"
    assert found.best.metrics[OBJECTIVE] == pytest.approx(1.0)
    own = [t for t in TRIALS if not {"twin", "warm_from"} & set(t.user_attrs)]
    examples = sum(max(t.intermediate_values) for t in own) + 900 * len(FINALS)
    assert found.spent.examples == examples
    assert found.spent.gpu_hours == pytest.approx(examples / 10 * 2 / 3600)
    assert found.spent.trials == 5


def test_a_trial_that_found_no_memory_was_not_stopped_early(tmp_path: Path):
    early = trial_of(0.1, state=TrialState.PRUNED, examples=100)
    without = trial_of(0.2, state=TrialState.PRUNED, examples=100)
    without.system_attrs = {f"constraints:{MEMORY}": 1.0}
    make_study(tmp_path, trials=(trial_of(0.5), early, without), told=TOLD)
    seen = view(tmp_path)
    assert seen.snapshot().counts == {"complete": 1, "pruned": 1, "infeasible": 1}
    assert [t.state.value for t in seen.snapshot().trials] == ["complete", "pruned", "infeasible"]


def test_of_a_trial_that_went_on_the_later_part_is_the_best_so_far(tmp_path: Path):
    early = trial_of(0.1, state=TrialState.PRUNED, examples=300)
    later = trial_of(0.1, state=TrialState.RUNNING, examples=300, notes={PARENT: 0})
    make_study(tmp_path, trials=(early, later), told=TOLD)
    leading = view(tmp_path).snapshot().leading
    assert leading is not None
    assert leading.id == 1


def test_the_best_trial_holds_every_constraint(tmp_path: Path):
    broken = trial_of(0.3)
    broken.system_attrs = {"constraints:train/seconds<=600": 5.0}
    make_study(tmp_path, trials=(trial_of(0.5), broken), told=TOLD)
    assert [trial.id for trial in view(tmp_path).snapshot().ranked] == [0]


def test_the_totals_are_those_of_the_records(tmp_path: Path):
    make_study(tmp_path)
    seen = view(tmp_path)
    records = seen.snapshot().trials
    assert [r.id for r in records] == [0, 1, 2, 4, 5, 6]
    assert [r.source for r in records if r.source] == ["older/8"]
    records = [r for r in records if not r.source]
    spent = seen.snapshot().spent
    assert spent.examples == sum(r.examples for r in records)
    assert spent.gpu_hours == pytest.approx(sum(r.gpu_seconds for r in records) / 3600)
    assert records[0] == record_of(optuna.load_study(
        study_name="toy", storage=seen.storage).trials[0], seen.snapshot().objective)  # fmt: skip


def test_of_many_trials_those_that_run_the_best_and_the_latest_are_shown(tmp_path: Path):
    many = tuple(trial_of(0.9 - number / 1000) for number in range(22))
    running = trial_of(0.8, state=TrialState.RUNNING)
    best = trial_of(0.3)
    make_study(tmp_path, trials=(running, best, *many))
    shown = [record.id for record in view(tmp_path).snapshot().shown(12)]
    assert len(shown) == 12
    assert shown[:2] == [0, 1]
    assert shown[-7:] == list(range(17, 24))
    assert len(view(tmp_path).snapshot().trials) == 24


def test_finalists_so_far(tmp_path: Path):
    make_study(tmp_path, finals=FINALS)
    first, second = view(tmp_path).snapshot().finalists
    assert (first.trial, first.seeds) == (2, [1, 2])
    assert first.metrics[OBJECTIVE].mean == pytest.approx(0.97)
    assert first.metrics[OBJECTIVE].sd == pytest.approx(0.04 / 2**0.5)
    assert (second.trial, second.metrics[OBJECTIVE].sd) == (0, 0.0)
    assert first.gpu_seconds == pytest.approx(2 * 90 * 2)


def test_who_holds_the_lock_says_how_a_study_stands(tmp_path: Path):
    make_study(tmp_path, summary={"state": "stopped", "reason": "2 hours"})
    seen = view(tmp_path)
    assert (seen.snapshot().state, seen.snapshot().reason) == ("stopped", "2 hours")
    with DriverLock(seen.place.url, "toy", beat=3600):
        found = seen.snapshot()
        assert found.alive
        assert found.holder is not None
        assert found.holder.driver == Driver.current()
    assert seen.snapshot().state == "stopped"

    with driven_by(tmp_path, started="1"):
        assert seen.snapshot().state == "interrupted"
        assert "its driver died" in seen.snapshot().reason


def test_a_driver_elsewhere_that_is_not_heard_of_is_silent(tmp_path: Path, monkeypatch: Any):
    make_study(tmp_path)
    with driven_by(tmp_path, host="elsewhere"):
        assert view(tmp_path).snapshot().state == "running"
        monkeypatch.setattr(driver_lock, "EXPIRY", -1.0)
        assert view(tmp_path).snapshot().state == "silent"
    assert view(tmp_path).snapshot().state == "interrupted", "its machine has let the lock go"


@pytest.mark.parametrize(
    ("summary", "trials", "state"),
    [
        (None, (), "new"),
        (None, TRIALS, "interrupted"),
        ({"state": "running"}, TRIALS, "interrupted"),
        ({"state": "complete"}, TRIALS, "complete"),
        ({"state": "failed", "reason": "too many"}, TRIALS, "failed"),
    ],
)
def test_states_without_a_driver(tmp_path: Path, summary: Any, trials: Any, state: str):
    make_study(tmp_path, trials=trials, summary=summary)
    assert view(tmp_path).snapshot().state == state


@pytest.mark.parametrize(("generation", "state"), [(1, "complete"), (2, "interrupted")])
def test_a_start_that_ended_without_a_summary_leaves_the_study_interrupted(
    tmp_path: Path, generation: int, state: str
):
    """Its summary is that of an earlier start."""
    summary = {"state": "complete", "lineage": {"generation": 1}}
    make_study(tmp_path, summary=summary, told={"generation": generation})
    assert view(tmp_path).snapshot().state == state


def test_studies_are_found_in_folders_and_in_databases(tmp_path: Path):
    shared = f"sqlite:///{tmp_path / 'shared.db'}"
    storage = tmp_path / "studies"
    make_study(storage, "own")
    make_study(storage, "shared", url=shared, told={"options": {"optuna": shared}}, finals=FINALS)
    (storage / "no-study").mkdir()
    (storage / "damaged").mkdir()
    (storage / "damaged" / "study.json").write_text("{")

    places = {place.name: place for place in every_study(str(storage))}
    assert list(places) == ["damaged", "own", "shared"]
    assert places["shared"].url == shared
    assert "study.json is damaged" in places["damaged"].trouble
    assert StudyView(places["damaged"]).snapshot().state == "new"
    assert StudyView(places["shared"]).snapshot().ended == 4

    (alone,) = every_study(shared)
    assert (alone.name, alone.folder) == ("shared", ""), "its finals are no study"
    best = StudyView(alone).snapshot().best
    assert best is not None
    assert best.id == 5


@pytest.mark.parametrize("storage", ["~/studies", "file://{home}/studies", "{home}/studies/"])
def test_a_storage_is_the_same_folder_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str
):
    monkeypatch.setenv("HOME", str(tmp_path))
    written = storage.format(home=tmp_path)
    make_study(tmp_path / "studies", told=TOLD)
    found = find_study(written, "toy")
    assert (found.folder, found.url) == (
        f"{tmp_path}/studies/toy",
        f"{tmp_path}/studies/toy/optuna.journal",
    )
    assert StudyConfig(name="toy", storage=written, max_examples=900).folder == found.folder
    with marked(written) as mark:
        assert Path(mark).parent == tmp_path / "studies"


def test_a_study_or_storage_that_there_is_not(tmp_path: Path):
    make_study(tmp_path)
    with pytest.raises(InvalidValue, match=r"the studies in .* are: toy"):
        find_study(str(tmp_path), "tpy")
    with pytest.raises(InvalidValue, match=r"--storage.*no such folder"):
        every_study(str(tmp_path / "nowhere"))
    with pytest.raises(InvalidValue, match="no such file"):
        every_study(f"sqlite:///{tmp_path}/nothing.db")
    with pytest.raises(InvalidValue, match="no such file"):
        every_study(f"sqlite+pysqlite:///{tmp_path}/nothing.db")
    assert not (tmp_path / "nothing.db").exists()
    assert is_database("postgres://host/studies")


def test_trials_that_a_population_plans_are_its_segments(tmp_path: Path):
    make_study(tmp_path, told={"options": {"trials": 8, "population": 4, "generations": 5}})
    assert view(tmp_path).snapshot().planned == 20


def test_a_database_alone_does_not_tell_how_a_study_ended(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    make_study(tmp_path, url=url, summary={"state": "complete"})
    (place,) = every_study(url)
    state = StudyView(place).snapshot()
    assert (state.state, "--storage" in state.reason) == ("unknown", True)


def test_a_database_with_settings_of_the_connection_is_found(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/own.db?timeout=5"
    optuna.create_study(storage=url, study_name="toy")
    assert [place.name for place in every_study(url)] == ["toy"]


def test_a_run_that_has_not_changed_is_read_once(tmp_path: Path, monkeypatch: Any):
    """Why looking at 10,000 trials again costs what has changed, counted in trials."""
    make_study(tmp_path, trials=(*(trial_of(i / 40) for i in range(40)),
                                 trial_of(0.5, state=TrialState.RUNNING),
                                 trial_of(0.6, state=TrialState.RUNNING)))  # fmt: skip
    seen, read, inner = view(tmp_path), [], trial_codec.record_of

    def counting(trial: Any, objective: Any) -> Any:
        read.append(trial.number)
        return inner(trial, objective)

    monkeypatch.setattr(trial_codec, "record_of", counting)
    first = seen.snapshot()
    assert len(read) == 42
    storage = open_storage(str(tmp_path / "toy" / "optuna.journal"), driver=True)
    study = storage.get_study_id_from_name(seen.place.name)
    number = storage.get_trial_id_from_study_id_trial_number(study, 41)
    storage.set_trial_state_values(number, TrialState.FAIL)
    again = seen.snapshot(driven=True)
    assert read[42:] == [41]
    assert [run is other for run, other in zip(first.runs, again.runs, strict=True)] == (
        [True] * 41 + [False]
    )


def test_a_run_that_goes_on_is_read_again(tmp_path: Path):
    make_study(tmp_path)
    seen = view(tmp_path)
    before = seen.snapshot()
    storage = open_storage(str(tmp_path / "toy" / "optuna.journal"), driver=True)
    study = storage.get_study_id_from_name(seen.place.name)
    number = storage.get_trial_id_from_study_id_trial_number(study, 6)
    said = {"metrics": {OBJECTIVE: 0.7}, "readouts": {}, "seconds": 3.0, "time": 1_000.5}
    storage.set_trial_user_attr(number, "milestone:000000000300", said)
    storage.set_trial_state_values(number, TrialState.FAIL)
    (was,), (now,) = ([r for r in s.runs if r.trial == 6] for s in (before, seen.snapshot()))
    assert (was.record.state, was.ended, max(was.times)) == ("running", None, 100)
    assert (now.record.state, now.record.examples) == ("failed", 300)
    assert now.times[300] == 1_000_500, "UTC milliseconds, as the milestone says"
    assert now.ended is not None
    assert now.times[100] == now.ended, "an older milestone has no time of its own"


def test_what_lies_in_the_folder_is_part_of_a_snapshot(tmp_path: Path):
    folder = make_study(tmp_path, finals=FINALS)
    for run in ("0002", "finalist-0002-seed-1"):
        (folder / "trials" / run).mkdir(parents=True)
        (folder / "trials" / run / "readouts.json").write_text("{}")
    (folder / "trials" / "0000").mkdir()
    read = {"run": "0002", "test": [], "time": "2026-01-02T03:04:05+00:00", "forced": False}
    (folder / "test_reads.json").write_text(json.dumps([read]))
    found = view(tmp_path).snapshot()
    assert {run.name for run in (*found.runs, *found.finals) if run.name in found.tables} == {
        "0002", "finalist-0002-seed-1"}  # fmt: skip
    assert found.test_reads == [read]


def test_a_finalist_has_the_readouts_of_its_best_seed():
    def run(seed: int, value: float, alpha: float) -> StoredRun:
        record = records.TrialRecord(
            id=seed,
            state=records.TrialState.COMPLETE,
            settings={},
            metrics={OBJECTIVE: value},
            readouts={"alpha": alpha},
        )
        return StoredRun(trial=2, seed=seed, record=record)

    place = StudyPlace(name="toy", folder="", url="")
    objective = Objective(OBJECTIVE)
    finals = (run(1, 0.5, 0.1), run(2, 0.9, 0.2), run(3, 0.7, 0.3))
    seen = StudySnapshot(place=place, objectives=(objective,), finals=finals)
    assert [finalist.readouts for finalist in seen.finalists] == [{"alpha": 0.2}]
