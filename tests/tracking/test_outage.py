"""A real MLflow server that is away at the start, comes, goes and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sentune.tracking import Tracker
from sentune.tracking.registry import resolve_model
from tests.servers import free_port, mlflow_server
from tests.tracking.story import MILESTONES, Held, Story

PATIENCE = 400.0

pytestmark = pytest.mark.servers


@contextmanager
def server(storage: Path, port: int, *, workers: int = 1) -> Iterator[None]:
    """MLflow's server over SQLite and a folder, up while the block runs."""
    database, artifacts = f"sqlite:///{storage}/mlflow.db", str(storage / "served")
    with mlflow_server(storage, port, backend=database, artifacts=artifacts, workers=workers):
        yield


def test_a_server_that_comes_and_goes_loses_nothing(
    storage: Path,
    tmp_path: Path,
    story: Story,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    door = f"http://ann:hush@127.0.0.1:{port}"
    tracker = Tracker(story.name, str(storage), door, first_wait=0.01)
    tracker.start(story.snapshot, story.summary())  # nothing listens: it returns all the same
    for number in range(3):
        story.trial(number)
        tracker.notify()
    assert not tracker.flush(0)
    with server(storage, port):
        assert tracker.flush(PATIENCE)
    for number in range(3, 6):
        story.trial(number)
        tracker.notify()
    assert not tracker.flush(0)
    with server(storage, port):
        story.finalists()
        tracker.update(story.ending())
        assert tracker.close(PATIENCE)
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
    assert "refuses part" not in caplog.text
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"hush" in p.read_bytes()]
