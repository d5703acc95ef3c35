"""Checkpoints of another run are set aside; one of a later start of the study ends this one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import fsspec
import pytest

from sentune.errors import Overtaken
from sentune.training.checkpoint_storage import PROGRESS_FILE
from sentune.training.checkpoints import CheckpointStore, name_of
from tests.training.checkpoint_scenes import content, left, names, progress

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
        ({}, "the checkpoint does not name its run"),
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
