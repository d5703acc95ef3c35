"""What a finished study leaves beside its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec
import pytest

from sentune.errors import InvalidValue
from sentune.job.artifacts import artifacts_folder, write_artifacts, write_page
from sentune.report.sweep_figures import read_artifact
from tests.report.studies import finished

SWEEP: dict[str, Any] = {
    "metric": "sts/pearson",
    "axes": {"components": [0, 1, 2]},
    "values": [0.1, 0.3, 0.2],
    "exact": {},
    "best": {"value": 0.3, "components": 1},
}


def test_tables_figures_and_their_page_stand_in_one_folder(tmp_path: Path) -> None:
    curve = {"precision": [1.0, 0.5], "recall": [0.0, 1.0]}
    tables = {"sts/sweep.json": SWEEP, "rte/precision_recall.json": curve}
    write_artifacts(finished(), tables, tmp_path)
    found = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert found == {
        *("sts/sweep.json", "sts/curve_components.png", "rte/precision_recall.json"),
        *("precision_recall.png", "history.png", "curves.png", "parallel.png", "survival.png"),
        *("finalists.png", "cost.png", "importance.png", "figures.html"),
    }
    assert json.loads((tmp_path / "sts" / "sweep.json").read_text()) == SWEEP
    write_artifacts(finished(), {}, tmp_path)  # a later start has no tables: the curve stays drawn
    assert (tmp_path / "precision_recall.png").exists()


def test_a_study_that_has_exhibits_keeps_them(tmp_path: Path) -> None:
    assert artifacts_folder(str(tmp_path), "new") == tmp_path / "new" / "artifacts"
    (tmp_path / "old" / "exhibits").mkdir(parents=True)
    assert artifacts_folder(str(tmp_path), "old") == tmp_path / "old" / "exhibits"


def test_a_page_of_a_remote_storage_lies_beside_the_studies_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    study = finished()
    store = fsspec.filesystem("memory")
    try:
        for slash in ("", "/"):
            write_page(study, f"memory://paged/studies{slash}")
        pages = {path.rpartition("/")[2] for path in store.find(f"/paged/studies/{study.study}")}
        assert pages == {"report.html", "report.md"}
        assert len(store.find("/paged")) == 2
    finally:
        store.rm("/paged", recursive=True)


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    file = tmp_path / "sweep.json"
    for content in (b"{", b'{"a": "\xff"}'):
        file.write_bytes(content)
        with pytest.raises(InvalidValue, match=r"artifact: .*sweep\.json.*the file is damaged"):
            read_artifact(file)
