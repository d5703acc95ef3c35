"""What may go from disk, and what must not."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from study_folders import TRIALS, make_study, trial_of

from sentune.errors import DamagedFile
from sentune.study.runner.retention import abandoned_scratch, note_published, removable_of
from sentune.study.store.study_index import find_study
from sentune.study.store.study_view import StudyView
from sentune.training.checkpoints import CheckpointStore
from sentune.training.trial import Progress

DAMAGED = "damaged-examples_000000050"
FOREIGN = "foreign-examples_000000060"
PARTIAL = ".partial-abcd"


def checkpoints(folder: Path, run: str, scores: tuple[float, ...] = (0.2, 0.9, 0.5)) -> None:
    """Checkpoints at 100, 200 and 300 examples, a damaged, a foreign and an unfinished one."""
    store = CheckpointStore(str(folder / "trials" / run))
    for place, score in enumerate(scores, start=1):
        store.save(
            Progress(
                examples=100 * place,
                metrics={"toy/score": score},
                save=lambda into: (into / "state.bin").write_bytes(b"x" * 1000),  # type: ignore
            ),
            score,
        )
    for extra in (DAMAGED, FOREIGN, PARTIAL):
        (folder / "trials" / run / extra).mkdir()
        (folder / "trials" / run / extra / "state.bin").write_bytes(b"x" * 500)


def left(folder: Path) -> dict[str, set[str]]:
    """Run -> its checkpoints' examples and other entries."""
    return {
        run.name: {entry.name.removeprefix("examples_").lstrip("0") for entry in run.iterdir()}
        for run in sorted((folder / "trials").iterdir())
    }


def view(storage: Path) -> StudyView:
    return StudyView(find_study(str(storage), "toy"))


def collect(storage: Path) -> int:
    found = removable_of(view(storage))
    for one in found:
        one.drop()
    return sum(one.bytes for one in found)


def test_the_best_trials_keep_their_best_and_the_others_nothing(tmp_path: Path):
    told = {"options": {"keep": 2, "scheduler": "asha"}}
    folder = make_study(tmp_path, told=told)
    for run in ("0000", "0001", "0002", "0004", "0006", "0099"):
        checkpoints(folder, run)
    (folder / "ray-train" / "0000").mkdir(parents=True)
    (folder / "ray-train" / "0000" / "snapshot").write_bytes(b"x" * 77)
    before = left(folder)
    found = removable_of(view(tmp_path))
    assert left(folder) == before, "looking drops nothing"
    assert {one.why for one in found} == {
        "written in part",
        "damaged",
        "of another run",
        "scratch of Ray Train",
        "checkpoints that the study does not keep",
    }
    assert collect(tmp_path) >= 77 + 6 * 3 * 500 + 3 * 2 * 1000
    assert left(folder) == {
        "0002": {"200"},  # the best but number 5, which another study ran: its best checkpoint
        "0006": {"200", "300"},  # has not ended: best and newest
        "0099": {"200", "300"},  # of no trial that is known
    }
    assert not (folder / "ray-train").exists()
    assert removable_of(view(tmp_path)) == []


@pytest.mark.parametrize("state", ["stopped", "complete"])
def test_finalists_stay_until_the_winner_is_published(tmp_path: Path, state: str):
    folder = make_study(
        tmp_path, finals=((2, 1, 0.31), (0, 1, 0.5)), summary={"state": state}, told={"options": {}}
    )
    runs = ("finalist-0002-seed-1", "finalist-0000-seed-1")
    for run in runs:
        checkpoints(folder, run)
    if state == "complete":
        note_published(str(folder), runs[0])
    collect(tmp_path)
    kept = {runs[0]: {"200"}} if state == "complete" else {run: {"200"} for run in sorted(runs)}
    assert left(folder) == kept


def test_the_published_models_checkpoint_never_goes(tmp_path: Path):
    """Also where another trial is the best by now."""
    folder = make_study(tmp_path, told={"options": {"keep": 2}}, summary={"state": "stopped"})
    for run in ("0000", "0002"):
        checkpoints(folder, run)
    note_published(str(folder), "0000")
    collect(tmp_path)
    assert left(folder) == {"0000": {"200"}, "0002": {"200"}}


def test_a_damaged_note_of_the_published_run_is_named(tmp_path: Path):
    folder = make_study(tmp_path, summary={"state": "complete"})
    (folder / "published.json").write_text("{")
    with pytest.raises(DamagedFile, match=r"published\.json.*delete it"):
        collect(tmp_path)


@pytest.mark.parametrize(
    "options", [{"scheduler": "unknown"}, {"population": 4}, {"scheduler": "asha-promotion"}]
)
def test_where_trials_go_on_from_others_all_of_them_stay(tmp_path: Path, options: dict[str, Any]):
    trials = (trial_of(0.1), trial_of(0.2, state=TrialState.PRUNED, examples=100), *TRIALS)
    told: dict[str, Any] = {"options": {"keep": 1, "scheduler": "asha", **options}}
    folder = make_study(tmp_path, told=told, trials=trials)
    for run in ("0000", "0001"):
        checkpoints(folder, run)
    collect(tmp_path)
    assert left(folder) == {"0000": {"200", "300"}, "0001": {"200", "300"}}
    (folder / "summary.json").write_text(json.dumps({"state": "complete"}))
    collect(tmp_path)
    assert left(folder) == {}


def test_only_scratch_of_dead_drivers_is_abandoned(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in (f"sentune-tune-{os.getpid()}-a", "sentune-tune-999999999-b", "sentune-tune-c"):
        (tmp_path / name).mkdir()
    assert [path.name for path in abandoned_scratch()] == ["sentune-tune-999999999-b"]
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # another user's
    assert abandoned_scratch() == []


def test_scratch_of_one_study_is_not_that_of_another(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for study in ("toy", "my-toy", "toy-2"):
        (tmp_path / f"sentune-tune-999999999-{study}-x_y").mkdir()
    for study in ("toy", "my-toy", "toy-2"):
        assert [path.name for path in abandoned_scratch(study)] == [
            f"sentune-tune-999999999-{study}-x_y"
        ]
    assert len(abandoned_scratch()) == 3
