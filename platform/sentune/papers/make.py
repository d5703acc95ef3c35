"""A table of a paper, made: its studies run or resumed, their models measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from sentune.errors import CorpusError
from sentune.papers.data import cut
from sentune.papers.table import PaperStudy, StudyChoices, Unavailable, grid_row, study_of, task_of
from sentune.report.published import Paper, PublishedColumn, PublishedRow, PublishedTable

if TYPE_CHECKING:
    from sentune.study_result import StudyResult


@dataclass(frozen=True, kw_only=True)
class MadeCell:
    """One figure of a table.

    Attributes:
        paper: in percent, NaN where the paper has none.
        ours: in percent; None where it was not measured, ``reason`` says why.
        judged_on: corpus that it was measured on.
    """

    row: str
    column: tuple[str, ...]
    data: str
    metric: str
    paper: float
    ours: float | None = None
    reason: str = ""
    judged_on: str = ""
    study: str = ""


@dataclass(frozen=True, kw_only=True)
class MadeTable:
    """A table of a paper with our figures.

    Attributes:
        studies: that it was made of.
        folder: of the data sets.
    """

    paper: Paper
    table: PublishedTable
    cells: tuple[MadeCell, ...]
    studies: tuple[PaperStudy, ...]
    folder: Path | None = None


@dataclass(kw_only=True)
class TableMaker:
    """Makes tables; what two cells share is run and measured once.

    Attributes:
        say: prints a line about what comes next.
    """

    choices: StudyChoices
    say: Callable[[str], None]
    _studies: dict[str, tuple[PaperStudy, StudyResult]] = field(default_factory=dict)
    _measured: dict[tuple[str, str, str], pd.DataFrame] = field(default_factory=dict)

    def make(self, paper: Paper, table: PublishedTable) -> MadeTable:
        """Run the studies of a table, or go on with them, and measure every cell.

        What a missing data set leaves open is a cell without a figure, with the reason.

        Raises:
            StudyFailed: the trials of a study failed.
            InvalidValue: an option that a method cannot use.
        """
        cells = [
            self._cell(paper, table, row, column, figure)
            for row in table.rows
            for column, figure in zip(table.columns, row.figures, strict=True)
        ]
        used = {cell.study for cell in cells if cell.study}
        studies = tuple(study for name, (study, _) in self._studies.items() if name in used)
        folder = self.choices.data.folder
        return MadeTable(
            paper=paper, table=table, cells=tuple(cells), studies=studies, folder=folder
        )

    def _cell(
        self,
        paper: Paper,
        table: PublishedTable,
        row: PublishedRow,
        column: PublishedColumn,
        figure: float,
    ) -> MadeCell:
        trained = paper.trained[column.trained or table.trained]
        metric = row.metrics.get(column.metric, column.metric)
        cell: dict[str, Any] = {
            "row": row.name,
            "column": column.header,
            "data": column.data,
            "metric": metric,
            "paper": figure,
        }
        spec = self.choices.data.find(column.data)
        if spec is None:
            return MadeCell(**cell, reason=f"{column.data} is not there")
        try:
            asked = study_of(grid_row(table) if table.is_grid else row, trained, self.choices)
        except Unavailable as error:
            return MadeCell(**cell, reason=f"{error} is not there")
        result = self._run(asked)
        cell["study"] = asked.name
        if table.is_grid:
            at = {name: values[0] for name, values in row.settings.items()} | column.settings
            return MadeCell(
                **cell, **_of_trial(result, metric, at), judged_on=asked.options["dev"][0]
            )
        quick = trained.quick if self.choices.quick else None
        spec = cut(spec, quick.rows if quick else None)
        try:
            found = self._measure(asked.name, result, table, task_of(column), spec)
        except CorpusError as error:
            return MadeCell(**cell, reason=str(error))
        return MadeCell(**cell, **_of_table(found, metric), judged_on=spec)

    def _run(self, study: PaperStudy) -> StudyResult:
        from sentune.api import tune

        if study.name not in self._studies:
            self.say(f"== study {study.name}")
            result = tune(study.method, study=study.name, **study.options)
            self._studies[study.name] = study, result
        return self._studies[study.name][1]

    def _measure(
        self, name: str, result: StudyResult, table: PublishedTable, task: str, spec: str
    ) -> pd.DataFrame:
        from sentune.api import evaluate

        if (name, task, spec) not in self._measured:
            self.say(f"== {task} of {name} on {spec}")
            own = table.dev.get(task)
            dev = self.choices.data.find(own) if own is not None else None
            rows = 2_000 if self.choices.quick else None
            tuned = {task: cut(dev, rows)} if dev is not None else None
            self._measured[name, task, spec] = evaluate(result.model, {task: spec}, dev=tuned)
        return self._measured[name, task, spec]


def _of_table(found: pd.DataFrame, metric: str) -> dict[str, Any]:
    """Return the figure of a metric in percent, or why there is none."""
    if metric not in found.index:
        return {"reason": f"the model has no {metric}"}
    value = found.loc[metric, "value"]
    if pd.isna(value):
        return {"reason": str(found.loc[metric, "reason"])}
    return {"ours": 100 * float(value)}


def _of_trial(result: StudyResult, metric: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the best value in percent among the trials of these settings."""
    trials = result.trials
    for name, value in settings.items():
        trials = trials[trials[f"settings.{name}"] == value]
    found = trials[f"metrics.{metric}"].dropna() if f"metrics.{metric}" in trials else []
    return {"ours": 100 * float(max(found))} if len(found) else {"reason": "no trial has it"}
