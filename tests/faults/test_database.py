"""What is done to PostgreSQL under a study: restarted, killed, away for too long."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from mlflow import MlflowClient
from optuna.distributions import FloatDistribution
from sqlalchemy import create_engine, text

from sentune.errors import InvalidValue, StudyConflict
from sentune.launchers.trial_report import Report
from sentune.study.space.objectives import Objective
from sentune.study.store import driver_lock, outage
from sentune.study.store.driver_lock import DriverLock, Holder, standing
from sentune.study.store.outage import DatabaseGone
from sentune.study.store.storage import open_storage, open_study
from sentune.study.store.trial_store import TrialStore
from tests.faults.conftest import Place
from tests.faults.pooling_proxy import transaction_pooling

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
"""Seconds that anything here may take; nothing is judged by them."""


def store_in(place: Place) -> TrialStore:
    storage = open_storage(place.trials_of("toy"), driver=True)
    study = open_study(storage, "toy", modes=["max"], fingerprint={"code": "1"})
    return TrialStore(
        study=study, storage=storage, objectives=(Objective("toy/score", "max"),), budget=200
    )


def one_trial(store: TrialStore, between: Callable[[], object] = lambda: None) -> None:
    """A trial from its draw to its end."""
    point = {"x": 0.5}
    number = store.create(point, {"x": FloatDistribution(0, 1)}, settings=point, seed=0)
    for examples in (100, 200):
        between()
        store.milestone(number, Report(examples=examples, metrics={"toy/score": 0.5}))
    store.complete(number)


def stored(place: Place) -> list[tuple[str, list[int]]]:
    """State and curve of each trial, as the database has them."""
    trials = optuna.load_study(
        study_name="toy", storage=open_storage(place.trials_of("toy"))
    ).trials
    return [(t.state.name, sorted(t.intermediate_values)) for t in trials]


WHOLE = ("COMPLETE", [100, 200])


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a slow machine takes to start a server that was killed."""
    monkeypatch.setattr(outage, "PATIENCE", PATIENCE)


