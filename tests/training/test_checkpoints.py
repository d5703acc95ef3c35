"""Best and last are kept, whole or not at all, in a folder and in an object store alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from sentune.training.checkpoints import PROGRESS_FILE, CheckpointStore
from sentune.training.trial import Progress


def progress(
    examples: int, save: Callable[[Path], None] | None = None, *, milestone: bool = True
) -> Progress:
    def write(folder: Path) -> None:
        (folder / "state").write_text(str(examples))

    said = Progress(
        examples=examples,
        metrics={"task/metric": examples / 1000},
        readouts={"task/readout": 0.5},
        final=examples == 400,
        save=save or write,
        tables={"curve.json": [1, 2]},
    )
    said.milestone = milestone  # type: ignore[attr-defined, unused-ignore]
    return said


@pytest.fixture(params=["path", "uri", "memory"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://checkpoints/trial"
        fsspec.filesystem("memory").store.clear()
    else:
        yield f"file://{tmp_path}/trial" if request.param == "uri" else str(tmp_path / "a[1] trial")


def content(folder: Path | None) -> str:
    assert folder is not None
    return (folder / "state").read_text()


def names(directory: str) -> list[str]:
    files, root = fsspec.url_to_fs(directory)
    return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in files.ls(root, detail=False))


def test_nothing_yet(directory: str) -> None:
    store = CheckpointStore(directory)
    assert store.last() is store.best() is store.last_progress() is store.best_progress() is None


def test_keeps_best_and_last(directory: str) -> None:
    store = CheckpointStore(directory)
    for examples, score in ((100, 0.1), (200, 0.7), (300, 0.7), (400, 0.3)):
        store.save(progress(examples), score)
    assert names(directory) == ["examples_000000200", "examples_000000400"]
    assert (content(store.best()), content(store.last())) == ("200", "400")


def test_another_reader_finds_what_was_said(directory: str) -> None:
    CheckpointStore(directory).save(progress(400), 0.3)
    said = CheckpointStore(directory).last_progress()
    assert said is not None
    assert said.again(progress(400).save).metrics == {"task/metric": 0.4}
    assert (said.final, said.readouts, said.score) == (True, {"task/readout": 0.5}, 0.3)
    assert said.tables == {"curve.json": [1, 2]}


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


def test_half_a_checkpoint_is_none_and_is_cleared_away(directory: str) -> None:
    """What a killed process leaves has no progress file."""
    store = CheckpointStore(directory)
    store.save(progress(100), 0.1)
    files, root = fsspec.url_to_fs(directory)
    files.makedirs(f"{root}/examples_000000200", exist_ok=True)
    files.pipe_file(f"{root}/examples_000000200/state", b"half")
    assert content(store.last()) == "100"
    store.save(progress(300), 0.0)
    assert names(directory) == ["examples_000000100", "examples_000000300"]


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


def test_a_milestone_replaces_what_was_written_on_the_way_to_it(directory: str) -> None:
    store = CheckpointStore(directory)
    store.save(progress(100, milestone=False), None)
    assert store.last_milestone() is store.best() is None
    store.save(progress(100), 0.5)
    store.save(progress(100, milestone=False), None)
    said = store.last_milestone()
    assert said is not None
    assert (said.examples, said.score) == (100, 0.5)
