"""What is done to an S3 server under checkpoints and summaries: ended, closed, damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import s3fs

from sentune.io import object_store
from sentune.io.atomic import StorageError, check_storage, read_document, write_document
from sentune.io.object_store import asked
from sentune.launchers.trial_report import failed
from sentune.study.store.study_index import every_study
from sentune.training import checkpoint_storage
from sentune.training.checkpoints import CheckpointStore
from sentune.training.trial import Progress
from tests.backends import BUCKET
from tests.faults.conftest import Place

PATIENCE = 300.0
"""Seconds that anything here may take; nothing is judged by them."""

SIZE = 3_000_000


def progress(examples: int) -> Progress:
    def save(folder: Path) -> None:
        (folder / "state").write_bytes(str(examples).encode() * SIZE)

    return Progress(examples=examples, metrics={"task/metric": 0.5}, save=save)


@pytest.fixture
def trial(place_on_servers: Place) -> str:
    """A trial's place in the bucket, with one checkpoint."""
    directory = f"{place_on_servers.storage}/study/trials/0000"
    CheckpointStore(directory).save(progress(100), 0.5)
    return directory


def newest(directory: str) -> int:
    said = CheckpointStore(directory).last_progress()
    assert said is not None
    return said.examples


class Waits:
    """An act in a thread, and whether a store has kept it waiting."""

    def __init__(self, act: Callable[[], object], log: pytest.LogCaptureFixture) -> None:
        self._log, self.raised = log, None
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()

    def _run(self, act: Callable[[], object]) -> None:
        try:
            act()
        except StorageError as error:
            self.raised = error

    def until_it_waits(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while "trying again" not in self._log.text:
            assert self._thread.is_alive(), "it did not wait"
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def end(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def test_a_server_that_is_killed_and_comes_back_costs_nothing(
    trial: str, place_on_servers: Place, caplog: pytest.LogCaptureFixture
) -> None:
    s3 = place_on_servers.servers.s3
    store = CheckpointStore(trial)
    s3.kill()
    saving = Waits(lambda: store.save(progress(200), 0.6), caplog)
    saving.until_it_waits()
    s3.start()
    saving.end()
    assert saving.raised is None
    assert newest(trial) == 200
    assert caplog.text.count("trying again") == 1


def test_a_server_that_dies_in_mid_upload_leaves_no_half_checkpoint(
    trial: str, place_on_servers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is up, ``progress.json`` is not: the server dies between the two."""
    s3 = place_on_servers.servers.s3

    def dying(uri: str, request: Callable[[], Any], **options: Any) -> Any:
        if isinstance(request, partial) and request.args[-1].endswith("progress.json"):
            s3.kill()
        return asked(uri, request, **options)

    monkeypatch.setattr(object_store, "PATIENCE", 0.0)
    monkeypatch.setattr(checkpoint_storage, "asked", dying)
    with pytest.raises(StorageError) as caught:
        CheckpointStore(trial).save(progress(200), 0.6)
    monkeypatch.undo()
    s3.start()
    assert str(caught.value).startswith(f"{trial}: the store has not answered for")
    assert "AWS_ENDPOINT_URL" in str(caught.value)
    assert "run the same command again" in str(caught.value)
    report = failed(caught.value)
    assert report.storage, "the study ends, the trial goes on later"
    store = CheckpointStore(trial)
    assert newest(trial) == 100
    assert store.notes == []
    store.save(progress(300), 0.4)
    assert newest(trial) == 300


@pytest.fixture
def another_key(place_on_servers: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Clients made while it holds have a wrong key."""
    key = "not-the-key-0123456789"
    s3fs.S3FileSystem.clear_instance_cache()
    with monkeypatch.context() as patched:
        patched.setenv("AWS_SECRET_ACCESS_KEY", key)
        yield key
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_refused_key_is_told_at_once_and_not_shown(
    place_on_servers: Place, another_key: str
) -> None:
    with pytest.raises(StorageError) as caught:
        check_storage(place_on_servers.storage)
    said = str(caught.value)
    assert "the store refuses this user" in said
    assert "AWS_ACCESS_KEY_ID" in said
    assert another_key not in said
    with pytest.raises(StorageError, match="refuses this user"):
        CheckpointStore(f"{place_on_servers.storage}/trial").last()


def test_a_bucket_that_is_not_there_is_told_and_not_made(place_on_servers: Place) -> None:
    with pytest.raises(StorageError, match=r"s3://nowhere/studies.*no such bucket.*Create it"):
        write_document("s3://nowhere/studies", "summary.json", "{}")
    store = CheckpointStore("s3://nowhere/studies/s/trials/0000")
    assert store.last_progress() is None
    with pytest.raises(StorageError, match=r"no such bucket"):
        store.save(progress(100), 0.5)
    buckets = {folder.name for folder in (place_on_servers.servers.s3.folder / "buckets").iterdir()}
    assert buckets == {BUCKET}


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before_and_says_so(trial: str) -> None:
    CheckpointStore(trial).save(progress(200), 0.4)
    files = s3fs.S3FileSystem(skip_instance_cache=True)
    state = f"{trial.removeprefix('s3://')}/examples_000000200/state"
    held = files.cat_file(state)
    files.pipe_file(state, held[:-1] + b"x")
    store = CheckpointStore(trial)
    folder = store.last()
    assert folder is not None
    assert (folder / "state").read_bytes() == b"100" * SIZE
    assert store.notes == [
        "checkpoint examples_000000200 was damaged (checksum of state differs); "
        "went on from examples_000000100"
    ]
    assert [store.last_progress().examples, store.notes[1:]] == [100, []]


def test_a_reader_sees_what_another_process_writes_and_drops(trial: str) -> None:
    reader = CheckpointStore(trial)
    assert newest(trial) == reader.last_progress().examples == 100
    code = (
        "import sys; from pathlib import Path\n"
        "from sentune.training.checkpoints import CheckpointStore\n"
        "from sentune.training.trial import Progress\n"
        "store = CheckpointStore(sys.argv[1])\n"
        "for examples in (200, 300):\n"
        "    store.save(Progress(examples=examples, metrics={}, \n"
        "        save=lambda into: (into / 'state').write_text('x')), examples)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, trial], check=True, env=environment)
    assert reader.last_progress().examples == 300
    assert reader.notes == [], "what was dropped is not called damaged"


def test_documents_are_there_whole_or_as_they_were(
    place_on_servers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, s3 = f"{place_on_servers.storage}/study", place_on_servers.servers.s3
    write_document(folder, "study.json", '{"job": "old"}')
    s3.kill()
    monkeypatch.setattr(object_store, "PATIENCE", 0.0)
    with pytest.raises(StorageError, match="has not answered"):
        write_document(folder, "study.json", '{"job": "new"}')
    s3.start()
    assert read_document(folder, "study.json") == '{"job": "old"}'
    assert read_document(folder, "other.json") is None
    (found,) = every_study(place_on_servers.storage)
    assert (found.name, found.description) == ("study", {"job": "old"})
