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

from sentune.launchers.trial_report import Report
from sentune.study.space.objectives import Objective
from sentune.study.store import outage
from sentune.study.store.driver_lock import Lease
from sentune.study.store.holders import holder
from sentune.study.store.outage import DatabaseGone
from sentune.study.store.storage import open_storage, open_study
from sentune.study.store.trial_store import Ledger
from tests.faults.conftest import Place

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
"""Seconds that anything here may take; nothing is judged by them."""


def ledger_in(place: Place) -> Ledger:
    storage = open_storage(place.trials_of("toy"))
    study = open_study(storage, "toy", modes=["max"], sampler=None, world={"code": "1"})
    return Ledger(study=study, objectives=(Objective("toy/score", "max"),), budget=200)


def one_trial(ledger: Ledger, between: Callable[[], object] = lambda: None) -> None:
    """A trial from its draw to its end."""
    trial = ledger.study.ask()
    ledger.start(trial, {"x": trial.suggest_float("x", 0, 1)}, seed=0)
    for examples in (100, 200):
        between()
        ledger.milestone(trial.number, Report(examples=examples, metrics={"toy/score": 0.5}))
    ledger.complete(trial.number)


def stored(place: Place) -> list[tuple[str, list[int]]]:
    """State and curve of each trial, as the database has them."""
    trials = optuna.load_study(study_name="toy", storage=place.trials_of("toy")).trials
    return [(t.state.name, sorted(t.intermediate_values)) for t in trials]


WHOLE = ("COMPLETE", [100, 200])


def until_logged(log: pytest.LogCaptureFixture, words: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while words not in log.text:
        assert time.monotonic() < deadline, log.text
        time.sleep(0.02)


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_restarted_database_is_waited_for_and_nothing_is_lost_or_doubled(
    place_on_servers: Place, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    postgres, ledger = place_on_servers.servers.postgres, ledger_in(place_on_servers)
    one_trial(ledger)
    getattr(postgres, way)()
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(one_trial, ledger)
        until_logged(caplog, "trying again")
        postgres.start()
        going.result(PATIENCE)
    one_trial(ledger)
    assert stored(place_on_servers) == [WHOLE] * 3


def test_one_that_goes_between_two_milestones_is_waited_for(
    place_on_servers: Place, caplog: pytest.LogCaptureFixture
) -> None:
    postgres, ledger = place_on_servers.servers.postgres, ledger_in(place_on_servers)
    gone: list[threading.Thread] = []

    def restarts() -> None:
        if not gone:
            postgres.stop()
            gone.append(threading.Thread(target=comes_back))
            gone[0].start()

    def comes_back() -> None:
        until_logged(caplog, "trying again")
        postgres.start()

    one_trial(ledger, restarts)
    gone[0].join()
    assert stored(place_on_servers) == [WHOLE]


def test_one_that_stays_away_ends_the_study_with_its_name_and_the_next_start_goes_on(
    place_on_servers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres = place_on_servers.servers.postgres
    place_on_servers = replace(place_on_servers, optuna=postgres.telling(place_on_servers.optuna))
    ledger = ledger_in(place_on_servers)
    one_trial(ledger)
    monkeypatch.setattr(outage, "PATIENCE", 0.3)
    postgres.stop()
    try:
        with pytest.raises(DatabaseGone) as caught:
            one_trial(ledger)
    finally:
        postgres.start()
    said = str(caught.value)
    assert f"127.0.0.1:{postgres.port}/" in said
    assert "run the same command again" in said
    assert postgres.password not in said
    again = ledger_in(place_on_servers)
    one_trial(again)
    assert stored(place_on_servers) == [WHOLE] * 2


def test_a_lease_outlives_a_restart(
    place_on_servers: Place, caplog: pytest.LogCaptureFixture
) -> None:
    postgres = place_on_servers.servers.postgres
    storage = open_storage(place_on_servers.trials_of("toy"))
    with Lease(storage, "toy", beat=0.05, expiry=PATIENCE) as lease:
        before = lease.table.read("toy").beat
        postgres.stop()
        until_logged(caplog, "no beat, trying again")
        postgres.start()
        deadline = time.monotonic() + PATIENCE
        while lease.table.read("toy").beat <= before + 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert not lease.lost
        assert holder(storage, "toy").driver.pid == os.getpid()
    assert holder(storage, "toy") is None


def test_studies_that_start_together_in_empty_databases_make_their_tables_once(
    place_on_servers: Place,
) -> None:
    """Optuna's and MLflow's."""
    code = (
        "import sys; from sentune.study.store.storage import open_storage, open_study\n"
        "s = open_storage(sys.argv[1])\n"
        "open_study(s, sys.argv[2], modes=['max'], sampler=None, world={})\n"
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


def test_the_lease_s_own_tests_hold_over_postgresql(place_on_servers: Place) -> None:
    """Two drivers at the same moment, a killed one, one that slept: see that file."""
    tests = str(ROOT / "tests" / "study" / "test_lease.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    environment = {**os.environ, "SENTUNE_POSTGRES": place_on_servers.trials_of("toy")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
