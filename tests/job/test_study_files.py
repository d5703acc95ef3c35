"""What a start of a study finds of the one before it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from search_spaces.gumbel import SPACE
from sentune.errors import StudyConflict
from sentune.job.options import JobOptions, OperationOptions, parse
from sentune.job.product import _card
from sentune.job.study_files import (
    describe,
    last_start,
    mend_summary,
    origin,
    start_summary,
    summary_of,
)
from sentune.job.test_set import TestReads, Winner
from sentune.report.view import View
from sentune.study.config import StudyConfig
from sentune.study.space.objectives import Objective
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.file_lock import LOCK_FILE
from sentune.study.store.storage import storage_url
from sentune.study.store.study_index import find_study
from sentune.study.store.study_view import StudyView
from tests.study.study_folders import make_study


def test_a_forced_reading_of_test_corpora_is_not_forced_at_the_next_start(tmp_path: Path) -> None:
    config = StudyConfig(name="new", storage=str(tmp_path), max_examples=10, trials=1)
    describe(config, JobOptions(study="new", force_test=True, trials=3), SPACE, None)
    kept = json.loads(Path(config.folder, "study.json").read_text())["options"]
    again = parse({}, JobOptions(**kept))
    assert (again.trials, again.force_test) == (3, False)


@pytest.mark.parametrize("described", ['{"forked_from": "old"}', '{"forked_f', None])
def test_a_fork_keeps_its_origin_though_its_description_is_damaged(
    tmp_path: Path, described: str | None
) -> None:
    config = StudyConfig(name="new", storage=str(tmp_path), max_examples=10, trials=1)
    folder = Path(config.folder)
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"forked_from": "old"}))
    if described is not None:
        (folder / "study.json").write_text(described)
    assert origin(config) == ("old" if described else None)
    (folder / "summary.json").write_text("{")
    assert origin(config) == ("old" if described and described.endswith("}") else None)


READ = {"run": "0001", "trial": 1, "test": [], "time": "2026-01-02T03:04:05", "forced": False}


@pytest.mark.parametrize("end", ["", '], "trials": [\xff', '\n], "version": 99}'])
def test_a_damaged_summary_is_set_aside_and_its_reading_kept(tmp_path: Path, end: str) -> None:
    content = b'{"state": "complete", "test_reads": [' + json.dumps(READ).encode()
    (tmp_path / "summary.json").write_bytes(content + end.encode("latin-1"))
    damage = mend_summary(str(tmp_path))
    assert f"{tmp_path}/summary.json: it is damaged" in damage
    assert f"{tmp_path}/damaged-summary.json" in damage
    assert (tmp_path / "damaged-summary.json").read_bytes().startswith(content)
    assert not (tmp_path / "summary.json").exists()
    if end:  # else the list itself is cut
        assert json.loads((tmp_path / "test_reads.json").read_text()) == [READ]
        with pytest.raises(StudyConflict, match="read on 2026-01-02 03:04 UTC for 0001"):
            TestReads(str(tmp_path)).begin(Winner(run="0002", trial=2), ["snli:a"], force=False)
    assert mend_summary(str(tmp_path)) == ""


def test_a_study_that_was_moved_names_its_own_model(tmp_path: Path) -> None:
    make_study(tmp_path, summary={"state": "complete", "model": "/gone/toy/model"})
    seen = StudyView(find_study(str(tmp_path), "toy")).snapshot()
    assert summary_of(seen)["model"] == f"{tmp_path}/toy/model"


def test_a_study_that_runs_has_a_front(tmp_path: Path) -> None:
    make_study(tmp_path)
    seen = StudyView(find_study(str(tmp_path), "toy")).snapshot()
    score, same = seen.objective, Objective(seen.objective.metric, "min")
    assert "front" not in summary_of(seen)
    found = summary_of(replace(seen, objectives=(score, Objective("toy/loss", "min"))))
    assert found["front"] == [5]
    assert summary_of(replace(seen, objectives=(score, same)))["front"] == [5, 2, 0]


def test_a_summary_names_the_decoder(tmp_path: Path) -> None:
    """One from scratch in place of a pretrained one was recorded nowhere that a reader looks."""
    config = StudyConfig(name="new", storage=str(tmp_path), max_examples=10, trials=1)
    job: Any = SimpleNamespace(config=config, space=SPACE, corpora=dict, derived=dict)
    job.options = OperationOptions(study="new", encoder="roberta-base", decoder="bart-base")
    summary = start_summary(job)
    assert summary.lineage["decoder"] == View(summary=summary).decoder == "bart-base"
    assert _card(summary)["Started from"] == {"encoder": "roberta-base", "decoder": "bart-base"}
    job.options = JobOptions(study="new")
    plain = start_summary(job)
    assert "decoder" not in plain.lineage
    assert "Started from" not in _card(plain)


def test_readings_that_stand_in_their_own_file_are_not_touched(tmp_path: Path) -> None:
    own = [READ, {**READ, "forced": True}]
    (tmp_path / "test_reads.json").write_text(json.dumps(own))
    (tmp_path / "summary.json").write_text('{"test_reads": [], "sta')
    assert mend_summary(str(tmp_path))
    assert TestReads(str(tmp_path)).known == own


def test_a_damaged_summary_in_an_object_store_is_set_aside() -> None:
    files = fsspec.filesystem("memory")
    files.pipe_file("/mend/study/summary.json", b"{")
    assert "memory://mend/study/damaged-summary.json" in mend_summary("memory://mend/study")
    assert files.cat_file("/mend/study/damaged-summary.json") == b"{"
    assert not files.exists("/mend/study/summary.json")
    files.store.clear()


def test_the_number_of_a_start_outlives_the_record_of_its_lock(tmp_path: Path) -> None:
    """A killed start has left no summary, but checkpoints of its number."""
    config = StudyConfig(name="s", storage=str(tmp_path), max_examples=9)
    url = storage_url(config.folder, None)

    def start() -> int:
        with DriverLock(url, "s", last_start=last_start(config.folder)) as lock:
            options = JobOptions(study="s", storage=str(tmp_path))
            describe(config, options, SPACE, None, lock.generation)
            return lock.generation

    assert [start(), start()] == [1, 2]
    Path(config.folder, LOCK_FILE).unlink()
    assert start() == 3
