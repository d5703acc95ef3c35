"""What storage, disk, database and server are asked before a study starts, each of them broken."""

from __future__ import annotations

import http.server
import shutil
import socket
import sqlite3
import sys
import threading
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from rich.filesize import decimal

from sentune.errors import PlanError
from sentune.io.atomic import StorageError
from sentune.study.config import StudyConfig
from sentune.study.planning import checks
from sentune.study.planning.capacity import Capacity, Node
from sentune.study.planning.checks import (
    check_database,
    check_disk,
    check_writable,
    tracking_kind,
    tracking_silence,
)
from sentune.study.planning.plan import PER_RUN, PER_WAITING, Plan, make_plan
from tests.servers import free_port
from tests.study.test_plan import SPACE

Usage = namedtuple("Usage", "total used free")


def config(folder: Path, **changes: Any) -> StudyConfig:
    return StudyConfig(**{"name": "s", "storage": str(folder), "max_examples": 900, **changes})


def plan_of(wanted: StudyConfig) -> Plan:
    return make_plan(wanted, SPACE, Capacity.fixed(Node(cpus=4)))


def test_sound_services_say_nothing_and_is_left_as_it_was(tmp_path: Path) -> None:
    wanted = config(tmp_path / "new" / "studies", optuna_url=f"sqlite:///{tmp_path}/own.db")
    check_database(wanted.optuna_url)
    check_writable(wanted.storage)
    check_disk(wanted, plan_of(wanted), 1000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["file/studies", "file"])
def test_a_file_where_a_folder_should_be(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((PlanError, StorageError), match="--storage") as refused:
        check_writable(str(tmp_path / below))
    assert str(tmp_path / "file") in str(refused.value)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that refuses everybody")
def test_a_file_system_that_takes_nothing() -> None:
    with pytest.raises((PlanError, StorageError), match="--storage") as refused:
        check_writable("/proc/studies")
    assert "/proc/studies" in str(refused.value)


def test_an_address_of_an_unknown_kind() -> None:
    with pytest.raises(PlanError, match=r"--storage.*Protocol not known"):
        check_writable("gopher://bucket/studies")
    check_writable("memory://bucket/studies")


def test_a_storage_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(checks, "PATIENCE", 0.01)
    monkeypatch.setattr(checks, "check_storage", lambda folder: never.wait(60))
    with pytest.raises(PlanError, match=r"s3://bucket.*no answer within 0.01 s"):
        check_writable("s3://bucket/studies")
    never.set()


def test_a_disk_that_cannot_hold_the_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = config(tmp_path, keep=4, finalists=2, seeds=3, trials=9, rung_rows=2000)
    plan, each = plan_of(wanted), 1000
    # of each of two rungs a third of nine trials, and one more
    most = each * (4 * PER_RUN + 8 * PER_WAITING + 4 + 6 + 1)
    free = most - 10
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, free))
    with pytest.raises(PlanError) as refused:
        check_disk(wanted, plan, each)
    assert refused.value.field == "--storage"
    held = "4 trials at a time, 8 stopped ones that may continue, 4 kept"
    for told in (decimal(most), f"{free:,} are free", held, "--keep", "--scheduler asha,"):
        assert told in refused.value.fix
    run = Path(wanted.folder, "trials", "0000")
    run.mkdir(parents=True)
    (run / "weights").write_bytes(b"x" * 10)  # a resumed study has some of them already
    check_disk(wanted, plan, each)
    check_disk(wanted, plan, 0)


