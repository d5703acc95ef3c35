"""Disks that are full, read-only or at fault: told as such, and nothing is harmed.

The disks are real: a file system of one MiB in a mount namespace of its own.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
import torch
from safetensors.torch import save_file

from sentune.corpora.formats import select
from sentune.corpora.formats.reading import Log
from sentune.corpora.prepare import prepare
from sentune.corpora.schema import Kind
from sentune.io.atomic import StorageError, check_space, check_storage, write_document, writing
from sentune.io.folders import whole_folder
from sentune.launchers.trial_report import failed
from sentune.records import StudySummary
from sentune.summary import read_summary, write_summary
from sentune.training.checkpoints import CheckpointStore
from sentune.training.trial import Progress

HERE = Path(__file__)
MOUNT = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" "$3" "$1"'


def progress(examples: int, size: int) -> Progress:
    def save(folder: Path) -> None:
        (folder / "state").write_bytes(b"x" * size)

    return Progress(examples=examples, metrics={}, save=save)


def torched(write: Any) -> Progress:
    """A state larger than the disk, by a writer with errors of its own."""

    def save(folder: Path) -> None:
        write({"a": torch.zeros(300_000)}, folder / "weights")

    return Progress(examples=200, metrics={}, save=save)


def summary(reason: str) -> StudySummary:
    return StudySummary(
        study="s", method="m", state="running", objective="o/o", mode="max", corpora={}, space={},
        reason=reason,
    )  # fmt: skip


def told(folder: Path, act: Any) -> dict[str, Any]:
    """What an act on a disk raises, and what then lies in the folder."""
    try:
        act()
        said = "nothing"
    except StorageError as error:
        said = str(error)
    return {"said": said, "left": sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))}


def scenes(disk: Path) -> dict[str, Any]:
    """All that is done to the small disk, in a process of its own."""
    folder = disk / "trial"
    store = CheckpointStore(str(folder))
    store.save(progress(100, 400_000), 0.5)
    filler = disk / "filler"
    filler.write_bytes(b"x" * 300_000)
    seen = {
        "no room": told(folder, lambda: store.save(progress(200, 400_000), 0.6)),
        "mid-write": told(folder, lambda: _grown(store, filler)),
        "torch": told(folder, lambda: store.save(torched(torch.save), 0.6)),
        "safetensors": told(folder, lambda: store.save(torched(save_file), 0.6)),
        "model": told(folder, lambda: _model(folder / "model")),
    }
    seen["corpus"] = told(folder, lambda: _prepared(folder / "corpus"))
    seen["scratch"] = told(folder, _collected)
    whole = CheckpointStore(str(folder))
    seen["then"] = {"last": str(whole.last()), "notes": whole.notes}
    write_summary(summary("first"), str(disk / "study"))
    (disk / "rest").write_bytes(b"x" * shutil.disk_usage(disk).free)
    study = disk / "study"
    seen["summary"] = told(study, lambda: write_summary(summary("x" * 9000), str(study)))
    seen["old summary"] = read_summary(str(study))["reason"]
    (disk / "rest").unlink()
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    seen["read-only"] = told(folder, lambda: CheckpointStore(str(folder)).save(progress(9, 1), 1))
    seen["read-only summary"] = told(study, lambda: write_summary(summary("new"), str(study)))
    seen["plan"] = told(study, lambda: check_storage(str(disk / "new")))
    return seen


def _grown(store: CheckpointStore, filler: Path) -> None:
    """There is room for another one of the same size, but this one is larger."""
    filler.write_bytes(b"x" * 100_000)
    store.save(progress(200, 700_000), 0.6)


def _model(folder: Path) -> None:
    with whole_folder(folder) as beside:
        (beside / "weights").write_bytes(b"x" * 2_000_000)


def _prepared(out: Path) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{uuid4()}\n" for _ in range(50_000))
        prepare(f"text:{file.name}", str(out), kind=Kind.SENTENCES)


def _collected() -> None:
    """Pairs that become triplets lie in a temporary folder that has no room for them."""
    select._CACHED = 1 << 16
    pairs = ((str(uuid4()), str(uuid4()), "entailment") for _ in range(50_000))
    list(select.triplets(pairs, Log("0")))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What happened on the small disk."""
    disk = tmp_path_factory.mktemp("disk")
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(disk)]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("this machine lets no user mount a disk of its own (unshare -rm)")
    command = ["unshare", "-rm", "sh", "-c", MOUNT, "sh", str(disk), sys.executable, str(HERE)]
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "SQLITE_TMPDIR": str(disk)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


