"""Figures that the papers report, read from the TOML files in ``published/``.

A table has rows (a method with settings), columns (a metric on a data set), the paper's figures in
percent, the training data, and the table's text as printed, against which the figures are tested.
"""

from __future__ import annotations

import functools
import math
import re
import tomllib
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

FOLDER = Path(__file__).with_name("published")
SLICED = re.compile(r"[?&](rows|premises|size)=")
"""Options of a corpus that select a range or number of its rows."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSet(_Strict):
    """A data set or word vectors of a paper, with its format and source.

    Attributes:
        format: corpus format that reads it.
        word: part of its path, if there are no ``files``.
        files: case-insensitive patterns of the file names under which it is published.
        options: options of the format that select the part.
        folder: whether the folder of the matching file is read instead of the file.
        whole: whether its parts are stored one after the other, so that a sample must not be taken
            from the first rows alone.
        source: where to get it.
    """

    format: str
    word: str = ""
    files: tuple[str, ...] = ()
    options: str = ""
    folder: bool = False
    whole: bool = False
    source: str


class Quick(_Strict):
    """Changes that turn a paper's study into a small one; by default none.

    Attributes:
        options: options of the job.
        set: settings and readouts in place of the paper's.
        rows: largest number of rows of each evaluation data set.
        transfer: the same for transfer tasks, as a stratified sample.
        folds: folds of the cross-validation of transfer tasks.
        width: dimension of random encoders.
        references: number of reference sentences of interpretations.
    """

    options: dict[str, Any] = {}
    set: dict[str, Any] = {}
    rows: int | None = None
    transfer: int | None = None
    folds: int = 10
    width: int | None = None
    references: int | None = None


class TrainedOn(_Strict):
    """The training of a paper: encoder, corpora and options of the job.

    Attributes:
        encoder, corpus: in the words of the paper.
        decoder: decoder of a method that decodes.
        formats: corpus formats that read the training corpus.
        rows: number of training examples according to the paper.
        data, dev: names of the data sets to train and to select on.
        options: options of the job besides the paper's settings.
        quick: changes for a small study.
    """

    encoder: str
    decoder: str = ""
    corpus: str
    formats: tuple[str, ...]
    rows: int | None = None
    data: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    quick: Quick = Quick()


class Measurement(_Strict):
    """A metric on a data set."""

    data: str
    metric: str


class PublishedColumn(_Strict):
    """A metric on a data set, or the mean of several.

    Attributes:
        header: cells of the table's head above the column, from the top.
        data, metric: data set and metric of a single measurement.
        mean: measurements to average, instead of ``data`` and ``metric``.
        settings: values of the column's setting, in a table over two settings.
        trained: key of ``Paper.trained``, if it is not the table's.
    """

    header: tuple[str, ...]
    data: str = ""
    metric: str = ""
    mean: tuple[Measurement, ...] = ()
    settings: dict[str, Any] = {}
    trained: str = ""

    @property
    def parts(self) -> tuple[Measurement, ...]:
        """Return the measurements whose mean the column is, or its single one."""
        return self.mean or (Measurement(data=self.data, metric=self.metric),)


class PublishedRow(_Strict):
    """A row of a paper's table: a method and its figures.

    Attributes:
        header: cells of the table that name the row.
        method: method that a study of this row tunes. A row without method and model cannot be
            reproduced here.
        model: pretrained encoder to evaluate instead of a study, ``hf:NAME?pooling=cls``, or
            ``linear``, the pair classifier that ``sentune linear`` trains.
        encoder_of: method and training data of the model that is the encoder of this row's study.
        settings: setting -> values of this row's study; empty: any.
        vectors: data set of word vectors, if it is not the table's.
        options, trained: options of the job and key of ``Paper.trained``, if not the table's.
        figures: one per column, in percent, NaN without a figure; empty if the paper lacks the row.
        metrics: metric of a column -> this row's name for it; empty if it is not measured.
        readouts: readouts fixed for all tasks; the model chooses the others.
    """

    header: tuple[str, ...]
    method: str = ""
    model: str = ""
    encoder_of: dict[str, str] = {}
    settings: dict[str, tuple[Any, ...]] = {}
    vectors: str = ""
    options: dict[str, Any] = {}
    trained: str = ""
    figures: tuple[float, ...] = ()
    metrics: dict[str, str] = {}
    readouts: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """Return the paper's name of the row, without its citation mark."""
        return ", ".join(self.header).partition(" [")[0]


