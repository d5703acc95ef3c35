"""A study's report: put together from a summary and its trials, and written beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentune.io.atomic import write_document
from sentune.records import StudySummary, TrialRecord
from sentune.report.charts import history, learning_curves
from sentune.report.comparison import comparison
from sentune.report.costs import costs
from sentune.report.document import Report, Section
from sentune.report.finals import finals
from sentune.report.html import to_html
from sentune.report.markdown import to_markdown
from sentune.report.origins import lineage
from sentune.report.overview import overview
from sentune.report.pareto import pareto
from sentune.report.readouts import readouts
from sentune.report.rungs import rungs
from sentune.report.settings import settings
from sentune.report.trials import notes, trials
from sentune.report.view import View, view

HTML, MARKDOWN = "report.html", "report.md"


def build(
    summary: StudySummary | Mapping[str, Any],
    records: Sequence[TrialRecord] = (),
    folder_with_exhibits: Path | None = None,
) -> Report:
    """The report of a study in any state.

    Args:
        summary: of the study, or the content of its ``summary.json``.
        records: its trials with their curves, from the store; a trial that is missing here is
            shown as the summary has it, without a curve.
        folder_with_exhibits: where a finished study left its sweeps (``exhibits/``).

    Raises:
        InvalidValue: the summary is of a later version or damaged, or an exhibit is.
    """
    seen = view(summary, records, folder_with_exhibits)
    made = [
        overview(seen),
        trials(seen),
        _search(seen),
        pareto(seen),
        settings(seen),
        rungs(seen),
        finals(seen),
        readouts(seen),
        comparison(seen),
        costs(seen),
        notes(seen),
        lineage(seen),
    ]
    return Report(
        title=seen.summary.study,
        state=seen.summary.state,
        subtitle=f"{seen.summary.method}, selected by {seen.summary.objective}",
        sections=[section for section in made if section is not None],
    )


def write(report: Report, folder: Path) -> tuple[Path, Path]:
    """Writes ``report.html`` and ``report.md`` into a folder, each at once or not at all.

    Returns:
        Where they stand.

    Raises:
        StorageError: the disk is full, read-only or at fault; the old files are as they were.
    """
    page = write_document(str(folder), HTML, to_html(report))
    return Path(page), Path(write_document(str(folder), MARKDOWN, to_markdown(report)))


def _search(seen: View) -> Section | None:
    pictures = [drawn for drawn in (history(seen), learning_curves(seen)) if drawn is not None]
    return Section(name="search", title="Search", blocks=pictures) if pictures else None
