"""Where a study's trials are kept, and a database that is away while it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError
from study_folders import AXES, OBJECTIVE, SPACE, fingerprint
from typer.testing import CliRunner

from sentune.cli import app
from sentune.errors import InvalidValue, StudyConflict
from sentune.io.databases import database_url
from sentune.job.options import JobOptions
from sentune.study.fork import fork_from
from sentune.study.store import outage
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.outage import DatabaseGone, StudyDatabase
from sentune.study.store.storage import open_storage, open_study, storage_url
from sentune.study.store.study_index import find_study
from sentune.study.store.study_view import StudyView
from sentune.study.store.trial_codec import TOKEN, TWIN
from sentune.study.store.trial_store import TrialStore

OLD = "optuna.db"


def old_trial(rate: float, *, state: TrialState, examples: int, **notes: Any) -> FrozenTrial:
    """A trial as versions before the journal stored it: verdict, cost and reason by themselves."""
    curve = {at: 1 - abs(rate - 0.3) for at in (100, 300, 900) if at <= examples}
    params = {"rate": rate, "pooling": "mean"}
    attributes: dict[str, Any] = {
        "seed": 0, "settings": {**params, "layers": 2}, **notes,
        "cost:ab": {"seconds": examples / 10, "gpus": 2.0},
    }  # fmt: skip
    for at, value in curve.items():
        said = {"metrics": {OBJECTIVE: value}, "readouts": {}, "seconds": at / 10}
        stops = state is TrialState.PRUNED and at == examples
        reason = "too little" if stops else ""
        attributes |= {f"milestone:{at:012d}": said}
        attributes |= {f"verdict:{at:012d}": {"stop": stops, "reason": reason}}
    values = [curve[900]] if state is TrialState.COMPLETE else None
    return create_trial(
        state=state, values=values, params=params, distributions=AXES, user_attrs=attributes,
        intermediate_values=dict(curve),
    )  # fmt: skip


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The storage of a study ``old`` in the layout of versions before the journal."""
    folder = tmp_path / "old"
    folder.mkdir()
    study = optuna.create_study(
        storage=RDBStorage(f"sqlite:///{folder / OLD}"), study_name="old", direction="maximize"
    )
    study.set_user_attr("world", json.loads(json.dumps(fingerprint())))
    study.add_trials(
        [
            old_trial(0.5, state=TrialState.COMPLETE, examples=900),
            old_trial(0.1, state=TrialState.PRUNED, examples=100, reason="too little"),
            old_trial(0.9, state=TrialState.FAIL, examples=300, reason="not finite", repeats=True),
            old_trial(0.7, state=TrialState.RUNNING, examples=100),
        ]
    )
    finals = optuna.create_study(
        storage=RDBStorage(f"sqlite:///{folder / OLD}"), study_name="old/finalists",
        direction="maximize",
    )  # fmt: skip
    run = old_trial(0.5, state=TrialState.COMPLETE, examples=900)
    run.user_attrs |= {"trial": 0, "seed": 1}
    finals.add_trial(run)
    options = JobOptions(study="old", storage=str(tmp_path)).model_dump(mode="json")
    told = {"job": "JobOptions", "options": options, "space": SPACE.to_dict(), "started": ""}
    (folder / "study.json").write_text(json.dumps({**told, "command": ["jobs/toy.py"]}))
    return tmp_path


