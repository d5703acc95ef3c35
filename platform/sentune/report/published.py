"""Figures that the papers report, read from the tables in ``published/``.

A table has rows (a method with settings), columns (a metric on a data set), the paper's figures in
percent, what they were trained on, and the table's own text, against which figures are tested.
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
"""Options of a corpus that name a part of it."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSet(_Strict):
    """A data set that a paper trains or judges on, or word vectors: where one gets it, its format.

    ``files`` are patterns of the names under which it is published, without regard to case; where
    none is published, the path has the ``word``. ``options`` of the format choose the part. Of a
    ``folder`` that of the file that is found is read. What is ``whole`` has its parts one after
    the other, so that its first rows are no part of it.
    """

    format: str
    word: str = ""
    files: tuple[str, ...] = ()
    options: str = ""
    folder: bool = False
    whole: bool = False
    source: str


class Quick(_Strict):
    """Changes that make a study of a paper a small one: none, unless they are said.

    Options of its job, settings and readouts in place of the paper's, and the most rows of each
    data set that is judged on: ``transfer`` of those of transfer tasks, a stratified part, with
    ``folds``. ``width`` is that of random encoders; ``references`` are the sentences of
    interpretations.
    """

    options: dict[str, Any] = {}
    set: dict[str, Any] = {}
    rows: int | None = None
    transfer: int | None = None
    folds: int = 10
    width: int | None = None
    references: int | None = None


class TrainedOn(_Strict):
    """The encoder and corpus of a paper in its words, and the formats that read the corpus here.

    ``decoder`` is that of a method that decodes, ``rows`` the examples that the paper counts,
    ``data`` and ``dev`` the data sets to train and to select on, ``options`` those of the job,
    beside the paper's own settings.
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
        header: cells of the table's head above it, from the top.
        mean: what it is the mean of, in place of ``data`` and ``metric``.
        settings: that the column stands for, in a table over two settings.
        trained: where it is not the table's.
    """

    header: tuple[str, ...]
    data: str = ""
    metric: str = ""
    mean: tuple[Measurement, ...] = ()
    settings: dict[str, Any] = {}
    trained: str = ""

    @property
    def parts(self) -> tuple[Measurement, ...]:
        """The metrics that it is the mean of; itself where it is a single metric."""
        return self.mean or (Measurement(data=self.data, metric=self.metric),)


class PublishedRow(_Strict):
    """A method of a paper with its figures, one a column, in percent; NaN where there is none.

    A row that the paper does not have has no figures.

    Attributes:
        header: cells of the table that name it.
        method: that a study of this row tunes.
        model: an encoder that is measured as it is, ``hf:NAME?pooling=cls``, in place of a study;
            ``linear``: the classifier of pairs that ``sentune linear`` trains. Without method and
            model the row is published only.
        encoder_of: method, and what it is trained on, whose model is the encoder of the study.
        settings: that make a study of this row, setting -> values; empty: any.
        vectors: data set of word vectors, where the row has its own.
        options, trained: of its study, where they are not the table's.
        metrics: metric of a column -> name of this row's own; empty where it has none.
        readouts: that the model of its study is measured with, on every task; the others are its
            own.
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
        """The paper's name for it, without its mark of a reference."""
        return ", ".join(self.header).partition(" [")[0]


class PublishedTable(_Strict):
    """A table of a paper, and its text as the paper prints it.

    Attributes:
        text: empty where the paper has no such table, and no figures then.
        transposed: its rows are columns here.
        dev: task -> data set on which its readouts are chosen, where the study's own does not.
        references: data set whose sentences interpretations are taken against, in place of those
            that are stored with the model; ``reference_rows`` of it, drawn at random, or all.
        exclude: pairs that ``direction`` leaves out where a corpus labels both directions.
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
        """Return whether it goes over two settings of one method."""
        return any(column.settings for column in self.columns)


class PlotLine(_Strict):
    """Curve of a study's winner over a readout that is swept on it.

    Attributes:
        settings: of the study; those of readouts are their grids.
        readout: without one the curve is the spectrum of an invertible decoder.
        by: another readout, of which each value has a line.
        quick: settings of a small study.
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
        dev: data sets that a study is judged on, in place of those of ``trained``.
        task: whose sweep has the lines.
        lengths: data sets of pairs whose ratios of lengths are counted, in place of lines.
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
    """A paper with its tables and plots; ``paper`` is its short name."""

    paper: str
    title: str
    trained: dict[str, TrainedOn]
    tables: tuple[PublishedTable, ...]
    plots: tuple[PublishedPlot, ...] = ()


class PublishedFigure(NamedTuple):
    """One figure of a paper's table, in percent; NaN where the paper has none."""

    paper: Paper
    table: PublishedTable
    row: PublishedRow
    column: PublishedColumn
    percent: float

    @property
    def parts(self) -> tuple[Measurement, ...]:
        """The metrics that the column is the mean of, the row's own ones in their places."""
        own = self.row.metrics
        return tuple(
            part.model_copy(update={"metric": own.get(part.metric, part.metric)})
            for part in self.column.parts
        )

    @property
    def metric(self) -> str:
        """The metric of a column of one."""
        return self.parts[0].metric

    @property
    def trained(self) -> TrainedOn:
        """The corpus that it was trained on."""
        return self.paper.trained[self.row.trained or self.column.trained or self.table.trained]


@functools.cache
def papers() -> tuple[Paper, ...]:
    """The papers with all of their tables that are known here."""
    files = sorted(FOLDER.glob("*.toml"))
    return tuple(Paper.model_validate(_read(file)) for file in files if file.name != "data.toml")


@functools.cache
def data_sets() -> dict[str, DataSet]:
    """Name -> data set."""
    content = _read(FOLDER / "data.toml")
    return {name: DataSet.model_validate(said) for name, said in content.items()}


def figures_of(paper: Paper, table: PublishedTable) -> list[PublishedFigure]:
    """All figures of a table, row by row."""
    none = (math.nan,) * len(table.columns)
    return [
        PublishedFigure(paper, table, row, column, figure)
        for row in table.rows
        for column, figure in zip(table.columns, row.figures or none, strict=True)
    ]


@functools.cache
def published_figures() -> tuple[PublishedFigure, ...]:
    """The figures of all papers that one metric of one method stands for."""
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
