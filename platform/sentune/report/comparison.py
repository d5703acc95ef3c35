"""The paper's figures beside the study's own, with what keeps them from being compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sentune.formatting import measured, percent
from sentune.report.blocks import Block, Cell, Row, Table, Text, metric_cell
from sentune.report.published import PublishedFigure, data_sets, papers, published_figures
from sentune.report.view import View

KINDS = {
    "rte": "labelled-pairs",
    "direction": "labelled-pairs",
    "ambiguous-rte": "pairs-of-several-labels",
    "csts": "conditioned-pairs",
    "fusion": "operations",
    "difference": "operations",
    "compression": "operations",
    "reconstruction": "operations",
}
"""Task -> kind of corpus that poses it; everything else is scored pairs."""
SLICED = re.compile(r"[?&](rows|premises|size)=")
HEADS = ("paper", "metric", "judged on", "the paper", "ours", "ours judged on",
         "differs in")  # fmt: skip
ELSEWHERE = "data judged on"
"""Difference of a figure that was not measured on the paper's data set, whole and alone."""


class Ours(NamedTuple):
    """The study's figure of a metric, the corpora that it was measured on, and what differs."""

    metric: str
    value: Cell
    judged_on: str
    differences: Sequence[str]


def comparison(view: View) -> list[Block]:
    """A row for each published figure whose metric the study has; none where there is none."""
    theirs = [figure for figure in published_figures() if _is_of(view, figure)]
    rows, grid = [*_rows(view, theirs)], _grid(view)
    if not rows and grid is None:
        return []
    encoder = view.encoder or "an encoder that the summary does not name"
    corpus = view.summary.corpora.get("corpus")
    trained = f"{corpus['spec']} ({corpus.get('rows', 0):,} rows)" if corpus else "no corpus"
    blocks: list[Block] = [Text(f"Ours: {encoder}, trained on {trained}.")]
    described = (f"{one.trained.encoder}, trained on {one.trained.corpus}" for one in theirs)
    blocks += [Text(f"The paper: {said}.") for said in dict.fromkeys(described)]
    differ = sum(bool(row[-1]) for row in rows)
    if differ or grid is not None:
        lead = "Not a reproduction" if differ == len(rows) else "Not all are reproductions"
        text = f"{lead}: encoder or corpora differ from the paper's, as the last column says."
        blocks.append(Text(text, "warning"))
    if rows:
        blocks.append(Table(heads=HEADS, rows=rows))
    return blocks if grid is None else [*blocks, grid]


def _is_of(view: View, figure: PublishedFigure) -> bool:
    """Whether the study's winner is of the method and the settings of a paper's row."""
    winner = view.winner or view.best
    if figure.row.method != view.summary.method or winner is None:
        return False
    settings = {**view.summary.space.get("fixed", {}), **winner.settings}
    wanted = figure.row.settings
    return all(settings[name] in wanted[name] for name in wanted.keys() & settings.keys())


def _rows(view: View, theirs: Sequence[PublishedFigure]) -> Iterator[Row]:
    """Of each metric what was judged on the study's own data set, or else all that there is."""
    known: dict[str, list[tuple[PublishedFigure, Ours]]] = {}
    for figure in theirs:
        if (ours := _ours(view, figure)) is not None:
            known.setdefault(ours.metric, []).append((figure, ours))
    for found in known.values():
        alike = [(figure, ours) for figure, ours in found if ELSEWHERE not in ours.differences]
        for figure, ours in alike or found:
            yield [
                f"{figure.paper.paper}, {figure.table.name}: {figure.row.name}",
                ours.metric,
                figure.column.data,
                Cell(percent(figure.percent / 100), figure.percent),
                ours.value,
                ours.judged_on,
                ", ".join(ours.differences),
            ]


def _ours(view: View, figure: PublishedFigure) -> Ours | None:
    """The study's own figure: on test where it was measured there, else on dev.

    A task over a second corpus has that corpus' format in its name (``compression-gigaword``).
    """
    summary, wanted = view.summary, data_sets()[figure.column.data]
    task, _, rest = figure.metric.partition("/")
    own = f"{task}-{wanted.format}/{rest}"
    known = (m for m in (own, figure.metric) if m in summary.test or m in view.measured)
    if (metric := next(known, None)) is None:
        return None
    if metric in summary.test:
        part, value = "test", metric_cell(metric, summary.test[metric])
    else:
        part, value = "dev", Cell(view.on_dev(metric), view.measured[metric].mean)
    kind = KINDS.get(task, "scored-pairs")
    specs = [
        spec
        for role, corpus in summary.corpora.items()
        if role.partition("-")[0] == part
        and corpus.get("kind", kind) == kind
        # of TASK=FORMAT:PATH without the task
        and (spec := str(corpus["spec"]).removeprefix(f"{corpus.get('task', '')}="))
        and spec.startswith(wanted.format if metric == own else "")
    ]
    differences = []
    if figure.trained.encoder.lower() not in view.encoder.lower().rpartition("/")[2]:
        differences.append("encoder")
    if not _trained_alike(view, figure):
        differences.append("training corpus")
    found, _, path = specs[0].partition(":") if len(specs) == 1 else ("", "", "")
    whole = wanted.word in path.lower() and not SLICED.search(path)
    if found != wanted.format or not whole:
        differences.append(ELSEWHERE)
    judged_on = f"{part}: {', '.join(specs) or 'not said'}"
    return Ours(metric, value, judged_on, differences)


def _trained_alike(view: View, figure: PublishedFigure) -> bool:
    """The same formats, whole, and as many rows as the paper counts."""
    trained, roles = figure.trained, view.summary.corpora
    corpora = [corpus for role, corpus in roles.items() if role.partition("-")[0] == "corpus"]
    specs = [str(corpus["spec"]) for corpus in corpora]
    formats = {spec.partition(":")[0] for spec in specs}
    whole = not any(SLICED.search(spec) for spec in specs)
    rows = sum(corpus.get("rows", 0) for corpus in corpora)
    return formats == set(trained.formats) and whole and trained.rows in (None, rows)


def _grid(view: View) -> Table | None:
    """A paper's table over two settings of the study's method, with the study's own cells.

    None where there is no such table, or the study has none of its cells.
    """
    grids = (
        (paper.paper, table)
        for paper in papers()
        for table in paper.tables
        if table.is_grid and table.rows[0].method == view.summary.method
    )
    paper, table = next(grids, ("", None))
    if table is None:
        return None
    rows: list[list[Cell | str]] = []
    for row in table.rows:
        settings = {name: allowed[0] for name, allowed in row.settings.items()}
        cells: list[Cell | str] = [row.name]
        for column, figure in zip(table.columns, row.figures, strict=True):
            mine = _best(view, column.metric, settings | column.settings)
            text = percent(figure / 100)
            cells.append(Cell(f"{text} ({mine})", strong=True) if mine else text)
        rows.append(cells)
    if not any(isinstance(cell, Cell) for cells in rows for cell in cells):
        return None
    (across,), (down,) = table.columns[0].settings, table.rows[0].settings
    heads = [down, *(f"{column.settings[across]:g}" for column in table.columns)]
    said = f"{table.caption} In brackets the same cell of this study on its own dev."
    caption = f"{paper}, {table.name}: {down} down, {across} across. {said}"
    return Table(heads=heads, rows=rows, caption=caption)


def _best(view: View, metric: str, settings: dict[str, Any]) -> str | None:
    """The best trial's value among those of exactly these settings."""
    for trial in view.ranked:
        value = view.value(trial, metric)
        if value is not None and all(trial.settings.get(n) == v for n, v in settings.items()):
            return measured(metric, value)
    return None
