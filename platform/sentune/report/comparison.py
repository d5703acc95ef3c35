"""Comparison of a study's metrics with the figures of its paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import Any
from urllib.parse import parse_qsl

from sentune.formatting import percent
from sentune.report.blocks import Block, Cell, Row, Table, Text, metric_cell
from sentune.report.published import PublishedFigure, data_sets, published_figures
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
"""Task -> kind of corpus that it is evaluated on; scored pairs for all others."""
HEADS = ("paper", "metric", "data set", "published", "ours", "our data", "differs in")
PARTS = ("premises", "rows", "size", "split", "subsets")
"""Options of a corpus that select a part of it."""
ELSEWHERE = "evaluation data"
"""Difference of a metric that was not measured on exactly the paper's data set."""


def comparison(view: View) -> list[Block]:
    """Return a table of the published figures whose metrics the study has; empty without any."""
    theirs = [figure for figure in published_figures() if _is_of(view, figure)]
    if not (rows := _rows(view, theirs)):
        return []
    encoder = view.encoder or "unknown encoder"
    corpora = (f"{corpus['spec']} ({corpus.get('rows', 0):,} rows)" for corpus in _trained_on(view))
    trained = " and ".join(corpora) or "no corpus"
    blocks: list[Block] = [Text(f"Ours: {encoder}, trained on {trained}.")]
    described = (f"{one.trained.encoder}, trained on {one.trained.corpus}" for one in theirs)
    blocks += [Text(f"Paper: {said}.") for said in dict.fromkeys(described)]
    differ = [bool(row[-1]) for row in rows]
    if any(differ):
        rows_are = "No row is a reproduction" if all(differ) else "Not all rows are reproductions"
        text = f"{rows_are} of the paper: the last column lists the differences."
        blocks.append(Text(text, "warning"))
    return [*blocks, Table(heads=HEADS, rows=rows)]


def _is_of(view: View, figure: PublishedFigure) -> bool:
    """Return whether the study's winner has the method and all settings of a paper's row."""
    winner = view.winner or view.best
    row = figure.row
    if row.method != view.summary.method or row.options or row.encoder_of or winner is None:
        return False
    chosen = {name.rpartition("/")[2]: value for name, value in winner.readouts.items()}
    settings = {**chosen, **view.summary.space.get("fixed", {}), **winner.settings}
    return all(settings.get(name) in values for name, values in row.settings.items())


def _rows(view: View, theirs: Sequence[PublishedFigure]) -> list[Row]:
    """Return the rows on the study's evaluation data; for a metric without any, all its rows."""
    known: dict[str, list[list[Cell | str]]] = {}
    for figure in theirs:
        if (metric := _metric(view, figure)) is not None:
            known.setdefault(metric, []).append(_row(view, figure, metric))
    rows: list[Row] = []
    for found in known.values():
        rows += [row for row in found if ELSEWHERE not in row[-1]] or found
    return rows


def _metric(view: View, figure: PublishedFigure) -> str | None:
    """Return the study's name of a figure's metric, or None.

    The name of a task on a second corpus ends in the corpus' format (``compression-gigaword``).
    """
    task, _, rest = figure.metric.partition("/")
    own = f"{task}-{data_sets()[figure.column.data].format}/{rest}"
    known = (m for m in (own, figure.metric) if m in view.summary.test or m in view.measured)
    return next(known, None)


def _row(view: View, figure: PublishedFigure, metric: str) -> list[Cell | str]:
    """Return the table row of a published figure and the study's metric, on test if measured."""
    summary, wanted = view.summary, data_sets()[figure.column.data]
    if metric in view.on_test:
        part, value = "test", metric_cell(metric, view.on_test[metric], view.test_error(metric))
    else:
        part, value = "dev", Cell(view.on_dev(metric), view.measured[metric].mean)
    kind = KINDS.get(figure.metric.partition("/")[0], "scored-pairs")
    specs = [
        spec
        for role, corpus in summary.corpora.items()
        if role.partition("-")[0] == part
        and corpus.get("kind", kind) == kind
        # TASK=FORMAT:PATH without the task
        and (spec := str(corpus["spec"]).removeprefix(f"{corpus.get('task', '')}="))
        and spec.startswith("" if metric == figure.metric else wanted.format)
    ]
    differences = []
    if figure.trained.encoder.lower() not in view.encoder.lower().rpartition("/")[2]:
        differences.append("encoder")
    if figure.trained.decoder.lower() not in view.decoder.lower().rpartition("/")[2]:
        differences.append("decoder")
    if not _trained_alike(view, figure):
        differences.append("training corpus")
    if len(specs) != 1 or not is_data_set(specs[0], figure.column.data):
        differences.append(ELSEWHERE)
    return [
        f"{figure.paper.paper}, {figure.table.name}: {figure.row.name}",
        metric,
        figure.column.data,
        Cell(percent(figure.percent / 100), figure.percent),
        value,
        f"{part}: {', '.join(specs) or 'unknown'}",
        ", ".join(differences),
    ]


def is_data_set(spec: str, name: str) -> bool:
    """Return whether the corpus ``FORMAT:PATH`` is exactly the named data set, judged by its path.

    For a folder with several parts, the options alone tell which part is read.
    """
    wanted = data_sets()[name]
    path = spec.partition(":")[2].partition("?")[0]
    patterns = wanted.files or (f"*{wanted.word}*",)
    place = f"/{path}".lower().rstrip("/")
    named = wanted.folder or any(fnmatch(place, f"*/{one.lower()}") for one in patterns)
    return named and _part(spec) == _part(f"{wanted.format}:?{wanted.options}")


def _part(spec: str) -> tuple[str, dict[str, str]]:
    """Return the format of a corpus and the options that select a part of it."""
    found = spec.partition(":")[0]
    options = {name: value for name, value in parse_qsl(spec.partition("?")[2]) if name in PARTS}
    if found == "beir":
        options = {"split": "test"} | options  # the format's default
    return found, options


def _trained_on(view: View) -> list[Mapping[str, Any]]:
    """Return the training corpora of the summary."""
    roles = view.summary.corpora
    return [corpus for role, corpus in roles.items() if role.partition("-")[0] == "corpus"]


def _trained_alike(view: View, figure: PublishedFigure) -> bool:
    """Return whether the study trained on the paper's formats, complete, with as many rows."""
    trained, corpora = figure.trained, _trained_on(view)
    specs = [str(corpus["spec"]) for corpus in corpora]
    formats = {spec.partition(":")[0] for spec in specs}
    wanted = [data_sets()[name] for name in trained.data]
    parts = [_part(f"{one.format}:?{one.options}") for one in wanted]
    whole = all(_part(spec) in parts for spec in specs)
    rows = sum(corpus.get("rows", 0) for corpus in corpora)
    return formats == set(trained.formats) and whole and trained.rows in (None, rows)