KEPT = ["examples_000000100", "examples_000000100/progress.json", "examples_000000100/state"]


@pytest.mark.parametrize("scene", ["no room", "mid-write", "torch", "safetensors", "model"])
def test_a_full_disk_is_told_with_place_and_fix_and_harms_nothing(seen: Any, scene: str) -> None:
    said, left = seen[scene]["said"], seen[scene]["left"]
    assert "the disk is full" in said
    assert "/trial/" in said
    assert "Free some space" in said
    assert "another --storage" in said
    assert left == KEPT


def test_a_corpus_that_finds_no_room_is_told(seen: Any) -> None:
    assert "/trial/corpus: the disk is full: more than the " in seen["corpus"]["said"]
    assert seen["corpus"]["left"] == KEPT
    assert ": the disk is full; " in seen["scratch"]["said"]
    assert "another TMPDIR" in seen["scratch"]["said"]


def test_the_bytes_needed_are_those_of_the_last_checkpoint(seen: Any) -> None:
    assert ": 400,000 bytes are needed, " in seen["no room"]["said"]
    assert ": more than the " in seen["mid-write"]["said"]


def test_after_a_full_disk_the_older_checkpoint_is_whole(seen: Any) -> None:
    assert seen["then"]["last"].endswith("examples_000000100")
    assert seen["then"]["notes"] == []


def test_a_summary_that_finds_no_room_leaves_the_old_one(seen: Any) -> None:
    assert "summary.json: the disk is full" in seen["summary"]["said"]
    assert seen["summary"]["left"] == ["summary.json"]
    assert seen["old summary"] == "first"


@pytest.mark.parametrize("scene", ["read-only", "read-only summary", "plan"])
def test_a_read_only_disk_is_told_as_such(seen: Any, scene: str) -> None:
    assert "the disk is read-only" in seen[scene]["said"]
    assert not [name for name in seen[scene]["left"] if "partial" in name]


def test_a_fault_of_the_disk_is_no_fault_of_the_settings() -> None:
    with pytest.raises(StorageError) as caught, writing("/data/trial", 10):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
    report = failed(caught.value)
    assert not report.repeats
    assert report.failure.startswith("/data/trial: the quota is used up; what was")
    assert str(pickle.loads(pickle.dumps(caught.value))) == report.failure


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="shapes differ"), writing("/data/trial"):
        raise RuntimeError("shapes differ")
    with pytest.raises(ConnectionError), writing("/data/trial"):
        raise ConnectionError(errno.ECONNRESET, "gone")


def test_space_is_looked_for_where_the_folder_will_be(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    check_space(tmp_path / "not" / "yet", free // 2)
    with pytest.raises(StorageError, match="not/yet: the disk is full"):
        check_space(tmp_path / "not" / "yet", free * 2)


def test_a_storage_is_tried_out_and_left_as_it_was(tmp_path: Path) -> None:
    check_storage(str(tmp_path), needed=1)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StorageError, match="another --storage"):
        check_storage(str(tmp_path / "file" / "study"))


def test_a_document_in_an_object_store_takes_the_old_one_s_place() -> None:
    for text in ("old", "new"):
        where = write_document("memory://documents/study", "d.json", text)
    assert fsspec.open(where, "rt").open().read() == "new"
    files = fsspec.filesystem("memory")
    assert [Path(path).name for path in files.ls("/documents/study", detail=False)] == ["d.json"]
    files.store.clear()


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(scenes(Path(sys.argv[1]))) + "\n")
