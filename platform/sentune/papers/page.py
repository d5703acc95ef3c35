"""A reproduced table of a paper as Markdown, HTML and CSV, with the differences from the paper."""

from __future__ import annotations

import math
import re
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from sentune.io.atomic import write_document
from sentune.papers.make import PUBLISHED_ONLY, MadeTable
from sentune.papers.table import every
from sentune.report.blocks import Block, Cell, Row, Section, StudyReport, Table, Text
from sentune.report.published import PublishedTable, data_sets
from sentune.report.render import to_html, to_markdown


def write(name: str, made: MadeTable, folder: Path) -> list[Path]:
    """Write ``NAME.md``, ``NAME.html`` and ``NAME.csv``, and return their paths.

    Raises:
        StorageError: the disk is full, read-only or faulty.
    """
    page, stem = report(name, made), name.replace("/", "-")
    contents = {"md": to_markdown(page), "html": to_html(page), "csv": to_csv(made)}
    return [
        Path(write_document(str(folder), f"{stem}.{kind}", text, option="--out"))
        for kind, text in contents.items()
    ]


def comparison_table(made: MadeTable) -> Table:
    """Return a table with two lines for each row of the paper's: its figures and ours."""
    heads = ["", "", *(", ".join(column.header) for column in made.table.columns)]
    rows: list[Row] = []
    for row in dict.fromkeys(cell.row for cell in made.cells):
        cells = [cell for cell in made.cells if cell.row == row]
        rows.append([row, "paper", *(Cell(_figure(cell.paper), cell.paper) for cell in cells)])
        if all(cell.reason == PUBLISHED_ONLY for cell in cells):
            continue
        ours = (Cell(_figure(cell.ours), cell.ours, strong=True) for cell in cells)
        rows.append(["", "ours", *ours])
    return Table(heads=heads, rows=rows, caption=made.table.caption)


def differences(made: MadeTable) -> list[str]:
    """Return sentences on what differs from the paper, with paths relative to the data folder."""
    said = []
    for trained in dict.fromkeys(c.trained or made.table.trained for c in made.table.columns):
        said.append(f"Paper: {_trained(made, trained)}.")
    for row in made.table.rows:
        if row.trained:
            said.append(f"Paper, {row.name}: {_trained(made, row.trained)}.")
    for study in made.studies:
        options = study.options
        start = options.get("encoder") or options.get("vectors") or "the job's default"
        start = ", ".join(start) if isinstance(start, tuple) else start
        start += f", decoder {options['decoder']}" if "decoder" in options else ""
        corpora = options["corpus"]
        corpus = corpora if isinstance(corpora, str) else ", ".join(corpora)
        rest = "".join(f"; {difference}" for difference in study.differs)
        said.append(f"Study {study.name}: {start}, trained on {corpus}{rest}; a single model.")
    said += made.notes
    judged: dict[str, set[str]] = {}
    for cell in made.cells:
        if cell.judged_on:
            judged.setdefault(cell.data, set()).add(cell.judged_on)
    said += [f"{data}: evaluated on {', '.join(sorted(on))}." for data, on in judged.items()]
    reasons = dict.fromkeys(cell.reason for cell in made.cells if cell.reason)
    if reasons.pop(PUBLISHED_ONLY, 0) is None:
        only = dict.fromkeys(c.row for c in made.cells if c.reason == PUBLISHED_ONLY)
        said.append(f"Published figures only: {', '.join(only)}.")
    for reason in reasons:
        data = data_sets().get(reason.removesuffix(" not found"))
        source = f"; source: {data.source}" if data is not None else ""
        said.append(f"Empty cells: {reason}{source}.")
    below = re.compile(rf"(?<=[:\s]){re.escape(str(made.folder))}/")
    return [below.sub("", line) for line in said]


def report(name: str, made: MadeTable) -> StudyReport:
    """Return the page of a table as a report."""
    blocks: list[Block] = [comparison_table(made)]
    blocks += [Text(said, "note") for said in differences(made)]
    sections = [Section("ours", "Our figures and the paper's, in percent", blocks)]
    if said := made.table.text.strip("\n"):
        code = Text(said.expandtabs(16), "code")
        sections.append(Section("paper", "The table as printed in the paper", [code]))
    whole = all(c.ours is not None for c in made.cells if c.reason != PUBLISHED_ONLY)
    state = "complete" if whole else "with gaps"
    return StudyReport(
        title=f"{made.paper.paper}, {made.table.name}",
        state=state,
        subtitle=f"{made.paper.title}. sentune paper run {name}",
        sections=sections,
    )


def rows_by_state() -> str:
    """Return a Markdown table with the command of each table and figure, the rows that it
    reproduces, and the rows that are published only."""
    lines = ["| command | runs | published only |", "|---|---|---|"]
    for name, _, found in every():
        if isinstance(found, PublishedTable):
            runs = [row.name for row in found.rows if row.method or row.model]
            only = [row.name for row in found.rows if row.name not in runs]
        else:
            runs, only = [line.name for line in found.lines] or list(found.lengths), []
        cells = [f"`sentune paper run {name}`", "; ".join(runs), "; ".join(only)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def to_csv(made: MadeTable) -> str:
    """Return the cells as CSV, one per line, with figures in percent."""
    table = pd.DataFrame(asdict(cell) for cell in made.cells)
    table["column"] = table["column"].str.join(", ")
    table["ours"] = table["ours"].map(_figure)
    return str(table.to_csv(index=False))


def _trained(made: MadeTable, name: str) -> str:
    theirs = made.paper.trained[name]
    decoder = f", decoder {theirs.decoder}" if theirs.decoder else ""
    return f"{theirs.encoder}{decoder}, trained on {theirs.corpus}"


def _figure(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.2f}"