def until_logged(log: pytest.LogCaptureFixture, words: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while words not in log.text:
        assert time.monotonic() < deadline, log.text
        time.sleep(0.02)


@pytest.mark.parametrize("way", ["stop", "kill"])
@pytest.mark.usefixtures("patient")
def test_a_restarted_database_is_waited_for_and_nothing_is_lost_or_doubled(
    place_on_servers: Place, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    postgres, store = place_on_servers.servers.postgres, store_in(place_on_servers)
    one_trial(store)
    getattr(postgres, way)()
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(one_trial, store)
        until_logged(caplog, "trying again")
        postgres.start()
        going.result(PATIENCE)
    one_trial(store)
    assert stored(place_on_servers) == [WHOLE] * 3


@pytest.mark.usefixtures("patient")
def test_one_that_goes_between_two_milestones_is_waited_for(
    place_on_servers: Place, caplog: pytest.LogCaptureFixture
) -> None:
    postgres, store = place_on_servers.servers.postgres, store_in(place_on_servers)
    gone: list[threading.Thread] = []

    def restarts() -> None:
        if not gone:
            postgres.stop()
            gone.append(threading.Thread(target=comes_back))
            gone[0].start()

    def comes_back() -> None:
        until_logged(caplog, "trying again")
        postgres.start()

    one_trial(store, restarts)
    gone[0].join()
    assert stored(place_on_servers) == [WHOLE]


def test_one_that_stays_away_ends_the_study_with_its_name_and_the_next_start_goes_on(
    place_on_servers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres = place_on_servers.servers.postgres
    place_on_servers = replace(place_on_servers, optuna=postgres.telling(place_on_servers.optuna))
    store = store_in(place_on_servers)
    one_trial(store)
    monkeypatch.setattr(outage, "PATIENCE", 0.3)
    postgres.stop()
    try:
        with pytest.raises(DatabaseGone) as caught:
            one_trial(store)
    finally:
        postgres.start()
    said = str(caught.value)
    assert f"127.0.0.1:{postgres.port}/" in said
    assert "run the same command again" in said
    assert postgres.password not in said
    again = store_in(place_on_servers)
    one_trial(again)
    assert stored(place_on_servers) == [WHOLE] * 2


def lock_of(place: Place, beat: float) -> DriverLock:
    return DriverLock(place.trials_of("toy"), "toy", beat=beat)


def holder_of(place: Place) -> Holder | None:
    return standing(place.trials_of("toy"), "toy").holder


def cut(place: Place) -> None:
    """End the session that has the lock, as a network that was cut off does."""
    ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
    with create_engine(place.trials_of("toy")).connect() as connection:
        assert connection.execute(text(ended)).all() == [(True,)]


def test_a_lock_outlives_a_restart(
    place_on_servers: Place, caplog: pytest.LogCaptureFixture
) -> None:
    postgres = place_on_servers.servers.postgres
    with lock_of(place_on_servers, 0.05) as lock:
        before = lock.backend.read().beat
        postgres.stop()
        until_logged(caplog, "beat failed, trying again")
        postgres.start()
        deadline = time.monotonic() + PATIENCE
        while lock.backend.read().beat <= before + 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert not lock.lost
        assert lock.backend.locked()
        assert holder_of(place_on_servers).driver.pid == os.getpid()
    assert holder_of(place_on_servers) is None
    assert not lock.backend.locked()


def test_a_lock_whose_connection_is_cut_is_taken_again_unless_another_start_has_it(
    place_on_servers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_lock, "ASKED_EVERY", 0.0)
    lock = lock_of(place_on_servers, 3600).acquire()
    cut(place_on_servers)
    assert not lock.backend.locked()
    lock.check()
    assert lock.backend.locked()

    cut(place_on_servers)
    with lock_of(place_on_servers, 3600) as other:
        with pytest.raises(StudyConflict, match=f"process {os.getpid()}, since"):
            lock.check()
        lock.release()
        assert not other.lost
        assert other.generation == lock.generation + 1


def test_a_lock_behind_a_proxy_that_shares_sessions_is_refused(place_on_servers: Place) -> None:
    postgres = place_on_servers.servers.postgres
    with transaction_pooling(postgres.port) as port:
        direct = place_on_servers.trials_of("toy")
        pooled = direct.replace(f":{postgres.port}/", f":{port}/")
        with pytest.raises(InvalidValue, match=r"--optuna: .*transaction pooling"):
            DriverLock(pooled, "toy").acquire()
    assert holder_of(place_on_servers) is None


def test_studies_that_start_together_in_empty_databases_make_their_tables_once(
    place_on_servers: Place,
) -> None:
    """Optuna's and MLflow's."""
    code = (
        "import sys; from sentune.study.store.storage import open_storage, open_study\n"
        "s = open_storage(sys.argv[1])\n"
        "open_study(s, sys.argv[2], modes=['max'], fingerprint={})\n"
        "from sentune.tracking.database import ensure_database\n"
        "ensure_database(sys.argv[3])\n"
    )
    mlflow = place_on_servers.servers.postgres.make("empty_mlflow")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform")}
    url = place_on_servers.trials_of("toy")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, url, f"study-{number}", mlflow], env=environment,
            stderr=subprocess.PIPE, text=True,
        )
        for number in range(3)
    ]  # fmt: skip
    for process in running:
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
    assert MlflowClient(mlflow).search_experiments()
    names = {study.study_name for study in open_storage(url).get_all_studies()}
    assert names == {f"study-{number}" for number in range(3)}


@pytest.mark.parametrize(
    ("file", "chosen"), [("test_driver_lock.py", ""), ("test_trial_store.py", "kill")]
)
def test_tests_of_the_lock_and_of_kills_hold_over_postgresql(
    place_on_servers: Place, file: str, chosen: str
) -> None:
    """Two drivers at once, a killed one, a suspended one; kills between any two writes."""
    tests = str(ROOT / "tests" / "study" / file)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, "-k", chosen]
    environment = {**os.environ, "SENTUNE_POSTGRES": place_on_servers.trials_of("toy")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