def test_a_file_that_vanishes_while_a_study_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, lstat = config(tmp_path), Path.lstat
    run = Path(wanted.folder, "trials", "0000")
    run.mkdir(parents=True)
    for name in ("kept", "vanishing"):
        (run / name).write_bytes(b"x" * 10)

    def vanishes(path: Path) -> Any:
        if path.name == "vanishing":
            path.unlink()
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", vanishes)
    check_disk(wanted, plan_of(wanted), 1)
    assert not (run / "vanishing").exists()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://ann:hush@127.0.0.1:{port}/studies", "nothing answers at 127.0.0.1:"),
        ("redis://127.0.0.1:{port}/0", "nothing answers at 127.0.0.1:"),
        ("sqlite:///{folder}/missing/own.db", "there is no folder"),
        ("sqlite:///{folder}/garbage.db", "file is not a database"),
        ("nothing at all", "sqlite:////PATH"),
        ("postgresql://ann:hush@127.0.0.1:first/studies", "sqlite:////PATH"),
        ("oddbase://127.0.0.1/studies", "driver"),
    ],
)
def test_a_database_that_cannot_be_reached(tmp_path: Path, url: str, told: str) -> None:
    (tmp_path / "garbage.db").write_text("not what SQLite writes" * 100)
    url = url.format(port=free_port(), folder=tmp_path)
    with pytest.raises(PlanError) as refused:
        check_database(url)
    assert refused.value.field == "--optuna"
    assert told in refused.value.fix
    assert "hush" not in str(refused.value)


def test_a_postgresql_address_without_a_driver_is_for_the_one_that_is_installed() -> None:
    """Something answers there, which is no database: a driver that is missing is told before."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=closing_all, args=(server, 2), daemon=True).start()
        address = f"postgresql://ann@127.0.0.1:{server.getsockname()[1]}/studies"
        with pytest.raises(PlanError, match="cannot be opened"):
            check_database(address)


def closing_all(server: socket.socket, connections: int) -> None:
    """Accept so many connections and end each at once."""
    for _ in range(connections):
        server.accept()[0].close()


def test_a_database_that_another_driver_writes_is_no_trouble(tmp_path: Path) -> None:
    file = tmp_path / "own.db"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE t (n)")
        other.execute("BEGIN IMMEDIATE")
        check_database(f"sqlite:///{file}")
    check_database(f"sqlite:///{file}")
    check_database(None)


def test_a_tracking_server_that_is_away_is_told() -> None:
    silence = tracking_silence(f"http://ann:hush@127.0.0.1:{free_port()}")
    assert "does not answer" in silence
    assert "hush" not in silence


def test_a_tracking_server_that_is_deaf_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.http_answer, "__kwdefaults__", {"patience": 0.2})
    with socket.create_server(("127.0.0.1", 0)) as server:
        silence = tracking_silence(f"http://127.0.0.1:{server.getsockname()[1]}")
    assert "does not answer" in silence


def test_a_server_that_drips_is_left_in_time() -> None:
    over = threading.Event()

    class Drip(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # http.server's name
            self.send_response(200)
            self.end_headers()
            while not over.wait(0.01):
                self.wfile.write(b"x")

        def log_message(self, *arguments: object) -> None:
            """Nothing on the test's terminal."""

    with http.server.HTTPServer(("127.0.0.1", 0), Drip) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(TimeoutError):
            checks.http_answer(f"http://127.0.0.1:{server.server_port}", patience=0.3)
        over.set()


def test_a_tracking_server_that_answers_anything_is_there() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as there:
        threading.Thread(target=there.handle_request, daemon=True).start()
        assert tracking_silence(f"http://127.0.0.1:{there.server_port}") == ""


def test_a_tracking_database_may_be_missing_but_not_its_place(tmp_path: Path) -> None:
    assert tracking_silence(f"sqlite:///{tmp_path}/new/mlflow.db") == ""
    with pytest.raises(PlanError, match="write http"):
        tracking_kind("postgresql")
    assert tracking_kind("databricks") == tracking_kind("databricks://team") == "databricks"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file is not a folder" in tracking_silence(f"sqlite:///{tmp_path}/file/x.db")
    assert "nothing answers" in tracking_silence(f"postgresql://127.0.0.1:{free_port()}/mlflow")


@pytest.mark.parametrize(
    "uri", ["127.0.0.1:5000", "localhost:5000", "mlruns", "file:///tmp/x", "http://", "sqlite:x",
            "http://host:port", "htp://127.0.0.1:5000", ""],
)  # fmt: skip
def test_what_is_no_address_of_mlflow_is_refused(uri: str) -> None:
    with pytest.raises(PlanError, match=r"--tracking: .*write http://HOST:PORT or sqlite"):
        tracking_silence(uri)


def test_one_refusal_takes_less_than_five_seconds() -> None:
    assert checks.PATIENCE < 5
