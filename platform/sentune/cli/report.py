"""``sentune report``, ``compare`` and ``verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text
from typer import Argument, Option

from sentune.cli.options import Optuna, Storage, StudyName
from sentune.cli.study import place_of, storage_of, view_of
from sentune.errors import InvalidValue
from sentune.terminal import Terminal, plain_table, print_line, say, screen

if TYPE_CHECKING:
    from sentune.report import blocks
    from sentune.study.store.study_index import StudyPlace


def report(
    name: StudyName,
    storage: Storage = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Folder to write into (default: the study's own).")
    ] = None,
    optuna: Optuna = None,
) -> None:
    """Write report.html and report.md: a study's results, method, data and cost."""
    from sentune.job import artifacts
    from sentune.report import build, write

    study = view_of(name, storage, optuna).snapshot()
    pages, own = build(artifacts.view_of(study, storage_of(storage))), study.place.folder
    if out is None and (not own or "://" in own):
        fix = "the study has no folder on this machine; give --out DIR"
        raise InvalidValue("--out", "", fix)
    for path in write(pages, out or Path(own), "--out" if out else "--storage"):
        say(path)


def compare(
    names: Annotated[list[str], Argument(metavar="STUDY...", help="Names of the studies.")],
    metric: Annotated[
        str | None,
        Option(
            metavar="TASK/METRIC",
            help="Metric to compare by, task/metric or task/metric:min (default: the objective, "
            "which the studies must share).",
        ),
    ] = None,
    storage: Storage = None,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Write the table as an HTML page, too.")
    ] = None,
    optuna: Optuna = None,
) -> None:
    """Compare studies of any methods by one metric, with errors and significance tests."""
    from sentune.io.atomic import write_document
    from sentune.job.artifacts import view_of as report_view
    from sentune.report.leaderboard import NOTE, leaderboard_report, leaderboard_table
    from sentune.report.render import to_html

    place = storage_of(storage)
    views = [report_view(view_of(name, storage, optuna).snapshot(), place) for name in names]
    shown = leaderboard_table(views, metric)
    console = screen()
    console.print(screen_table(shown, title=shown.caption, header_style="dim"))
    print_line(console, NOTE)
    if html is not None:
        page = to_html(leaderboard_report(views, metric))
        say(write_document(str(html.parent), html.name, page, "--html"))


def screen_table(table: blocks.Table, **style: Any) -> Table:
    """Convert a table of a report to one for the terminal."""
    found = plain_table(*(column.head for column in table.columns), **style)
    for line in table.lines:
        found.add_row(*(cell.text for cell, _ in line), style="bold" if line[0][0].strong else "")
    return found


def verify(
    subject: Annotated[
        str,
        Argument(
            metavar="STUDY|MODEL",
            help="Name of a study, or a model: its folder or URI, or models:/NAME@champion.",
        ),
    ],
    storage: Storage = None,
    optuna: Optuna = None,
) -> None:
    """Verify the checksums of a study or a model, from corpora to model. Nothing is changed.

    Exit codes: 0 all files that exist match, 1 a file does not match, 2 a wrong value.
    """
    from sentune.job.verify import Outcome, verify_model, verify_study
    from sentune.training.model import MANIFEST, SETTINGS_FILE

    marks = {
        Outcome.HOLDS: Text("✓", "green"),
        Outcome.BROKEN: Text("✗", "red"),
        Outcome.ABSENT: Text("-", "dim"),
    }
    if "/" in subject or any(
        (Path(subject) / name).is_file() for name in (MANIFEST, SETTINGS_FILE)
    ):
        checks = [*verify_model(_model(subject))]
    else:
        checks = [*verify_study(_study(subject, storage, optuna))]
    table = plain_table(
        "", Column("what", no_wrap=True), Column("where", overflow="fold"), Column(overflow="fold")
    )
    for one in checks:
        table.add_row(marks[one.outcome], one.part, one.place, one.found)
    screen().print(table)
    broken = [one for one in checks if one.outcome is Outcome.BROKEN]
    if broken:
        first = broken[0]
        line = f"broken: {first.part} {first.place}: {first.found}"
        print_line(Terminal(stderr=True), line, "red")
        raise typer.Exit(1)
    gone = sum(one.outcome is Outcome.ABSENT for one in checks)
    hold = f"{len(checks) - gone} of {len(checks)} {'holds' if len(checks) - gone == 1 else 'hold'}"
    say(hold + (f", {gone} {'is' if gone == 1 else 'are'} not here" if gone else ""))


def _model(subject: str) -> str:
    """Return the path or URI of a model folder."""
    from sentune.embedder.load import folder_of
    from sentune.io.object_store import asked, files_at, names_in
    from sentune.training.model import MANIFEST, SETTINGS_FILE

    place = subject.rstrip("/")
    if place.startswith("models:/") or "://" not in place:
        place = str(folder_of(place).resolve())
    files, root = files_at(place)
    if not {MANIFEST, SETTINGS_FILE} & set(asked(place, lambda: names_in(files, root))):
        fix = "there is no model here; to verify a study, give its name, and --storage"
        raise InvalidValue("MODEL", subject, fix)
    return place


def _study(name: str, storage: str | None, optuna: str | None) -> StudyPlace:
    place = place_of(name, storage, optuna)
    if not place.folder:
        fix = "its folder is unknown; give the --storage of its job, and --optuna"
        raise InvalidValue("STUDY", name, fix)
    return place
