"""What is done to tracking: servers that die, hang and are crowded."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from sentune.io.folders import draft_name
from sentune.io.object_store import files_at
from sentune.tracking import Tracker
from sentune.tracking.database import ensure_database
from tests.faults.conftest import Place
from tests.servers import free_port, mlflow_server
from tests.soak import SOAK
from tests.tracking.conftest import copied, empty_store, held, story
from tests.tracking.story import MILESTONES, Held, Story
from tests.tracking.test_outage import server

__all__ = ["empty_store", "held", "story"]  # fixtures

PATIENCE = 500.0
"""Seconds; a server takes 10 to start on an idle machine, and machines may be busy."""


def tables(file: Path) -> int:
    with sqlite3.connect(file) as connection:
        (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return int(count)


def test_studies_that_start_together_make_one_database(tmp_path: Path) -> None:
    file = tmp_path / "studies" / "mlflow.db"
    file.parent.mkdir()
    killed = draft_name(file.name).replace(f"-{os.getpid()}-", "-99999999-")
    (file.parent / killed).mkdir()
    file.touch()  # as SQLite leaves it before the first table
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ensure_database, [f"sqlite:///{file}"] * 8))
    assert tables(file) > 40
    assert [path.name for path in file.parent.iterdir()] == ["mlflow.db"]


def test_a_process_that_is_killed_while_it_makes_the_database_harms_nobody(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    code = f"from sentune.tracking import database as d; d.ensure_database('sqlite:///{file}')"
    process = subprocess.Popen([sys.executable, "-c", code])
    while not any(draft.stat().st_size for draft in tmp_path.glob(".*/mlflow.db")):
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not file.exists()
    ensure_database(f"sqlite:///{file}")
    assert tables(file) > 40
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


@dataclass(frozen=True, kw_only=True)
class Store:
    """What stands behind an MLflow server: a database, and a folder or bucket for artifacts."""

    folder: Path
    database: str
    artifacts: str

    @contextmanager
    def served(self, port: int) -> Iterator[None]:
        """A server of two processes over it, killed at the end of the block."""
        with mlflow_server(
            self.folder, port, backend=self.database, artifacts=self.artifacts, workers=2
        ):
            yield

    def rows(self, query: str, **given: str) -> list[Any]:
        """What its database answers."""
        engine = sqlalchemy.create_engine(self.database, poolclass=sqlalchemy.NullPool)
        with engine.connect() as connection:
            return list(connection.execute(sqlalchemy.text(query), given))


@pytest.fixture
def store(kind: str, place: Place, empty_store: Path, tmp_path: Path) -> Store:
    """SQLite and a folder, or PostgreSQL and S3."""
    if kind == "servers":
        return Store(folder=tmp_path, database=place.tracking, artifacts=place.artifacts)
    folder = copied(empty_store, tmp_path / "storage")
    database = f"sqlite:///{folder}/mlflow.db"
    return Store(folder=folder, database=database, artifacts=str(folder / "served"))


STUDIES = 16 if SOAK else 6


@pytest.mark.timeout(1500)
def test_studies_at_once_on_a_server_that_is_killed_among_them(
    tmp_path: Path, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    stories = [
        Story(tmp_path / f"product-{n}", name=f"study-{n}", trials=3, identity=f"1dea{n}")
        for n in range(STUDIES)
    ]

    def write(one: Story, answering: threading.Event) -> None:
        tracker = Tracker(one.name, str(tmp_path), f"http://127.0.0.1:{port}", first_wait=0.05)
        one.tell(tracker)
        assert answering.wait(PATIENCE)
        assert tracker.close(PATIENCE)

    back = threading.Event()
    with ThreadPoolExecutor(STUDIES) as pool:
        writing = [pool.submit(write, one, back) for one in stories]
        with store.served(port):
            until_runs(store, STUDIES + 4)
        with store.served(port):
            back.set()
            for one in writing:
                one.result()
    for one in stories:
        assert points_of(store, one.name) == {
            **{f"trial-{n:04d}": list(MILESTONES[: 1 + n]) for n in range(3)},
            "trial-0002-seed-1": list(MILESTONES),
            "trial-0002-seed-2": list(MILESTONES),
        }
    runs = store.rows("SELECT status, lifecycle_stage FROM runs")
    ((points,),) = store.rows("SELECT count(*) FROM metrics")
    ways = store.rows("SELECT count(*) FROM metrics GROUP BY key, step, run_uuid")
    assert {count for (count,) in ways} == {1}
    assert len(runs) == STUDIES * (1 + 3 + 2)
    assert not any(status == "RUNNING" or stage != "active" for status, stage in runs)
    assert points % STUDIES == 0  # all tell the same story
    assert "refuses part" not in caplog.text
    files, root = files_at(store.artifacts)
    models = [path for path in files.find(root) if path.endswith("/model.safetensors")]
    assert len(models) == STUDIES, "each study's model, once"


def points_of(store: Store, study: str) -> dict[str, list[int]]:
    """Steps of the objective by run of a study, as the server's database has them."""
    query = """
        SELECT run.value, metrics.step FROM metrics
        JOIN tags AS run ON run.run_uuid = metrics.run_uuid AND run.key = 'sentune.run'
        JOIN tags AS study ON study.run_uuid = metrics.run_uuid AND study.key = 'sentune.study'
        WHERE metrics.key = 'direction/accuracy' AND study.value = :study ORDER BY metrics.step
    """
    found: dict[str, list[int]] = {}
    for run, step in store.rows(query, study=study):
        found.setdefault(run, []).append(step)
    return found


