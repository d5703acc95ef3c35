"""A real MLflow server that is away at the start, comes, goes and comes back."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sentune.tracking.mlflow_view import MlflowListener
from sentune.tracking.registry import resolve_model
from tests.tracking.story import MILESTONES, Story

PATIENCE = 400.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server(storage: Path, port: int, *, workers: int = 1) -> Iterator[None]:
    """An MLflow server in a process group of its own, up while the block runs."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--workers", str(workers), "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{storage}/mlflow.db"]
    command += ["--artifacts-destination", str(storage / "served")]
    calm = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (storage / "server.log").open("a") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **calm}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        answers(f"http://127.0.0.1:{port}/health", process)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} did not answer")


@pytest.mark.slow
def test_a_server_that_comes_and_goes_loses_nothing(
    storage: Path,
    tmp_path: Path,
    story: Story,
    held: Callable[[str], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = free_port()
    listener = MlflowListener(
        story.name, f"http://ann:hush@127.0.0.1:{port}", tmp_path / "spool", first_wait=0.01
    )
    story.start(listener)  # nothing listens: these calls return all the same
    for number in range(3):
        story.trial(listener, number)
    assert not listener._spool.flush(0)
    with server(storage, port):
        assert listener._spool.flush(PATIENCE)
    for number in range(3, 6):
        story.trial(listener, number)
    assert not listener._spool.flush(0)
    with server(storage, port):
        story.finalists(listener)
        story.end(listener)
        assert listener.close(PATIENCE)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        folder = resolve_model("models:/little@champion", f"http://127.0.0.1:{port}")
        runs = held(f"http://127.0.0.1:{port}")
    assert folder.is_relative_to(tmp_path / "cache")
    assert (folder / "model.safetensors").read_text() == "weights"
    assert len(runs) == 9
    for number in range(6):
        points = runs[f"trial-{number:04d}"]["points"]["direction/accuracy"]
        assert [step for step, _ in points] == list(MILESTONES[: 1 + number % 3])
    assert {run["status"] for run in runs.values()} == {"FINISHED", "KILLED", "FAILED"}
    assert not (tmp_path / "spool" / "refused.jsonl").exists()
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"hush" in p.read_bytes()]
