"""The thread that sends: a server that is away, slow or gone, and a start that was replaced."""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sentune.errors import InvalidValue, Overtaken
from sentune.records import StudySummary
from sentune.tracking import Tracker
from sentune.tracking import tracker as sending
from sentune.tracking.client import mlflow_client
from tests.interpreter import run_python
from tests.tracking.story import (
    Held,
    Story,
    close,
    tracker_in,
    without_ids,
)


class Flaky:
    """An ``MlflowClient`` of which calls fail at random, half of them after they were done."""

    def __init__(self, client: Any, dice: random.Random) -> None:
        self._client, self._dice = client, dice

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        def flaky(*args: Any, **kwargs: Any) -> Any:
            luck = self._dice.random()
            if luck < 0.02:
                raise ConnectionError("the request was lost")
            result = call(*args, **kwargs)
            if luck < 0.04:
                raise TimeoutError("the answer was lost")
            return result

        return flaky


@pytest.mark.parametrize("seed", range(3))
def test_lost_requests_and_lost_answers_change_nothing(
    storage: Path,
    other: Path,
    story: Story,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    import mlflow

    calm = tracker_in(storage)
    story.tell(calm)
    wanted = held(close(calm))
    client, dice = mlflow.MlflowClient, random.Random(seed)
    with monkeypatch.context() as patch:
        patch.setattr(mlflow, "MlflowClient", lambda *a, **k: Flaky(client(*a, **k), dice))
        tracker = tracker_in(other, first_wait=0.001)
        story.tell(tracker)
        close(tracker)
    found = held(tracker.tracking_uri)
    assert without_ids(found) == without_ids(wanted)


def test_an_outage_is_said_once_and_again_when_it_is_over(
    storage: Path,
    story: Story,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    up, tries = threading.Event(), []

    def connect(uri: str) -> Any:
        tries.append(uri)
        if not up.is_set():
            raise ConnectionError("http://ann:hush@host is down\n[SQL: DROP TABLE jobs]")
        return mlflow_client(uri)

    monkeypatch.setattr(sending, "mlflow_client", connect)
    tracker = tracker_in(storage, first_wait=0.001)
    with caplog.at_level(logging.INFO, logger="sentune"):
        story.tell(tracker)  # these calls return all the same
        assert not tracker.flush(0)
        while len(tries) < 4:
            time.sleep(0.01)
        up.set()
        runs = held(close(tracker))
    assert len(runs) == 9
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "cannot be reached" in warnings[0]
    assert "SQL" not in caplog.text, "the first line is enough"
    assert "hush" not in caplog.text
    assert "answers again" in caplog.text


def test_what_is_left_at_the_end_is_said_and_sent_by_the_next_start(
    storage: Path,
    story: Story,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sending, "mlflow_client", None)
        tracker = tracker_in(storage, first_wait=0.001)
        story.tell(tracker)
        assert not tracker.close(0.05)
        tracker._thread.join(60)
        assert not tracker._thread.is_alive()
    assert "next start (the same command) sends" in caplog.text
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.ending())
    assert len(held(close(tracker))) == 9


def test_a_driver_waits_for_no_server(storage: Path, story: Story, monkeypatch: Any) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hangs(uri: str) -> None:
        inside.set()
        assert go_on.wait(60)

    monkeypatch.setattr(sending, "ensure_database", hangs)
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    assert inside.wait(60)
    for number in range(story.trials):
        story.trial(number)
        tracker.notify()
    assert not go_on.is_set()
    assert not tracker.flush(0)
    go_on.set()
    assert tracker.close(120)


def test_a_failed_look_is_said_and_harmless(
    storage: Path, story: Story, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    looks = []

    def look() -> Any:
        looks.append(1)
        if len(looks) < 3:
            raise OSError("the storage has not answered")
        return story.snapshot()

    tracker = tracker_in(storage, first_wait=0.001)
    tracker.start(look, story.summary())
    assert list(held(close(tracker))) == ["little"]
    assert caplog.text.count("has not answered") == 1


def test_a_remote_storage_needs_a_server() -> None:
    with pytest.raises(InvalidValue, match="--tracking"):
        Tracker("little", "s3://bucket/studies")


def test_a_tracker_that_follows_no_study_has_nothing_to_send(tmp_path: Path) -> None:
    assert tracker_in(tmp_path).close(0)
    assert list(tmp_path.iterdir()) == []


def test_nothing_slow_is_imported_before_a_study_starts() -> None:
    code = (
        "import sys, sentune.tracking, sentune.report.figures;"
        "print([m for m in ('mlflow', 'matplotlib', 'sklearn', 'ray', 'optuna') "
        "if m in sys.modules])"
    )
    assert run_python(code) == "[]"


def test_it_is_quiet(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.tracking.story import Story;"
        "from sentune.io import waits; waits.SAID_AFTER = 1e9;"  # a busy machine is no trouble
        "from sentune.tracking import Tracker;"
        f"story = Story(Path({str(tmp_path / 'product')!r})); story.trial(2);"
        f"tracker = Tracker('little', {str(tmp_path)!r});"
        "tracker.start(story.snapshot, story.summary());"
        "sys.exit(0 if tracker.close(120) else 1)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("connected", [False, True])
def test_a_late_start_s_tracker_leaves_what_a_later_one_has_sent(
    storage: Path,
    story: Story,
    held: Held,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    connected: bool,
) -> None:
    """Also one that was connected before the later start sent anything."""
    monkeypatch.setattr(sending, "GATHER", 0.0)
    late = tracker_in(storage)
    started = of_start(story.summary(), 3)
    if connected:
        late.start(story.snapshot, started)
        assert late.flush(60)
    newest = tracker_in(storage)
    newest.start(story.snapshot, of_start(story.summary(), 4))
    story.trial(0)
    newest.update(of_start(story.summary("stopped", reason="of the later one"), 4))
    uri = close(newest)
    before = held(uri)
    story.trial(2)
    if not connected:
        late.start(story.snapshot, started)
    late.update(of_start(story.summary("failed", reason="of the late one"), 3))
    close(late)
    assert held(uri) == before
    assert before["little"]["tags"]["sentune.generation"] == "4"
    assert caplog.text.count("start 4 of this study has written there, this is start 3") == 1


def of_start(summary: StudySummary, generation: int) -> StudySummary:
    return replace(summary, lineage={**summary.lineage, "generation": generation})


def test_nothing_is_sent_once_the_lock_is_lost(storage: Path, story: Story, held: Held) -> None:
    lost: list[str] = []

    def check() -> None:
        if lost:
            raise Overtaken("another start drives the study")

    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary(), check=check)
    assert tracker.flush(60)
    lost.append("since now")
    story.trial(0)
    tracker.update(story.summary("failed"))
    runs = held(close(tracker))
    assert set(runs) == {"little"}
    assert runs["little"]["tags"]["sentune.state"] == "running"


def test_mlflow_is_imported_before_the_thread_begins(tmp_path: Path) -> None:
    """Ray Tune imports it in its own thread; two threads at once end in a deadlock of imports."""
    program = f"""
import sys
from types import SimpleNamespace
from sentune.tracking.tracker import Tracker

tracker = Tracker("s", {str(tmp_path)!r})
tracker.update = lambda summary: None
tracker._thread = SimpleNamespace(start=lambda: print("mlflow" in sys.modules))
print("mlflow" in sys.modules)
tracker.start(lambda: None, None)
"""
    assert run_python(program).split() == ["False", "True"]
