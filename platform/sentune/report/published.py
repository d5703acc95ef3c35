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
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

FOLDER = Path(__file__).with_name("published")
SLICED = re.compile(r"[?&](rows|premises|size)=")
"""Options of a corpus that name a part of it."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSet(_Strict):
    """A data set that a paper trains or judges on, where one gets it, and the format that reads it.

    ``files`` are patterns of the names under which it is published, without regard to case; the
    path of the wanted part has the ``word``, and ``options`` of the format choose it.
    """

    format: str
    word: str = ""
    files: tuple[str, ...] = ()
    options: str = ""
    source: str


class Quick(_Strict):
    """What makes a study of a paper a small one: nothing, unless it is said.

    Options of its job, settings in place of the paper's, and the most rows of each data set that
    is judged on.
    """

    options: dict[str, Any] = {}
    set: dict[str, Any] = {}
    rows: int | None = None


class TrainedOn(_Strict):
    """The encoder and corpus of a paper in its words, and the formats that read the corpus here.

    ``rows`` are the examples that the paper counts; ``data`` and ``dev`` the data sets to train
    and to select on; ``options`` those of the job, beside the paper's own settings.
    """

    encoder: str
    corpus: str
    formats: tuple[str, ...]
    rows: int | None = None
    data: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    quick: Quick = Quick()


class PublishedColumn(_Strict):
    """A metric on a data set, under cells of the table's head from the top.

    In a table over two settings it stands for ``settings``; ``trained`` is said where it is not
    the table's.
    """

    header: tuple[str, ...]
    data: str
    metric: str
    settings: dict[str, Any] = {}
    trained: str = ""


class PublishedRow(_Strict):
    """A method of a paper with its figures, one a column, in percent; NaN where there is none.

    Attributes:
        header: cells of the table that name it.
        settings: that make a study of this row, setting -> values; empty: any.
        metrics: metric of a column -> name of this row's own.
    """

    header: tuple[str, ...]
    method: str
    settings: dict[str, tuple[Any, ...]] = {}
    figures: tuple[float, ...]
    metrics: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The paper's name for it, without its mark of a reference."""
        return ", ".join(self.header).partition(" [")[0]


class PublishedTable(_Strict):
    """A table of a paper, and its text as the paper prints it.

    Attributes:
        transposed: its rows are columns here.
        dev: task -> data set on which its readouts are chosen, where the study's own does not.
    """

    name: str
    caption: str
    trained: str
    text: str
    dev: dict[str, str] = {}
    transposed: bool = False
    columns: tuple[PublishedColumn, ...]
    rows: tuple[PublishedRow, ...]

    @property
    def is_grid(self) -> bool:
        """Whether it goes over two settings of one method."""
        return any(column.settings for column in self.columns)


class Paper(_Strict):
    """A paper with its tables; ``paper`` is its short name."""

    paper: str
    title: str
    trained: dict[str, TrainedOn]
    tables: tuple[PublishedTable, ...]


class PublishedFigure(NamedTuple):
    """One figure of a paper's table, in percent; NaN where the paper has none."""

    paper: Paper
    table: PublishedTable
    row: PublishedRow
    column: PublishedColumn
    percent: float

    @property
    def metric(self) -> str:
        """The column's metric, or the row's own in its place."""
        return self.row.metrics.get(self.column.metric, self.column.metric)

    @property
    def trained(self) -> TrainedOn:
        """What it was trained on."""
        return self.paper.trained[self.column.trained or self.table.trained]


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
    return [
        PublishedFigure(paper, table, row, column, figure)
        for row in table.rows
        for column, figure in zip(table.columns, row.figures, strict=True)
    ]


@functools.cache
def published_figures() -> tuple[PublishedFigure, ...]:
    """The figures of all papers, but those of a table over two settings."""
    return tuple(
        figure
        for paper in papers()
        for table in paper.tables
        if not table.is_grid
        for figure in figures_of(paper, table)
        if not math.isnan(figure.percent)
    )


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))
