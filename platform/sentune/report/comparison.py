"""The paper's figures beside the study's own, with what keeps them from being compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sentune.formatting import measured, percent, spread
from sentune.report.published import (
    PublishedFigure,
    PublishedTable,
    TrainedOn,
    data_sets,
    papers,
    published_figures,
)
from sentune.report.render import Block, Cell, Section, Table, Text, columns
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


@dataclass(frozen=True, kw_only=True)
class Ours:
    """The study's figure: a metric, its value, and the corpora that it was measured on."""

    metric: str
    value: str
    specs: tuple[str, ...]
    part: str


def comparison(view: View) -> Section | None:
    """A row for each published figure whose metric the study has; None where there is none."""
    rows = _rows(view)
    grid = _grid(view)
    if not rows and grid is None:
        return None
    encoder = view.encoder or "an encoder that the summary does not name"
    trained = _spec(view, "corpus")
    said = Text(text=f"Ours: {encoder}, trained on {trained}.")
    blocks: list[Block] = [said, *_theirs(view)]
    differ = [line[-1].text for line in rows if line[-1].text]
    if differ or grid is not None:
        lead = "Not a reproduction" if len(differ) == len(rows) else "Not all are reproductions"
        text = f"{lead}: encoder or corpora differ from the paper's, as the last column says."
        blocks.append(Text(text=text, tone="warning"))
    if rows:
        blocks.append(_table(rows))
    if grid is not None:
        blocks.append(grid)
    return Section(name="paper", title="Beside the paper", blocks=blocks)


def _theirs(view: View) -> list[Text]:
    """What the papers' rows were trained on, and from what."""
    trained: list[TrainedOn] = []
    for one in published_figures():
        if _is_of(view, one) and one.trained not in trained:
            trained.append(one.trained)
    return [Text(text=f"The paper: {one.encoder}, trained on {one.corpus}.") for one in trained]


def _table(rows: list[list[Cell]]) -> Table:
    heads = columns(
        *("paper", "metric", "judged on", "the paper", "ours", "ours judged on"),
        "not a reproduction: other",
        numbers=("the paper", "ours"),
        wide=("ours judged on",),
    )
    return Table(columns=heads, rows=rows)


def _rows(view: View) -> list[list[Cell]]:
    """Of each metric what was judged on the study's own data set, or else all that there is."""
    known: dict[str, list[tuple[PublishedFigure, Ours]]] = {}
    for figure in published_figures():
        ours = _ours(view, figure) if _is_of(view, figure) else None
        if ours is not None:
            known.setdefault(ours.metric, []).append((figure, ours))
    rows = []
    for found in known.values():
        alike = [(figure, ours) for figure, ours in found if _judged_alike(figure.data, ours.specs)]
        rows += [_row(view, *one) for one in alike or found]
    return rows


def _row(view: View, figure: PublishedFigure, ours: Ours) -> list[Cell]:
    return [
        Cell(text=f"{figure.source}: {figure.row}"),
        Cell(text=ours.metric),
        Cell(text=figure.data),
        Cell(text=percent(figure.value)),
        Cell(text=ours.value),
        Cell(text=f"{ours.part}: {', '.join(ours.specs) or 'not said'}"),
        Cell(text=", ".join(_differences(view, figure, ours))),
    ]


def _is_of(view: View, figure: PublishedFigure) -> bool:
    """Whether the study's winner is of the method and the settings of a paper's row."""
    winner = view.winner or view.best
    if figure.method != view.summary.method or winner is None:
        return False
    settings = {**view.summary.space.get("fixed", {}), **winner.settings}
    return all(
        settings[name] in allowed for name, allowed in figure.where.items() if name in settings
    )


def _ours(view: View, figure: PublishedFigure) -> Ours | None:
    """The study's own figure: on test where it was measured there, else on dev.

    A task over a second corpus has that corpus' format in its name (``compression-gigaword``).
    """
    summary, wanted = view.summary, data_sets()[figure.data].format
    task, _, rest = figure.metric.partition("/")
    for metric, only in ((f"{task}-{wanted}/{rest}", wanted), (figure.metric, "")):
        if metric in summary.test:
            value, part = measured(metric, summary.test[metric]), "test"
        elif (over := view.measured.get(metric)) is not None:
            value, part = spread(metric, over, view.error(metric)), "dev"
        else:
            continue
        return Ours(metric=metric, value=value, specs=_specs(view, part, task, only), part=part)
    return None


