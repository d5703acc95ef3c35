from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sentune.cli import dashboard as module
from sentune.cli.dashboard import server_command
from sentune.errors import InvalidValue
from sentune.tracking import Tracker
from tests.servers import free_port
from tests.tracking.story import Story


def test_a_storage_without_studies_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"--storage.*sentune tune gumbel --storage"):
        module.dashboard(str(tmp_path))


def test_the_default_is_the_storage_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTUNE_STORAGE", str(tmp_path / "elsewhere"))
    with pytest.raises(InvalidValue, match=r"--storage: '.*/elsewhere'"):
        module.dashboard()
    monkeypatch.setenv("SENTUNE_STORAGE", "s3://bucket/studies")
    with pytest.raises(InvalidValue, match=r"--storage.*the MLflow server of --tracking"):
        module.dashboard()


def test_tables_are_made_before_anything_opens_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlflow.db").touch()  # as SQLite leaves it where a study has just begun
    done: list[str] = []
    monkeypatch.setattr(module, "ensure_database", lambda uri: done.append(f"ensure {uri}"))
    monkeypatch.setattr(module, "runs_page", lambda uri: done.append(f"open {uri}") or "/")
    monkeypatch.setattr(module, "quieten_mlflow", lambda: None)
    for name in ("PYTHONWARNINGS", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION"):
        monkeypatch.setenv(name, "")  # it sets them for the server; gone with the test
    monkeypatch.setattr(module.os, "execv", lambda path, command: done.append("serve"))
    module.dashboard(str(tmp_path), free_port())
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    assert done == [f"ensure {uri}", f"open {uri}", "serve"]


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidValue, match="--port"):
            server_command(str(tmp_path), taken.getsockname()[1])


@pytest.mark.servers
def test_the_server_answers_this_machine_alone(tmp_path: Path) -> None:
    story = Story(tmp_path / "product")
    story.trial(2)
    tracker = Tracker("little", str(tmp_path))
    tracker.start(story.snapshot, story.summary())
    assert tracker.close(120)
    port = free_port()
    code = "import typer; from sentune.cli.dashboard import dashboard; typer.run(dashboard)"
    command = [sys.executable, "-c", code, "--storage", str(tmp_path), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        shown = process.stdout.readline()
        assert f"http://127.0.0.1:{port}/#/experiments/1/runs?workflowType=" in shown
        wait_for(port, process)
        assert status(port, {}) == 200
        assert status(port, {"Host": "evil.example"}) == 403
        assert status(port, {"Host": f"10.0.0.1:{port}"}) == 403
        assert status(port, {"Origin": "http://evil.example"}, body=b"{}") == 403
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(port: int, process: subprocess.Popen[str]) -> None:
    for _ in range(1800):
        assert process.poll() is None, "the server ended"
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


def status(port: int, headers: dict[str, str], *, body: bytes | None = None) -> int:
    path = "/api/2.0/mlflow/experiments/create" if body else "/"
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            code: int = answer.status
    except urllib.error.HTTPError as error:
        code = error.code
    return code