def run(storage: Path, *arguments: str) -> str:
    """What a command prints."""
    done = CliRunner().invoke(app, ["study", *arguments, "--storage", str(storage)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_a_study_of_the_old_layout_is_looked_at(old: Path) -> None:
    seen = StudyView(find_study(str(old), "old")).snapshot()
    assert seen.counts == {"complete": 1, "pruned": 1, "failed": 1, "running": 1}
    assert seen.best is not None
    assert (seen.best.id, seen.best.metrics[OBJECTIVE]) == (0, pytest.approx(0.8))
    assert seen.spent.gpu_hours == pytest.approx((90 + 10 + 30 + 10 + 90) * 2 / 3600)
    records = seen.trials
    assert [record.reason for record in records] == ["", "too little", "not finite", ""]
    assert list(records[0].curve) == [100, 300, 900]
    assert seen.finalists[0].metrics[OBJECTIVE].mean == pytest.approx(0.8)
    assert "too little" in run(old, "show", "old")


def test_a_study_of_the_old_layout_is_forked(old: Path, tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path / "new.journal"), driver=True)
    study = open_study(storage, "new", modes=["max"], fingerprint=fingerprint())
    found = fork_from(
        find_study(str(old), "old"), study, json.loads(json.dumps(fingerprint())), SPACE
    )
    assert found[0] == 2
    store = TrialStore(study=study, storage=storage, objectives=StudyView(
        find_study(str(old), "old")).snapshot().objectives, budget=900)  # fmt: skip
    assert [record.source for record in store.records()] == ["old/0", "old/1"]
    assert [record.gpu_seconds for record in store.records()] == [0, 0], "paid for by the old one"


def test_a_study_of_the_old_layout_is_not_gone_on_with_and_the_fork_is_offered(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StudyConflict) as refused:
        storage_url(str(old / "old"), None)
    said = str(refused.value)
    assert "\n" not in said
    assert "made by an older version" in said
    assert "sentune study fork old NEW-NAME" in said
    assert [file.name for file in (old / "old").iterdir() if "journal" in file.name] == []
    assert storage_url(str(old / "new"), None) == str(old / "new" / "optuna.journal")


def test_a_study_is_kept_in_its_folder_or_where_its_user_says(tmp_path: Path) -> None:
    assert storage_url(str(tmp_path / "s"), "sqlite:////x.db") == "sqlite:////x.db"
    with pytest.raises(InvalidValue, match=r"--storage.*--optuna postgresql://"):
        storage_url("s3://bucket/s", None)


@pytest.mark.parametrize("installed", [{"psycopg", "psycopg2"}, {"psycopg"}, {"psycopg2"}])
@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_plain_postgresql_url_goes_to_the_driver_that_is_installed(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], scheme: str
) -> None:
    found = {"psycopg": object(), "psycopg2": object()}
    monkeypatch.setattr(
        "sentune.io.databases.find_spec",
        lambda name: found[name] if name in installed else None,
    )
    url = database_url(f"{scheme}://ann:hush@host:5433/trials?sslmode=require")
    driver = "psycopg" if "psycopg" in installed else "psycopg2"
    rest = "ann:hush@host:5433/trials?sslmode=require"
    assert url.render_as_string(hide_password=False) == f"postgresql+{driver}://{rest}"
    named = "postgresql+psycopg2://host/trials"
    assert str(database_url(named)) == named, "what the user names stays"


def test_the_url_that_our_own_message_recommends_finds_a_driver() -> None:
    pytest.importorskip("psycopg2")
    with pytest.raises(InvalidValue) as refused:
        open_storage("postgresql://ann:hush@127.0.0.1:1/trials")
    assert "refused" in str(refused.value).lower(), "by the network, not for lack of a module"
    assert "hush" not in str(refused.value)


