"""What a finished study leaves beside its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sentune.job.artifacts import artifacts_folder, write_artifacts
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
