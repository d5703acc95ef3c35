"""A damaged checkpoint is set aside, and the one before it is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from sentune.io.checksums import damage
from sentune.training.checkpoint_storage import PROGRESS_FILE
from sentune.training.checkpoints import CheckpointStore
from tests.training.checkpoint_scenes import content, names, progress

Damage = Callable[[Any, str], None]


def flipped(files: Any, folder: str) -> None:
    whole = files.cat_file(f"{folder}/state")
    files.pipe_file(f"{folder}/state", bytes([whole[0] ^ 1]) + whole[1:])


def truncated(files: Any, folder: str) -> None:
    files.pipe_file(f"{folder}/state", files.cat_file(f"{folder}/state")[:-1])


def missing(files: Any, folder: str) -> None:
    files.rm_file(f"{folder}/state")


def torn(files: Any, folder: str) -> None:
    file = f"{folder}/{PROGRESS_FILE}"
    files.pipe_file(file, files.cat_file(file)[:-40])


def edited(files: Any, folder: str) -> None:
    file = f"{folder}/{PROGRESS_FILE}"
    files.pipe_file(file, files.cat_file(file).replace(b"task/readout", b"task/headout"))


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (flipped, "checksum of state differs"),
        (truncated, "state has 2 bytes instead of 3"),
        (missing, "state is missing"),
        (torn, "checksum of progress.json"),
        (edited, "checksum of progress.json"),
    ],
)
@pytest.mark.parametrize("where", ["folder", "objects"])
def test_a_damaged_newest_one_is_set_aside_and_the_one_before_is_taken(
    harm: Damage, named: str, where: str, tmp_path: Path, objects: str
) -> None:
    directory = str(tmp_path) if where == "folder" else objects
    for examples, score in ((100, 0.1), (200, 0.3)):
        CheckpointStore(directory).save(progress(examples), score)
    CheckpointStore(directory).save(progress(300), 0.2)
    files, root = fsspec.url_to_fs(directory)
    harm(files, f"{root}/examples_000000300")
    store = CheckpointStore(directory)
    assert content(store.last()) == "200"
    told = f"checkpoint examples_000000300 was damaged ({named}); went on from examples_000000200"
    assert store.notes == [told]
    again = CheckpointStore(directory)
    said = again.last_progress()
    assert said is not None
    assert (said.examples, again.notes) == (200, [])
    assert names(directory) == ["damaged-examples_000000300", "examples_000000200"]
    again.save(progress(300), 0.4)
    assert (content(again.best()), content(again.last())) == ("300", "300")


def test_a_damaged_best_one_gives_way_to_the_next_best(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path))
    for examples, score in ((100, 0.9), (200, 0.3)):
        store.save(progress(examples), score)
    (tmp_path / "examples_000000100" / "state").write_text("101")
    reader = CheckpointStore(str(tmp_path))
    assert content(reader.last()) == "200"
    assert reader.notes == []
    assert content(reader.best()) == "200"
    (note,) = reader.notes
    assert note.endswith("(checksum of state differs); took examples_000000200 for the best")


def test_where_all_are_damaged_the_trial_starts_anew_and_says_so(directory: str) -> None:
    store = CheckpointStore(directory)
    store.save(progress(100), 0.9)
    store.save(progress(200), 0.3)
    files, root = fsspec.url_to_fs(directory)
    if "[" in root:  # fsspec takes brackets in a path for a pattern
        (Path(root) / "examples_000000100" / "state").unlink()
        (Path(root) / "examples_000000200" / "state").unlink()
    else:
        missing(files, f"{root}/examples_000000100")
        missing(files, f"{root}/examples_000000200")
    reader = CheckpointStore(directory)
    assert reader.last() is None
    assert [note.rpartition("; ")[2] for note in reader.notes] == ["started anew"] * 2
    assert len(names(directory)) == 1  # one damaged checkpoint is enough to look at


def test_a_folder_without_its_document_is_damaged(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path))
    store.save(progress(100), 0.9)
    store.save(progress(200), 0.3)
    (tmp_path / "examples_000000200" / PROGRESS_FILE).unlink()
    assert content(store.last()) == "100"
    assert "progress.json is missing" in store.notes[0]


def test_one_that_its_writer_drops_meanwhile_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = CheckpointStore(str(tmp_path)), CheckpointStore(str(tmp_path))
    writer.save(progress(100), 0.1)

    def late(folder: Path, recorded: Any) -> str:
        if folder.name == "examples_000000100":
            writer.save(progress(200), 0.2)
        return damage(folder, recorded)

    monkeypatch.setattr("sentune.training.checkpoints.damage", late)
    reader.last()
    assert reader.notes == []


def test_one_of_an_older_version_has_no_checksums_and_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "examples_000000100"
    folder.mkdir()
    said = {"examples": 100, "metrics": {}, "readouts": {}, "tables": {}, "final": False}
    (folder / PROGRESS_FILE).write_text(json.dumps({**said, "score": 0.5}))
    assert CheckpointStore(str(tmp_path)).last() == folder