def until_runs(store: Store, count: int) -> None:
    """Waits until the database holds this many runs."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ((found,),) = store.rows("SELECT count(*) FROM runs")
        if found >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"{store.folder} never held {count} runs")


class SlowDoor(BaseHTTPRequestHandler):
    """Passes requests on after a while, and the first making of a trial's run after the second."""

    protocol_version = "HTTP/1.1"
    target, pause = "", 0.2
    gate, anew, late, held_back = threading.Event(), threading.Event(), threading.Event(), False
    made = 0  # runs of that trial

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        assert self.gate.wait(PATIENCE)
        door = type(self)
        makes = self.path.endswith("/runs/create") and b"trial-0001" in body
        if makes and not door.held_back:
            door.held_back = True
            assert door.anew.wait(PATIENCE)  # the client gives up and makes the run anew
            self.forward(body)
            door.made += 1
            door.late.set()
            return
        time.sleep(self.pause)
        status, headers, answer = self.forward(body)
        if makes:
            door.made += 1
            door.anew.set()
        self.send_response(status)
        self.send_header("Content-Type", headers.get("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815

    def forward(self, body: bytes) -> tuple[int, Any, bytes]:
        headers = {k: v for k, v in self.headers.items() if k.lower() in ("content-type", "accept")}
        request = urllib.request.Request(
            f"{self.target}{self.path}", body or None, headers, method=self.command
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


TIMEOUT = 2


def test_a_slow_server_holds_nobody_up_and_gets_every_run_once(
    tmp_path: Path,
    empty_store: Path,
    story: Story,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", str(TIMEOUT))
    storage, port = copied(empty_store, tmp_path / "storage"), free_port()
    SlowDoor.target = f"http://127.0.0.1:{port}"
    door = ThreadingHTTPServer(("127.0.0.1", 0), SlowDoor)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    uri = f"http://127.0.0.1:{door.server_port}"
    with server(storage, port):
        tracker = Tracker(story.name, str(storage), uri, first_wait=0.05)
        tracker.start(story.snapshot, story.summary())
        for number in range(story.trials):
            story.trial(number)
            tracker.notify()
        story.finalists()  # all of it is stored before the first request is answered
        tracker.notify()
        assert not SlowDoor.gate.is_set()
        SlowDoor.gate.set()
        assert SlowDoor.late.wait(PATIENCE)
        tracker.update(story.ending())
        assert tracker.close(PATIENCE)
        runs = held(SlowDoor.target)  # fails if a run is there twice
    door.shutdown()
    door.server_close()
    assert len(runs) == 1 + story.trials + 2
    for number in range(story.trials):
        points = runs[f"trial-{number:04d}"]["points"]["direction/accuracy"]
        assert [step for step, _ in points] == list(MILESTONES[: 1 + number % 3])
    with sqlite3.connect(storage / "mlflow.db") as connection:
        (doubles,) = connection.execute(
            "SELECT count(*) FROM runs WHERE lifecycle_stage = 'deleted'"
        ).fetchone()
    assert doubles == SlowDoor.made - 1 >= 1  # the late one came, and was found
