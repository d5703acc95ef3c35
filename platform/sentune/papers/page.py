"""A table of a paper as Markdown, HTML and CSV: ours under the paper's, and what differs."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from sentune.io.atomic import write_document
from sentune.papers.make import MadeCell, MadeTable
from sentune.report.blocks import Block, Cell, Section, StudyReport, Table, Text
from sentune.report.published import data_sets
from sentune.report.render import to_html, to_markdown


def write(name: str, made: MadeTable, folder: Path) -> list[Path]:
    """Write ``NAME.md``, ``NAME.html`` and ``NAME.csv``, and return where they stand.

    Raises:
        StorageError: the disk is full, read-only or at fault.
    """
    page, stem = report(name, made), name.replace("/", "-")
    contents = {"md": to_markdown(page), "html": to_html(page), "csv": to_csv(made)}
    return [
        Path(write_document(str(folder), f"{stem}.{kind}", text)) for kind, text in contents.items()
    ]


def comparison_table(made: MadeTable) -> Table:
    """Return two lines for each row of a paper's table: the paper's figures and ours."""
    heads = ["", "", *(", ".join(column.header) for column in made.table.columns)]
    rows: list[list[Cell | str]] = []
    for row in dict.fromkeys(cell.row for cell in made.cells):
        cells = [cell for cell in made.cells if cell.row == row]
        rows.append([row, "paper", *(_figure(cell.paper) for cell in cells)])
        rows.append(["", "ours", *(Cell(_ours(cell), strong=True) for cell in cells)])
    return Table(heads=heads, rows=rows, numbers=tuple(heads[2:]), caption=made.table.caption)


def differences(made: MadeTable) -> list[str]:
    """Return what keeps our figures from being the paper's, a sentence each.

    Paths are below the folder of the data sets.
    """
    said = []
    for trained in dict.fromkeys(c.trained or made.table.trained for c in made.table.columns):
        theirs = made.paper.trained[trained]
        said.append(f"The paper: {theirs.encoder}, trained on {theirs.corpus}.")
    for study in made.studies:
        options = study.options
        start = options.get("encoder") or options.get("vectors") or "the job's default"
        start = ", ".join(start) if isinstance(start, tuple) else start
        corpora = options["corpus"]
        corpus = corpora if isinstance(corpora, str) else ", ".join(corpora)
        rest = "".join(f"; {difference}" for difference in study.differs)
        said.append(f"Study {study.name}: {start}, trained on {corpus}{rest}. One model.")
    judged: dict[str, set[str]] = {}
    for cell in made.cells:
        if cell.judged_on:
            judged.setdefault(cell.data, set()).add(cell.judged_on)
    said += [f"{data}: judged on {', '.join(sorted(on))}." for data, on in judged.items()]
    for reason in dict.fromkeys(cell.reason for cell in made.cells if cell.reason):
        names = [name for name in data_sets() if reason.startswith(f"{name} is")]
        source = f"; it is at {data_sets()[names[0]].source}" if names else ""
        said.append(f"Empty cells: {reason}{source}.")
    return [line.replace(f"{made.folder}/", "") for line in said]


def report(name: str, made: MadeTable) -> StudyReport:
    """Return the page of a table."""
    blocks: list[Block] = [comparison_table(made)]
    blocks += [Text(said, "note") for said in differences(made)]
    text = [Text(made.table.text.strip("\n").expandtabs(16), "code")]
    sections = [
        Section("ours", "Ours beside the paper's, in percent", blocks),
        Section("paper", "The table as the paper has it", text),
    ]
    state = "complete" if all(cell.ours is not None for cell in made.cells) else "with gaps"
    return StudyReport(
        title=f"{made.paper.paper}, {made.table.name}",
        state=state,
        subtitle=f"{made.paper.title}. sentune paper run {name}",
        sections=sections,
    )


def to_csv(made: MadeTable) -> str:
    """Return a line for each cell, figures in percent."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["row", "column", "data", "metric", "paper", "ours", "judged_on", "study", "reason"]
    )
    for cell in made.cells:
        paper = "" if math.isnan(cell.paper) else cell.paper
        ours = "" if cell.ours is None else f"{cell.ours:.2f}"
        header = ", ".join(cell.column)
        writer.writerow(
            [cell.row, header, cell.data, cell.metric, paper, ours, cell.judged_on, cell.study,
             cell.reason]
        )  # fmt: skip
    return out.getvalue()


def _figure(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def _ours(cell: MadeCell) -> str:
    return "" if cell.ours is None else f"{cell.ours:.2f}"
