"""Writes the tables, figures and report of a study, which MLflow stores as artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fsspec

from sentune.io.atomic import write_document
from sentune.job.study_files import summary_of
from sentune.records import StudySummary
from sentune.report import build, write
from sentune.report.drawing import write_png
from sentune.report.figures import write_figures
from sentune.report.sweep_figures import curves_in, precision_recall, write_tables
from sentune.report.view import View, view
from sentune.study.interactive_page import INTERACTIVE, interactive_page
from sentune.study.store.study_index import is_database
from sentune.study.store.study_view import StudySnapshot
from sentune.tracking.environment import local_folder


def artifacts_folder(storage: str, study: str) -> Path:
    """Return the local folder of a study's artifacts; for a URI it is in the home folder.

    The folder is kept because MLflow may receive its copy at a later start. Up to version 0.2.0 it
    was called ``exhibits/``.
    """
    folder = local_folder(storage, study)
    old = folder / "exhibits"
    return old if old.exists() else folder / "artifacts"


def view_of(study: StudySnapshot, storage: str) -> View:
    """Return the report's view of a study; its storage may be the URL of a database.

    Raises:
        InvalidValue: its summary is damaged or was written by a later version.
    """
    artifacts = None if is_database(storage) else artifacts_folder(storage, study.name)
    return view(summary_of(study), study.trials, artifacts)


def write_artifacts(summary: StudySummary, tables: Mapping[str, Any], folder: Path) -> None:
    """Write tables, figures and the page of interactive figures into ``folder``.

    ``tables`` has the content of the winner's larger results by file name. A table of an earlier
    start stays unless this start has one of the same name.
    """
    write_tables(tables, folder)
    seen = View(summary=summary)
    write_figures(seen, folder)
    if (curves := precision_recall(curves_in(folder), seen.judged_on)) is not None:
        write_png(curves, folder, summary.study)
    write_document(str(folder), INTERACTIVE, interactive_page(summary))


def write_page(summary: StudySummary, storage: str) -> None:
    """Write the report of a study in any state as HTML and Markdown, also into a remote storage.

    The trials of the summary have their curves.
    """
    artifacts = artifacts_folder(storage, summary.study)
    pages = write(build(view(summary, folder=artifacts)), artifacts.parent)
    if "://" in storage:
        files, root = fsspec.url_to_fs(f"{storage.rstrip('/')}/{summary.study}")
        for page in pages:
            files.put_file(str(page), f"{root}/{page.name}")