def test_sqlite_writes_ahead(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/t.db", driver=True)
    assert isinstance(storage, StudyDatabase)
    with storage.engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 1


class Flaky:
    """A database whose next answers are lost, before or after what was asked is done."""

    def __init__(self, backend: RDBStorage) -> None:
        self._backend, self.calls = backend, 0
        self.engine: Any = SimpleNamespace(
            dialect=SimpleNamespace(name="postgresql"), url=backend.engine.url
        )
        self.lost: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._backend, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            when = self.lost.pop(0) if self.lost else ""
            if when == "key":
                raise KeyError("a defect")
            if when == "before":
                raise away()
            answer = method(*args, **kwargs)
            if when == "after":
                raise away()
            return answer

        return call


def away() -> StorageInternalError:
    """What Optuna raises where the server has gone."""
    error = StorageInternalError("An exception is raised during the commit.")
    error.__cause__ = OperationalError("select 1", {}, Exception("server closed the connection"))
    return error


@pytest.fixture
def flaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flaky:
    monkeypatch.setattr(outage, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(outage, "LONGEST_WAIT", 0.002)
    backend = RDBStorage(f"sqlite:///{tmp_path}/t.db")
    backend.create_new_study([StudyDirection.MAXIMIZE], "s")
    return Flaky(backend)


def running(**notes: Any) -> FrozenTrial:
    return create_trial(state=TrialState.RUNNING, user_attrs=notes)


@pytest.mark.parametrize("when", ["before", "after"])
def test_each_write_is_made_once_whenever_its_answer_is_lost(flaky: Flaky, when: str) -> None:
    storage: Any = StudyDatabase(flaky, driver=True)  # type: ignore[arg-type]
    storage.get_all_trials(1)
    flaky.lost = [when, when, when]
    trial = storage.create_new_trial(1, running(**{TOKEN: "t"}))
    writes: list[Callable[[], Any]] = [
        lambda: storage.set_trial_user_attr(trial, "a", 1),
        lambda: storage.set_trial_system_attr(trial, "b", 2),
        lambda: storage.set_trial_intermediate_value(trial, 100, 0.5),
        lambda: storage.set_trial_param(trial, "rate", 0.5, AXES["rate"]),
        lambda: storage.set_study_user_attr(1, "c", 3),
        lambda: storage.set_trial_state_values(trial, TrialState.COMPLETE, [0.5]),
    ]
    for write in writes:
        flaky.lost = [when, when]
        write()
    (stored,) = flaky._backend.get_all_trials(1)
    assert (stored.values, stored.params, stored.intermediate_values) == (
        [0.5],
        {"rate": 0.5},
        {100: 0.5},
    )
    assert storage.get_all_trials(1) == [stored]
    flaky.lost = [when]
    assert storage.create_new_study([StudyDirection.MAXIMIZE], "other") == 2


def test_of_a_trial_that_optuna_itself_has_created_twice_one_counts(flaky: Flaky) -> None:
    storage = StudyDatabase(flaky, driver=True)  # type: ignore[arg-type]
    storage.get_all_trials(1)
    template = running(**{TOKEN: "t"})
    inner = flaky._backend.create_new_trial

    def twice(*given: Any) -> int:
        inner(*given)
        return inner(*given)

    flaky.create_new_trial = twice  # type: ignore[attr-defined]
    trial = storage.create_new_trial(1, template)
    assert storage.get_trial_number_from_id(trial) == 0
    first, second = storage.get_all_trials(1)
    assert (first.state, second.state) == (TrialState.RUNNING, TrialState.FAIL)
    assert second.user_attrs[TWIN] == 0


def test_a_trial_of_another_driver_is_a_conflict(flaky: Flaky) -> None:
    storage = StudyDatabase(flaky, driver=True)  # type: ignore[arg-type]
    storage.get_all_trials(1)
    flaky._backend.create_new_trial(1, running(**{TOKEN: "other"}))
    with pytest.raises(StudyConflict, match="another driver has started trial 0"):
        storage.create_new_trial(1, running(**{TOKEN: "t"}))


@pytest.mark.parametrize("place", ["optuna.journal", "optuna.db"])
def test_a_driver_that_has_lost_its_lock_writes_nothing(tmp_path: Path, place: str) -> None:
    url = f"sqlite:///{tmp_path}/{place}" if place.endswith("db") else f"{tmp_path}/{place}"
    storage = open_storage(url, driver=True)
    study = storage.create_new_study([StudyDirection.MAXIMIZE], "s")
    with DriverLock(url, "s") as lock:
        storage.guard(lock)
        trial = storage.create_new_trial(study)
        lock.lost_because = "another process drives the study"
        for write in (
            lambda: storage.create_new_trial(study),
            lambda: storage.set_trial_user_attr(trial, "a", 1),
            lambda: storage.set_trial_state_values(trial, TrialState.FAIL),
        ):
            with pytest.raises(StudyConflict, match="this driver has lost its study"):
                write()
    (stored,) = open_storage(url).get_all_trials(study)
    assert (stored.state, stored.user_attrs) == (TrialState.RUNNING, {})


@pytest.mark.parametrize("error", ["key", "refusal"])
def test_what_is_no_outage_is_raised_at_once(flaky: Flaky, error: str) -> None:
    storage = StudyDatabase(flaky, driver=True)  # type: ignore[arg-type]
    if error == "key":
        flaky.lost = ["key"]
        with pytest.raises(KeyError):
            storage.get_study_user_attrs(1)
        assert flaky.calls == 1
        return
    flaky.engine.dialect.name = "sqlite"  # what a file's database says is about the file
    flaky.lost = ["before"]
    with pytest.raises(StorageInternalError):
        storage.get_study_user_attrs(1)
    assert flaky.calls == 1


def test_a_database_that_stays_away_ends_the_study(
    flaky: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "PATIENCE", 0.01)
    flaky.lost = ["before"] * 100
    with pytest.raises(DatabaseGone, match="run the same command again"):
        StudyDatabase(flaky, driver=True).get_all_studies()  # type: ignore[arg-type]


def test_who_looks_sees_what_the_driver_adds_and_reads_no_ended_trial_again(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/t.db"
    driver = open_storage(url, driver=True)
    study = driver.create_new_study([StudyDirection.MAXIMIZE], "s")
    for value in (0.1, 0.2):
        driver.create_new_trial(study, create_trial(value=value))
    looking = open_storage(url)
    assert len(looking.get_all_trials(study)) == 2
    trial = driver.create_new_trial(study)
    assert [t.state.name for t in looking.get_all_trials(study)] == ["COMPLETE"] * 2 + ["RUNNING"]
    driver.set_trial_user_attr(trial, "a", 1)
    assert looking.get_all_trials(study)[2].user_attrs == {"a": 1}
    driver.set_trial_state_values(trial, TrialState.FAIL)
    read: list[int] = []
    backend: Any = looking._backend  # type: ignore[union-attr]
    inner = backend.get_trial
    backend.get_trial = lambda trial_id: read.append(trial_id) or inner(trial_id)
    for _ in range(3):
        assert looking.get_all_trials(study) == driver.get_all_trials(study)
    assert read == [trial]


def test_a_driver_keeps_what_it_writes_as_others_read_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/t.db"
    driver = open_storage(url, driver=True)
    assert isinstance(driver, StudyDatabase)
    study = driver.create_new_study([StudyDirection.MAXIMIZE], "s")
    driver.set_study_user_attr(study, "of the study", ["old"])
    assert driver.get_study_user_attrs(study) == {"of the study": ["old"]}
    driver.set_study_user_attr(study, "of the study", ["new"])
    template = create_trial(state=TrialState.RUNNING, user_attrs={"kept": 1})
    trial = driver.create_new_trial(study, template)
    before = driver.get_all_trials(study, deepcopy=False)
    driver.get_study_user_attrs(study), driver.get_study_id_from_name("s")
    statements: list[str] = []
    driver.set_trial_user_attr(trial, "pair", (1, {"a": 0.5}))
    driver.set_trial_user_attr(trial, "kept", 2)
    driver.set_trial_intermediate_value(trial, 30, float("inf"))
    driver.set_trial_intermediate_value(trial, 10, 0.25)
    event.listen(driver.engine, "before_cursor_execute", lambda *told: statements.append(told[2]))
    known = driver.get_all_trials(study, deepcopy=False)
    attributes, place = driver.get_study_user_attrs(study), driver.get_study_id_from_name("s")
    assert not statements
    other = open_storage(url)
    assert known == other.get_all_trials(study)
    assert (attributes, place) == (other.get_study_user_attrs(study), study)
    assert before[0].user_attrs == {**template.user_attrs, "kept": 1}, "a view sees the change"
    driver.delete_study(study)
    with pytest.raises(KeyError):
        driver.get_study_id_from_name("s")


def test_nothing_is_kept_of_a_deleted_study_whose_number_the_next_one_has(tmp_path: Path) -> None:
    driver = open_storage(f"sqlite:///{tmp_path}/t.db", driver=True)
    numbers = []
    for _ in range(2):
        study = driver.create_new_study([StudyDirection.MAXIMIZE], "s")
        numbers.append(study)
        assert driver.get_all_trials(study) == []
        trials = [driver.create_new_trial(study) for _ in range(3 - len(numbers))]
        assert len(driver.get_all_trials(study)) == len(trials)
        driver.set_trial_state_values(trials[-1], TrialState.COMPLETE, [0.5])
        if len(numbers) == 1:
            driver.delete_study(study)
    assert numbers[0] == numbers[1]
    assert [trial.state for trial in driver.get_all_trials(study)] == [TrialState.COMPLETE]


@pytest.mark.parametrize("ways", [("journal", "database"), ("database", "journal")])
def test_a_study_is_exported_as_optuna_has_it(
    old: Path, tmp_path: Path, ways: tuple[str, str]
) -> None:
    places = {"journal": str(tmp_path / "copy.journal"), "database": f"sqlite:///{tmp_path}/c.db"}
    first, second = (places[way] for way in ways)
    assert "5 trials" in run(old, "export", "old", "--out", first)
    given = ["--optuna", first] if ways[0] == "database" else []
    if not given:
        (old / "old" / OLD).unlink()
        Path(first).rename(old / "old" / "optuna.journal")
    assert "5 trials" in run(old, "export", "old", "--out", second, *given)
    copy, source = open_storage(second), find_study(str(old), "old", *given[1:])
    view = StudyView(source)
    for name in ("old", "old/finalists"):
        wanted = view.storage.get_all_trials(view.storage.get_study_id_from_name(name))  # type: ignore[union-attr]
        found = copy.get_all_trials(copy.get_study_id_from_name(name))
        for a, b in zip(found, wanted, strict=True):
            assert (a.number, a.state, a.values, a.params, a.user_attrs, a.constraints) == (
                b.number, b.state, b.values, b.params, b.user_attrs, b.constraints,
            )  # fmt: skip
    with pytest.raises(InvalidValue, match="--out"):
        run(old, "export", "old", "--out", second, *given)
