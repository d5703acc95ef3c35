"""A table of a paper, made: its studies run or resumed, their models measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from sentune.errors import CorpusError
from sentune.papers.table import (
    PaperStudy,
    StudyChoices,
    Unavailable,
    cut,
    grid_row,
    study_of,
    task_of,
)
from sentune.report.published import Paper, PublishedFigure, PublishedTable, figures_of

if TYPE_CHECKING:
    from sentune.study_result import StudyResult


@dataclass(kw_only=True)
class MadeCell:
    """One figure of a table, in percent.

    The paper's is NaN where it has none. Ours is None where it was not measured, and ``reason``
    says why; ``judged_on`` is the corpus that it was measured on.
    """

    row: str
    column: tuple[str, ...]
    data: str
    metric: str
    paper: float
    ours: float | None = None
    judged_on: str = ""
    study: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class MadeTable:
    """A table of a paper with our figures, the studies and the folder of data sets behind them."""

    paper: Paper
    table: PublishedTable
    cells: tuple[MadeCell, ...]
    studies: tuple[PaperStudy, ...]
    folder: Path | None = None


@dataclass(kw_only=True)
class TableMaker:
    """Makes tables; what two cells share is run and measured once.

    ``say`` prints a line about what comes next.
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
        cells = tuple(self._cell(table, figure) for figure in figures_of(paper, table))
        used = {cell.study for cell in cells}
        return MadeTable(
            paper=paper,
            table=table,
            cells=cells,
            studies=tuple(study for name, (study, _) in self._studies.items() if name in used),
            folder=self.choices.data.folder,
        )

    def _cell(self, table: PublishedTable, figure: PublishedFigure) -> MadeCell:
        row, column, metric, trained = figure.row, figure.column, figure.metric, figure.trained
        cell = MadeCell(
            row=row.name,
            column=column.header,
            data=column.data,
            metric=metric,
            paper=figure.percent,
        )
        try:
            if (spec := self.choices.data.find(column.data)) is None:
                raise Unavailable(column.data)
            asked = study_of(grid_row(table) if table.is_grid else row, trained, self.choices)
        except Unavailable as error:
            cell.reason = f"{error} is not there"
            return cell
        result, cell.study = self._run(asked), asked.name
        if table.is_grid:
            at = {name: values[0] for name, values in row.settings.items()} | column.settings
            cell.judged_on = asked.options["dev"][0]
            cell.ours, cell.reason = _of_trial(result, metric, at)
            return cell
        spec = cut(spec, self.choices.quick_of(trained).rows)
        try:
            found = self._measure(asked.name, result, table, task_of(column), spec)
        except CorpusError as error:
            cell.reason = str(error)
            return cell
        cell.judged_on = spec
        cell.ours, cell.reason = _of_table(found, metric)
        return cell

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


def _of_table(found: pd.DataFrame, metric: str) -> tuple[float | None, str]:
    """Return the figure of a metric in percent, or why there is none."""
    if metric not in found.index:
        return None, f"the model has no {metric}"
    value = found.loc[metric, "value"]
    return (None, str(found.loc[metric, "reason"])) if pd.isna(value) else (100 * float(value), "")


def _of_trial(
    result: StudyResult, metric: str, settings: dict[str, Any]
) -> tuple[float | None, str]:
    """Return the best value in percent among the trials of these settings, or why there is none."""
    trials = result.trials
    for name, value in settings.items():
        trials = trials[trials[f"settings.{name}"] == value]
    found = trials[f"metrics.{metric}"].dropna() if f"metrics.{metric}" in trials else []
    return (100 * float(max(found)), "") if len(found) else (None, "no trial has it")
