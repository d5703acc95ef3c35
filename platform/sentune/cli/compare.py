"""``sentune compare``: a leaderboard over studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from sentune.cli.options import Optuna, Storage
from sentune.cli.study import storage_of, view_of
from sentune.terminal import plain_table, print_line, say, screen


def compare(
    names: Annotated[list[str], Argument(metavar="STUDY...", help="Names of the studies.")],
    metric: Annotated[
        str | None,
        Option(metavar="TASK/METRIC", help="To compare by (default: the objective they share)."),
    ] = None,
    storage: Storage = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write it as a page as well.")] = None,
    optuna: Optuna = None,
) -> None:
    """Compare studies of any methods by one metric: error bars, and which differ."""
    from sentune.io.atomic import write_document
    from sentune.job.artifacts import view_of as report_view
    from sentune.report.leaderboard import NOTE, leaderboard_report, leaderboard_table
    from sentune.report.render import to_html

    place = storage_of(storage)
    views = [report_view(view_of(name, storage, optuna).snapshot(), place) for name in names]
    shown = leaderboard_table(views, metric)
    table = plain_table(
        *(column.head for column in shown.columns), title=shown.caption, header_style="dim"
    )
    for line in shown.lines:
        table.add_row(*(cell.text for cell, _ in line), style="bold" if line[0][0].strong else "")
    console = screen()
    console.print(table)
    print_line(console, NOTE)
    if html is not None:
        page = to_html(leaderboard_report(views, metric))
        say(write_document(str(html.parent), html.name, page))