class PublishedTable(_Strict):
    """A table of a paper.

    Attributes:
        trained: key of ``Paper.trained``.
        text: text of the table as printed; empty if the paper has no such table, thus no figures.
        dev: task -> data set on which its readouts are chosen, if not on that of the study.
        references: data set of the reference sentences of interpretations, instead of those stored
            with the model.
        reference_rows: number of rows to sample from ``references``; None: all.
        exclude: pairs that the task ``direction`` leaves out if a corpus labels both directions.
        transposed: whether the paper prints the rows as columns.
    """

    name: str
    caption: str
    trained: str
    text: str = ""
    dev: dict[str, str] = {}
    references: str = ""
    reference_rows: int | None = None
    exclude: Literal["both-ways", "none"] = "both-ways"
    transposed: bool = False
    columns: tuple[PublishedColumn, ...]
    rows: tuple[PublishedRow, ...]

    @property
    def is_grid(self) -> bool:
        """Return whether the columns are values of a setting."""
        return any(column.settings for column in self.columns)


class PlotLine(_Strict):
    """A curve of a metric over a readout, swept on the winner of a study.

    Attributes:
        settings: setting -> values of the study, and readout -> grid.
        readout: swept readout; empty: the curve is the spectrum of an invertible decoder.
        by: second readout, with one line for each of its values.
        quick: ``settings`` of a small study.
    """

    name: str
    method: str
    settings: dict[str, tuple[Any, ...]] = {}
    readout: str = ""
    by: str = ""
    quick: dict[str, tuple[Any, ...]] = {}


class PublishedPlot(_Strict):
    """A figure of a paper.

    Attributes:
        x, y: titles of the axes.
        trained: key of ``Paper.trained``.
        dev: development data sets of the study, instead of those of ``trained``.
        task: task whose sweep has the lines.
        lengths: data sets of pairs whose length ratios are plotted, instead of ``lines``.
    """

    name: str
    caption: str
    x: str
    y: str
    trained: str = ""
    dev: tuple[str, ...] = ()
    task: str = ""
    lines: tuple[PlotLine, ...] = ()
    lengths: tuple[str, ...] = ()


class Paper(_Strict):
    """A paper with its tables and plots; ``paper`` is the short name."""

    paper: str
    title: str
    trained: dict[str, TrainedOn]
    tables: tuple[PublishedTable, ...]
    plots: tuple[PublishedPlot, ...] = ()


class PublishedFigure(NamedTuple):
    """A figure of a paper's table in percent; NaN if the paper has none."""

    paper: Paper
    table: PublishedTable
    row: PublishedRow
    column: PublishedColumn
    percent: float

    @property
    def parts(self) -> tuple[Measurement, ...]:
        """Return the measurements whose mean the figure is, with the row's names of metrics."""
        own = self.row.metrics
        return tuple(
            part.model_copy(update={"metric": own.get(part.metric, part.metric)})
            for part in self.column.parts
        )

    @property
    def metric(self) -> str:
        """Return the metric of a column with a single measurement."""
        return self.parts[0].metric

    @property
    def trained(self) -> TrainedOn:
        """Return the training of the row's model."""
        return self.paper.trained[self.row.trained or self.column.trained or self.table.trained]


@functools.cache
def papers() -> tuple[Paper, ...]:
    """Return all papers with their tables and plots."""
    files = sorted(FOLDER.glob("*.toml"))
    return tuple(Paper.model_validate(_read(file)) for file in files if file.name != "data.toml")


@functools.cache
def data_sets() -> dict[str, DataSet]:
    """Return name -> data set, of ``published/data.toml``."""
    content = _read(FOLDER / "data.toml")
    return {name: DataSet.model_validate(said) for name, said in content.items()}


def figures_of(paper: Paper, table: PublishedTable) -> list[PublishedFigure]:
    """Return all figures of a table, row by row."""
    none = (math.nan,) * len(table.columns)
    return [
        PublishedFigure(paper, table, row, column, figure)
        for row in table.rows
        for column, figure in zip(table.columns, row.figures or none, strict=True)
    ]


@functools.cache
def published_figures() -> tuple[PublishedFigure, ...]:
    """Return the figures of all papers that are a single metric of a method supported here."""
    return tuple(
        figure
        for paper in papers()
        for table in paper.tables
        if not table.is_grid
        for figure in figures_of(paper, table)
        if figure.row.method and not figure.column.mean and not math.isnan(figure.percent)
    )


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))
