"""Best and last are kept, whole or not at all, in a folder and in an object store alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest

from sentune.training import checkpoints
from sentune.training.checkpoint_storage import PROGRESS_FILE
from sentune.training.checkpoints import CheckpointStore
from tests.training.checkpoint_scenes import content, left, names, progress


def test_nothing_yet(directory: str) -> None:
    store = CheckpointStore(directory)
    assert store.last() is store.best() is store.last_progress() is store.best_progress() is None


def test_keeps_best_and_last(directory: str) -> None:
    store = CheckpointStore(directory)
    for examples, score in ((100, 0.1), (200, 0.7), (300, 0.7), (400, 0.3)):
        store.save(progress(examples), score)
    assert names(directory) == ["examples_000000200", "examples_000000400"]
    assert (content(store.best()), content(store.last())) == ("200", "400")


def test_from_a_billion_examples_on_the_newest_is_the_one_with_the_largest_number(
    directory: str,
) -> None:
    store = CheckpointStore(directory)
    for examples, score in ((999_999_900, 0.9), (1_000_000_000, 0.9), (1_000_000_100, 0.1)):
        store.save(progress(examples), score)
    kept = ["examples_1000000100", "examples_999999900"]
    assert names(directory) == kept
    reader = CheckpointStore(directory)
    assert (content(reader.last()), content(reader.best())) == ("1000000100", "999999900")
    assert reader.last_milestone().examples == 1_000_000_100
    store.save(progress(1_000_000_200, milestone=False), None)
    assert names(directory) == ["examples_1000000100", "examples_1000000200", kept[-1]]


def test_without_a_score_the_newest_by_number_stays(directory: str) -> None:
    store = CheckpointStore(directory)
    for examples in (999_999_900, 1_000_000_000):
        store.save(progress(examples), None)
    store.keep_best_only()
    assert names(directory) == ["examples_1000000000"]


def test_another_reader_finds_what_was_said(directory: str) -> None:
    CheckpointStore(directory).save(progress(400), 0.3)
    said = CheckpointStore(directory).last_progress()
    assert said is not None
    assert said.again(progress(400).save).metrics == {"task/metric": 0.4}
    assert (said.final, said.readouts, said.score) == (True, {"task/readout": 0.5}, 0.3)
    assert said.tables == {"curve.json": [1, 2]}


def test_a_checkpoint_says_which_start_of_the_study_asked_for_it(directory: str):
    CheckpointStore(directory).save(progress(100), 0.1)
    CheckpointStore(directory, generation=7).save(progress(200), 0.2)
    said = CheckpointStore(directory).last_progress()
    assert said is not None
    assert said.generation == 7


def test_saying_again_writes_nothing_twice(directory: str) -> None:
    store, written = CheckpointStore(directory), []

    def save(folder: Path) -> None:
        written.append(folder)

    for _ in range(2):
        store.save(progress(100, save), 0.1)
    assert len(written) == 1


def test_a_failed_save_leaves_the_last_one(directory: str) -> None:
    store = CheckpointStore(directory)
    store.save(progress(100), 0.1)

    def broken(folder: Path) -> None:
        (folder / "state").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.save(progress(200, broken), 0.9)
    assert content(store.last()) == content(store.best()) == "100"
    assert names(directory) == ["examples_000000100"]


def test_half_an_upload_is_no_checkpoint_and_is_cleared_away(objects: str) -> None:
    """What a killed process leaves in an object store has no progress file."""
    store = CheckpointStore(objects)
    store.save(progress(100), 0.1)
    files, root = fsspec.url_to_fs(objects)
    files.pipe_file(f"{root}/examples_000000200/state", b"half")
    assert content(store.last()) == "100"
    assert store.notes == []
    store.save(progress(300), 0.0)
    assert names(objects) == ["examples_000000100", "examples_000000300"]


def test_what_a_killed_process_left_in_a_folder_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".partial-x" / "examples_000000100").mkdir(parents=True)
    store = CheckpointStore(str(tmp_path))
    assert store.last() is None
    store.save(progress(100), 0.1)
    assert names(str(tmp_path)) == ["examples_000000100"]


def test_without_a_score_it_is_never_the_best(directory: str) -> None:
    store = CheckpointStore(directory)
    store.save(progress(100), None)
    assert store.best() is None
    assert (content(store.last()), names(directory)) == ("100", ["examples_000000100"])


def test_other_files_in_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    store = CheckpointStore(str(tmp_path))
    store.save(progress(100), 0.1)
    store.save(progress(200), 0.2)
    assert names(str(tmp_path)) == ["examples_000000200", "notes.txt"]
    assert (tmp_path / "examples_000000200" / PROGRESS_FILE).is_file()


def test_between_milestones_only_the_newest_is_kept_and_is_never_the_best(directory: str) -> None:
    store = CheckpointStore(directory)
    store.save(progress(100), 0.9)
    store.save(progress(200), 0.1)
    for examples in (250, 260):
        store.save(progress(examples, milestone=False), 5.0)
    kept = ["examples_000000100", "examples_000000200", "examples_000000260"]
    assert names(directory) == kept
    assert (content(store.best()), content(store.last())) == ("100", "260")
    said, newest = store.last_milestone(), store.last_progress()
    assert said is not None
    assert newest is not None
    assert (said.examples, said.milestone, said.score) == (200, True, 0.1)
    assert (newest.examples, newest.milestone, newest.score) == (260, False, None)


def test_saying_a_milestone_again_keeps_the_newer_one_that_training_goes_on_from(
    directory: str,
) -> None:
    CheckpointStore(directory).save(progress(100), 0.9)
    CheckpointStore(directory).save(progress(150, milestone=False), None)
    CheckpointStore(directory).save(progress(100), 0.9)
    assert content(CheckpointStore(directory).last()) == "150"


def test_a_milestone_replaces_what_was_written_on_the_way_to_it(directory: str) -> None:
    store = CheckpointStore(directory)
    store.save(progress(100, milestone=False), None)
    assert store.last_milestone() is store.best() is None
    store.save(progress(100), 0.5)
    store.save(progress(100, milestone=False), None)
    said = store.last_milestone()
    assert said is not None
    assert (said.examples, said.score) == (100, 0.5)


def test_what_is_kept_can_be_dropped(directory: str) -> None:
    store = CheckpointStore(directory)
    for examples, score in ((100, 0.1), (200, 0.7), (300, 0.3)):
        store.save(progress(examples), score)
    store.save(progress(310, milestone=False), None)
    store.keep_best_only()
    store.keep_best_only()
    assert names(directory) == ["examples_000000200"]
    store.drop_all()
    store.drop_all()
    assert store.last() is None
    assert not left(directory)


def test_an_object_store_is_not_asked_at_each_save_what_others_have_written(
    objects: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, looks = fsspec.filesystem("memory"), []

    def ls(path: str, *args: Any, **given: Any) -> Any:
        looks.append(path)
        return listed(path, *args, **given)

    store, listed = CheckpointStore(objects), files.ls
    assert store.last() is None
    monkeypatch.setattr(store._place.files, "ls", ls)  # type: ignore[attr-defined]
    for examples in (100, 200, 300):
        store.save(progress(examples), -examples)
    assert not [path for path in looks if path.endswith("/trial")]
    assert names(objects) == ["examples_000000100", "examples_000000300"]


def test_what_a_failed_upload_left_is_looked_for_at_once(
    objects: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two(folder: Path) -> None:
        (folder / "a").write_text("a")
        (folder / "b").write_text("b")

    store = CheckpointStore(objects)
    store.save(progress(100), 0.1)
    put = store._place.files.put_file  # type: ignore[attr-defined]

    def fails(file: str, target: str) -> None:
        if target.endswith("/b"):
            raise PermissionError(target)
        put(file, target)

    with monkeypatch.context() as broken:
        broken.setattr(store._place.files, "put_file", fails)  # type: ignore[attr-defined]
        with pytest.raises(OSError, match="refuses this user"):
            store.save(progress(200, two), 0.2)
    store.save(progress(300), 0.3)
    assert names(objects) == ["examples_000000300"]


def test_a_process_that_was_cut_off_drops_nothing_of_the_one_that_went_on(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off = CheckpointStore(directory)
    cut_off.save(progress(100), 0.1)
    went_on = CheckpointStore(directory)
    for examples in (200, 300):
        went_on.save(progress(examples), examples / 1000)
    monkeypatch.setattr(checkpoints, "LOOK_SECONDS", 0.0)  # it was cut off for longer
    cut_off.save(progress(200), 0.2)  # it has not heard of anything
    assert content(CheckpointStore(directory).last()) == "300"
    went_on.save(progress(400), 0.1)
    assert content(CheckpointStore(directory).last()) == "400"
    assert content(CheckpointStore(directory).best()) == "300"
