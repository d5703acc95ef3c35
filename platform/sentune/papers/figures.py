"""Reproduction of a paper's figure: curves over a swept readout, spectra, or a histogram."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from sentune.errors import CorpusError, SentuneError
from sentune.io.atomic import write_document
from sentune.papers.table import StudyChoices, Unavailable, study_of
from sentune.report.blocks import Block, Cell, Chart, Figure, Section, StudyReport, Table, Text
from sentune.report.drawing import UNSIGNED, canvas, to_canvas
from sentune.report.published import Paper, PlotLine, PublishedPlot, PublishedRow
from sentune.report.render import to_html

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.axes import Axes

    from sentune.study_result import StudyResult

EDGE, BINS = 3.0, 60
"""Largest absolute log ratio and number of bins of a histogram of length ratios."""


@dataclass(frozen=True)
class Line:
    """A named line of a plot."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


def make_plot(
    paper: Paper, plot: PublishedPlot, choices: StudyChoices, say: Callable[[str], None]
) -> tuple[list[Line], list[str]]:
    """Run or resume the studies of a figure.

    Returns:
        The lines, and sentences on what differs from the paper.

    Raises:
        SentuneError: a data set is missing; the message names it.
        StudyFailed: the trials of a study failed.
    """
    try:
        if plot.lengths:
            return _length_ratios(plot, choices)
        lines, differs = [], [f"Paper: {paper.trained[plot.trained].encoder}."]
        for line in plot.lines:
            found, said = _studied(paper, plot, line, choices, say)
            lines += found
            differs.append(said)
        return lines, differs
    except Unavailable as error:
        raise SentuneError(f"{plot.name}: {error}; give another one by --instead") from None


def _length_ratios(plot: PublishedPlot, choices: StudyChoices) -> tuple[list[Line], list[str]]:
    """Return histograms of ln(words of premise / words of hypothesis) of entailment pairs.

    The second list has a sentence on each data set that cannot be read.
    """
    import numpy as np

    from sentune.corpora.formats import read_pairs

    lines, missing = list[Line](), list[str]()
    for name in plot.lengths:
        try:
            if (spec := choices.data.find(name)) is None:
                raise Unavailable(f"{name} not found")
            rows = read_pairs(spec).table.to_pylist()
        except (Unavailable, CorpusError) as error:
            missing.append(f"No line: {error}.")
            continue
        words = [
            (len(row["premise"].split()), len(row["hypothesis"].split()))
            for row in rows
            if row["label"] == "entailment"
        ]
        ratios = [math.log(first / second) for first, second in words if first and second]
        counts, edges = np.histogram(ratios, bins=BINS, range=(-EDGE, EDGE))
        lines.append(Line(name, ((edges[:-1] + edges[1:]) / 2).tolist(), counts.tolist()))
    if not lines:
        raise Unavailable(f"{', '.join(plot.lengths)} not found")
    return lines, missing


def _studied(
    paper: Paper,
    plot: PublishedPlot,
    line: PlotLine,
    choices: StudyChoices,
    say: Callable[[str], None],
) -> tuple[list[Line], str]:
    """Return the lines of a study, and a sentence on what differs from the paper."""
    trained = paper.trained[plot.trained]
    if plot.dev:
        if missing := [name for name in plot.dev if choices.data.find(name) is None]:
            raise Unavailable(f"{', '.join(missing)} not found")
        trained = trained.model_copy(update={"dev": plot.dev})
    settings = {**line.settings, **(line.quick if choices.quick else {})}
    row = PublishedRow(header=(line.name,), method=line.method, settings=settings, figures=())
    study = study_of(row, trained, choices)
    say(f"== study {study.name}")
    result = study.run()
    rest = "".join(f"; {difference}" for difference in study.differs)
    corpus, judged = study.options["corpus"], ", ".join(study.options["dev"])
    said = f"Study {study.name}: trained on {corpus}, evaluated on {judged}{rest}."
    return _swept(plot, line, result) if line.readout else _spectrum(line, result), said


def _spectrum(line: PlotLine, result: StudyResult) -> list[Line]:
    """Return the eigenvalues of W W^T of a trained invertible decoder by their ranks."""
    model: Any = result.model
    values = model.method.decoder.spectrum().tolist()
    return [Line(line.name, range(1, len(values) + 1), values)]


def _swept(plot: PublishedPlot, line: PlotLine, result: StudyResult) -> list[Line]:
    """Return the winner's sweep over a readout, with a line for each value of ``by``."""
    from sentune.report.sweep_figures import sweeps_in

    folder = result.view.folder
    sweeps = sweeps_in(folder) if folder is not None else {}
    if (sweep := sweeps.get(plot.task)) is None:
        raise SentuneError(f"{plot.name}: study {result.name} has no sweep of {plot.task}")
    x = [float(value) for value in sweep.axes[line.readout]]
    if not line.by:
        return [Line(line.name, x, (100 * sweep.at_best(line.readout)).tolist())]
    table = 100 * sweep.at_best(line.by, line.readout)
    named = zip(sweep.axes[line.by], table.tolist(), strict=True)
    return [Line(f"{line.by} {value}", x, y) for value, y in named]


def write_plot(
    name: str,
    paper: Paper,
    plot: PublishedPlot,
    made: tuple[Sequence[Line], Sequence[str]],
    folder: Path,
) -> list[Path]:
    """Write the lines and sentences of ``make_plot``, and return the paths.

    These are ``NAME.html`` (with plotly), ``NAME.csv`` and ``NAME.svg``.

    Raises:
        StorageError: the disk is full, read-only or faulty.
    """
    (lines, differs), stem = made, name.replace("/", "-")
    points = pd.DataFrame(
        [(line.name, x, y) for line in lines for x, y in zip(line.x, line.y, strict=True)],
        columns=["line", plot.x, plot.y],
    )
    rows = [[line, *(Cell(f"{value:.4g}", value) for value in point)]
            for line, *point in points.itertuples(index=False)]  # fmt: skip
    table = Table(heads=tuple(points.columns), rows=rows)
    chart = Chart("plot", plot.name, plot.caption, lambda: _plotly(plot, lines), table, wide=True)
    blocks: list[Block] = [chart, *(Text(said, "note") for said in differs)]
    page = StudyReport(
        title=f"{paper.paper}, {plot.name}",
        state="complete",
        subtitle=f"{paper.title}. sentune paper run {name}",
        sections=[Section("figure", "Ours", blocks)],
    )
    drawing = Figure("plot", plot.name, plot.caption, lambda axes: _drawn(plot, lines, axes))
    to_canvas(drawing).savefig(svg := io.StringIO(), format="svg", metadata=UNSIGNED)
    table_text = str(points.to_csv(index=False))
    texts = {"html": to_html(page), "csv": table_text, "svg": svg.getvalue()}
    return [
        Path(write_document(str(folder), f"{stem}.{kind}", text, option="--out"))
        for kind, text in texts.items()
    ]


def _plotly(plot: PublishedPlot, lines: Sequence[Line]) -> go.Figure:
    figure = canvas(plot.x, plot.y, height=420)
    for line in lines:
        figure.add_scatter(x=list(line.x), y=list(line.y), mode="lines", name=line.name)
    return figure


def _drawn(plot: PublishedPlot, lines: Sequence[Line], axes: Axes) -> None:
    for line in lines:
        axes.plot(line.x, line.y, label=line.name, linewidth=1.4)
    axes.set(xlabel=plot.x, ylabel=plot.y)
