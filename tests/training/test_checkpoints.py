"""Best and last are kept, whole or not at all, in a folder and in an object store alike."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from sentune.errors import Overtaken
from sentune.io.checksums import damage
from sentune.training import checkpoints
from sentune.training.checkpoint_storage import PROGRESS_FILE
from sentune.training.checkpoints import CheckpointStore, name_of
from sentune.training.trial import Progress


def progress(
    examples: int, save: Callable[[Path], None] | None = None, *, milestone: bool = True
) -> Progress:
    def write(folder: Path) -> None:
        (folder / "state").write_text(str(examples))

    return Progress(
        examples=examples,
        metrics={"task/metric": examples / 1000},
        readouts={"task/readout": 0.5},
        final=examples == 400,
        save=save or write,
        tables={"curve.json": [1, 2]},
        milestone=milestone,
    )


@pytest.fixture(params=["path", "uri", "memory"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://checkpoints/trial"
        fsspec.filesystem("memory").store.clear()
    else:
        yield f"file://{tmp_path}/trial" if request.param == "uri" else str(tmp_path / "a[1] trial")


@pytest.fixture
def objects() -> Iterator[str]:
    yield "memory://checkpoints/trial"
    fsspec.filesystem("memory").store.clear()


def content(folder: Path | None) -> str:
    assert folder is not None
    return (folder / "state").read_text()


def names(directory: str) -> list[str]:
    files, root = fsspec.url_to_fs(directory)
    return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in files.ls(root, detail=False))


def left(directory: str) -> list[str]:
    """Files below a folder that may be gone."""
    files, root = fsspec.url_to_fs(directory)
    return [path for path, _, found in files.walk(root) if found]


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


OURS = {"method": "gumbel", "settings": {"learning_rate": 1e-5}, "seed": 0, "code": "c0de"}
THEIRS = {**OURS, "settings": {"learning_rate": 1e-3}}


def written_by(directory: str, identity: dict[str, Any], *at: int, generation: int = 1) -> None:
    store = CheckpointStore(directory, generation, identity)
    for examples in at:
        store.save(progress(examples), -examples)


@pytest.mark.parametrize(
    ("identity", "why"),
    [
        (THEIRS, "settings.learning_rate: was 0.001, is now 1e-05"),
        ({**OURS, "seed": 3}, "seed: was 3, is now 0"),
        ({**OURS, "code": "e1se"}, 'code: was "e1se", is now "c0de"'),
        ({}, "it does not say of which"),
    ],
)
def test_a_checkpoint_of_another_run_is_set_aside(
    directory: str, identity: dict[str, Any], why: str
) -> None:
    written_by(directory, identity, 100, 200)
    store = CheckpointStore(directory, 2, OURS)
    assert store.last() is store.best() is store.last_progress() is None
    assert store.notes == [
        f"checkpoint examples_000000{at} is of another run ({why}); started anew"
        for at in (100, 200)
    ]
    assert names(directory) == ["foreign-examples_000000200"], "the newest, for a look at it"
    store.save(progress(100), 0.1)
    again = CheckpointStore(directory, 3, OURS)
    assert content(again.last()) == content(again.best()) == "100"
    assert again.notes == []
    again.drop_all()
    assert not left(directory)


def test_of_two_runs_in_a_folder_its_own_is_taken_though_it_is_older_and_worse(directory: str):
    written_by(directory, OURS, 100)
    other = CheckpointStore(f"{directory}-other", identity=THEIRS)
    other.save(progress(200), 0.9)
    files, root = fsspec.url_to_fs(directory)
    files.mv(f"{root}-other/{name_of(200)}", f"{root}/{name_of(200)}", recursive=True)
    store = CheckpointStore(directory, 1, OURS)
    assert content(store.best()) == content(store.last()) == "100"
    assert len(store.notes) == 1


def test_one_of_another_run_that_appears_while_a_trial_runs_is_set_aside(directory: str):
    store = CheckpointStore(directory, 1, OURS)
    store.save(progress(100), 0.1)
    CheckpointStore(f"{directory}-other", identity=THEIRS).save(progress(150), 0.9)
    files, root = fsspec.url_to_fs(directory)
    files.mv(f"{root}-other/{name_of(150)}", f"{root}/{name_of(150)}", recursive=True)
    store._place._looked = -math.inf  # as when the last look is LOOK_SECONDS old
    store.save(progress(200), 0.2)
    assert names(directory) == ["examples_000000200", "foreign-examples_000000150"]
    assert store.notes[0].endswith("it was set aside")


def test_the_identity_stands_under_the_checksum(tmp_path: Path) -> None:
    written_by(str(tmp_path), OURS, 100)
    file = tmp_path / name_of(100) / PROGRESS_FILE
    document = json.loads(file.read_text())
    assert document["identity"] == OURS
    document["identity"] = THEIRS
    file.write_text(json.dumps(document))
    store = CheckpointStore(str(tmp_path), 1, THEIRS)
    assert store.last() is None
    assert "was damaged (checksum of progress.json)" in store.notes[0]


@pytest.mark.parametrize("identity", [OURS, THEIRS, {}])
def test_one_of_a_later_start_of_the_study_ends_this_one(
    directory: str, identity: dict[str, Any]
) -> None:
    """Whoever has written it: this start's number is not the last one any more."""
    store = CheckpointStore(directory, 4, OURS)
    store.save(progress(100), 0.1)
    written_by(directory, identity, 200, generation=5)
    store._place._looked = -math.inf
    with pytest.raises(Overtaken, match=r"start 5 of the study.*examples_000000200.*start 4"):
        store.save(progress(300), 0.3)
    with pytest.raises(Overtaken):
        CheckpointStore(directory, 4, OURS).last()
    assert "examples_000000200" in names(directory), "it is not ours to drop"
    assert "examples_000000300" not in names(directory)
    assert CheckpointStore(directory).last_progress().examples == 200, "a reader sees it"
    if identity == OURS:
        assert CheckpointStore(directory, 5, OURS).last_progress().examples == 200


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
        (flipped, "checksum of state"),
        (truncated, "state has 2 bytes of 3"),
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
    assert note.endswith("(checksum of state); took examples_000000200 for the best")


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


def test_one_of_an_older_version_has_no_checksums_and_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "examples_000000100"
    folder.mkdir()
    said = {"examples": 100, "metrics": {}, "readouts": {}, "tables": {}, "final": False}
    (folder / PROGRESS_FILE).write_text(json.dumps({**said, "score": 0.5}))
    assert CheckpointStore(str(tmp_path)).last() == folder


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
