"""Folders that are whole at every moment, whatever kills their writer."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sentune.errors import CorpusError
from sentune.io import folders
from sentune.io.atomic import StorageError
from sentune.io.folders import (
    cached_folder,
    draft_beside,
    draft_name,
    found_again,
    is_abandoned,
    new_folder,
    whole_folder,
)
from sentune.io.waits import WAITS
from tests.tampering import flip

KILLED = """
import os, sys
from pathlib import Path
from sentune.io import folders

folder, point, exchange = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "exchange"
if not exchange:
    folders._exchange = lambda one, other: False
count = 0

def counted(function):
    def call(*args, **options):
        global count
        count += 1
        if count > point:
            os._exit(9)
        return function(*args, **options)
    return call

Path.rename = counted(Path.rename)
folders._exchange = counted(folders._exchange)
folders.shutil.rmtree = counted(folders.shutil.rmtree)
folders.sync = counted(folders.sync)
with folders.whole_folder(folder) as beside:
    (beside / "one").write_text("new")
    (beside / "two").write_text("new")
print(count)
"""


def write(folder: Path, text: str) -> None:
    with whole_folder(folder) as beside:
        for name in ("one", "two"):
            (beside / name).write_text(text)


def test_what_a_writer_computes_is_no_wait_for_the_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with whole_folder(tmp_path / "model"):
        for _ in range(10):
            WAITS.tick(5.0)
    assert caplog.messages == []


def texts(folder: Path) -> set[str]:
    return {(folder / name).read_text() for name in ("one", "two")}


@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_a_kill_anywhere_in_a_replacement_loses_nothing(way: str, tmp_path: Path) -> None:
    folder, outcomes = tmp_path / "model", []
    for point in range(20):
        write(folder, "old")
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(folder), str(point), way],
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip
        if way == "exchange":
            assert folder.is_dir()  # at every moment, without any repair
        outcomes.append(texts(found_again(folder)))
        if done.returncode == 0:
            break
        assert done.returncode == 9, done.stderr
    assert done.returncode == 0
    assert len(outcomes) > 2
    assert {"old"} in outcomes
    assert outcomes[-1] == {"new"}
    assert all(len(outcome) == 1 for outcome in outcomes)
    write(folder, "last")  # which also drops what the dead have left
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_model_between_two_renames_is_found_by_its_reader(tmp_path: Path) -> None:
    from sentune.embedder.load import folder_of

    write(tmp_path / "model", "old")
    (tmp_path / "model").rename(tmp_path / ".model.replaced")
    assert texts(folder_of(tmp_path / "model")) == {"old"}


def test_a_fault_of_the_disk_names_the_folder_and_leaves_nothing(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "Error writing bytes to file")  # as Arrow says it
    told = r"/corpus: the disk is full.*another place for it"
    with pytest.raises(StorageError, match=told), draft_beside(tmp_path / "corpus"):
        raise full
    with pytest.raises(CorpusError), draft_beside(tmp_path / "corpus"):
        raise CorpusError("a.txt", os.strerror(errno.EACCES))
    assert list(tmp_path.iterdir()) == []


def test_a_living_processs_draft_is_not_anothers_to_delete(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    mine = draft_name("x")
    dead = mine.replace(f"-{os.getpid()}-", f"-{int(ended.stdout)}-")
    elsewhere = dead.replace(".draft-", ".draft-other-host-")
    parent = mine.replace(f"-{os.getpid()}-", f"-{os.getppid()}-")
    for name in (mine, dead, elsewhere, parent):
        (tmp_path / name).mkdir()
    assert [is_abandoned(name) for name in (mine, dead, elsewhere, parent)] == [
        False, True, False, False,
    ]  # fmt: skip
    with draft_beside(tmp_path / "y") as draft:
        assert {p.name for p in tmp_path.iterdir()} == {mine, elsewhere, parent, draft.name}
        assert not is_abandoned("model")


def test_a_reader_that_puts_the_old_folder_back_stops_no_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename, turns = tmp_path / "model", Path.rename, []
    write(folder, "old")
    monkeypatch.setattr(folders, "_exchange", lambda one, other: False)

    def interrupted(path: Path, target: Path) -> Path:
        if target == folder and ".draft-" in path.name and not turns:
            turns.append(found_again(folder))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    write(folder, "new")
    assert turns
    assert texts(folder) == {"new"}


def test_a_new_folder_is_on_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    rename, sync_tree, sync = Path.rename, folders.sync_tree, folders.sync
    monkeypatch.setattr(Path, "rename", lambda a, b: (order.append("rename"), rename(a, b))[1])
    monkeypatch.setattr(folders, "sync_tree", lambda f: (order.append("content"), sync_tree(f)))
    monkeypatch.setattr(folders, "sync", lambda f: (order.append("name"), sync(f)))
    new_folder(tmp_path / "a", lambda draft: (draft / "x").touch())
    assert order == ["content", "rename", "name"]


@pytest.mark.parametrize("damaged", ["x", "checksums.json"])
def test_a_damaged_folder_of_a_cache_is_made_again(
    tmp_path: Path, damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "a"

    def write(draft: Path) -> None:
        (draft / "x").write_text("content")

    assert cached_folder(folder, write) == folder
    flip(folder / damaged, 3)
    assert not caplog.messages
    cached_folder(folder, write)
    assert (folder / "x").read_text() == "content"
    (message,) = caplog.messages
    assert damaged in message
    cached_folder(folder, lambda draft: pytest.fail("it is whole"))