def _specs(view: View, part: str, task: str, only: str) -> tuple[str, ...]:
    """The corpora of a part that pose a task; those of one format where ``only`` names it."""
    kind = KINDS.get(task, "scored-pairs")
    return tuple(
        str(corpus["spec"])
        for role, corpus in view.summary.corpora.items()
        if role.partition("-")[0] == part
        and corpus.get("kind", kind) == kind
        and str(corpus["spec"]).startswith(only)
    )


def _spec(view: View, role: str) -> str:
    corpus = view.corpus(role)
    return f"{corpus['spec']} ({corpus.get('rows', 0):,} rows)" if corpus else "no corpus"


def _differences(view: View, figure: PublishedFigure, ours: Ours) -> list[str]:
    found = []
    if figure.trained.encoder.lower() not in view.encoder.lower().rpartition("/")[2]:
        found.append("encoder")
    if not _trained_alike(view, figure):
        found.append("training corpus")
    if not _judged_alike(figure.data, ours.specs):
        found.append("data judged on")
    return found


def _trained_alike(view: View, figure: PublishedFigure) -> bool:
    """The same formats, whole, and as many rows as the paper counts."""
    trained = figure.trained
    corpora: list[Mapping[str, Any]] = [
        corpus
        for role, corpus in view.summary.corpora.items()
        if role.partition("-")[0] == "corpus"
    ]
    specs = [str(corpus["spec"]) for corpus in corpora]
    formats = {spec.partition(":")[0] for spec in specs}
    whole = not any(SLICED.search(spec) for spec in specs)
    rows = sum(corpus.get("rows", 0) for corpus in corpora)
    return formats == set(trained.formats) and whole and trained.rows in (None, rows)


def _judged_alike(name: str, specs: tuple[str, ...]) -> bool:
    """Whether one whole corpus alone is of the data set's format and, by its path, of its part."""
    wanted = data_sets()[name]
    if len(specs) != 1:
        return False
    found, _, path = specs[0].partition(":")
    return found == wanted.format and wanted.word in path.lower() and not SLICED.search(path)


def _grid(view: View) -> Table | None:
    """A paper's table over two settings of the study's method, with the study's own cells.

    None where there is no such table, or the study has none of its cells.
    """
    for paper in papers():
        for table in paper.tables:
            method = table.rows[0].method
            if table.is_grid and method == view.summary.method:
                return _cells(view, table, paper.paper)
    return None


def _cells(view: View, table: PublishedTable, paper: str) -> Table | None:
    rows, own = [], False
    for row in table.rows:
        cells = [Cell(text=row.name)]
        for column, figure in zip(table.columns, row.figures, strict=True):
            mine = _best(view, column.metric, {**_single(row.settings), **column.settings})
            own = own or mine is not None
            text = percent(figure / 100)
            cells.append(Cell(text=f"{text} ({mine})" if mine else text, strong=mine is not None))
        rows.append(cells)
    if not own:
        return None
    (across,), (down,) = table.columns[0].settings, table.rows[0].settings
    heads = columns(down, *(f"{c.settings[across]:g}" for c in table.columns))
    trained = f"{table.caption} In brackets the same cell of this study on its own dev."
    caption = f"{paper}, {table.name}: {down} down, {across} across. {trained}"
    return Table(columns=heads, rows=rows, caption=caption)


def _single(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: allowed[0] for name, allowed in settings.items()}


def _best(view: View, metric: str, settings: Mapping[str, Any]) -> str | None:
    """The best trial's value among those of exactly these settings."""
    for trial in view.ranked:
        value = view.value(trial, metric)
        if value is not None and all(trial.settings.get(n) == v for n, v in settings.items()):
            return measured(metric, value)
    return None
