"""Tables and pictures of a finished study, beside it and as artifacts of its run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fsspec

from sentune.readouts.sweep import sweeps_among
from sentune.records import StudySummary, TrialRecord
from sentune.report import build, write
from sentune.report.readouts import CURVE_FILE
from sentune.tracking.environment import local_folder
from sentune.tracking.plots import draw
from sentune.tracking.sweeps import write_sweeps


def exhibits_folder(storage: str, study: str) -> Path:
    """``exhibits/`` in a local study's folder; for a URI one in the home folder.

    It stays: MLflow may get its copy at a later start.
    """
    return local_folder(storage, study) / "exhibits"


def exhibit(
    summary: StudySummary,
    tables: Mapping[str, Any],
    folder: Path,
) -> None:
    """Writes tables and draws pictures.

    Args:
        tables: file name -> content of the winner's larger results. Those that an earlier start
            has written stay where this one has none.
    """
    for name, content in tables.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content), encoding="utf-8")
    draw(summary, folder, curves=_curves(folder))
    write_sweeps(sweeps_among(tables), folder)


def write_page(
    summary: StudySummary,
    trials: Sequence[TrialRecord],
    storage: str,
) -> str:
    """Writes the study's report as a page and as Markdown.

    Args:
        summary: of the study, in whatever state it ended.
        trials: with their curves.
        storage: of all studies; where that is a URI, the report goes there too.

    Returns:
        Where the page stands.
    """
    exhibits = exhibits_folder(storage, summary.study)
    pages = write(build(summary, trials, exhibits), exhibits.parent)
    if "://" not in storage:
        return str(pages[0])
    files, root = fsspec.url_to_fs(f"{storage}/{summary.study}")
    for page in pages:
        files.put_file(str(page), f"{root}/{page.name}")
    return f"{storage}/{summary.study}/{pages[0].name}"


def _curves(folder: Path) -> dict[str, tuple[list[float], list[float]]]:
    """Task -> precision and recall, of every task that has a curve."""
    found = {}
    for file in sorted(folder.rglob(CURVE_FILE)):
        curve = json.loads(file.read_text(encoding="utf-8"))
        found[file.parent.name] = (curve["precision"], curve["recall"])
    return found
