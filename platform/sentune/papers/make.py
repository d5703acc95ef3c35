"""Reproduction of a paper's table: runs or resumes its studies and evaluates their models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd

from sentune.errors import CorpusError, InvalidValue
from sentune.papers.table import (
    PaperStudy,
    StudyChoices,
    Unavailable,
    cut,
    grid_row,
    linear_of,
    study_of,
    task_of,
)
from sentune.report.published import (
    Measurement,
    Paper,
    PublishedFigure,
    PublishedTable,
    data_sets,
    figures_of,
)

if TYPE_CHECKING:
    from sentune.corpora.tables import Data
    from sentune.embedder.embedder import Embedder
    from sentune.embedder.references import StoredReferences
    from sentune.study_result import StudyResult

T = TypeVar("T")

PUBLISHED_ONLY = "published only"
"""Reason of cells in rows that cannot be reproduced here."""


@dataclass(kw_only=True)
class MadeCell:
    """A cell of a table: the paper's figure and ours, in percent.

    Attributes:
        paper: the paper's figure, NaN without one.
        ours: our figure; None if it was not measured.
        judged_on: corpora that ours was measured on.
        study: name of the study or model.
        reason: why ours was not measured; else empty.
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
    """A table of a paper with our figures.

    Attributes:
        studies: studies whose models were evaluated.
        notes: sentences on the choice of readouts, on interpretations and on generation.
        folder: folder of the data sets, if any.
    """

    paper: Paper
    table: PublishedTable
    cells: tuple[MadeCell, ...]
    studies: tuple[PaperStudy, ...]
    notes: tuple[str, ...] = ()
    folder: Path | None = None


@dataclass(kw_only=True)
class TableMaker:
    """Maker of tables, which runs and evaluates once what cells share.

    Attributes:
        say: prints a line before each step.
    """

    choices: StudyChoices
    say: Callable[[str], None]
    _asked: dict[str, PaperStudy] = field(default_factory=dict)
    _made: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def make(self, paper: Paper, table: PublishedTable) -> MadeTable:
        """Run or resume the studies of a table and measure all of its cells.

        Cells that need a missing data set have a reason instead of a figure.

        Raises:
            StudyFailed: the trials of a study failed.
            InvalidValue: a method cannot use an option.
        """
        cells = tuple(self._cell(table, figure) for figure in figures_of(paper, table))
        used = {cell.study for cell in cells}
        return MadeTable(
            paper=paper,
            table=table,
            cells=cells,
            studies=tuple(study for name, study in self._asked.items() if name in used),
            notes=tuple(self._notes(paper, table)),
            folder=self.choices.data.folder,
        )

    def _once(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the result of ``make``, called once for each key of what the result depends on."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def _notes(self, paper: Paper, table: PublishedTable) -> list[str]:
        quick = self.choices.quick_of(paper.trained[table.trained])
        said = []
        for task, name in table.dev.items():
            spec = self.choices.data.find(name)
            missing = f"those of the study, because {name} was not found"
            on = f"chosen on {cut(spec, quick.rows)}" if spec is not None else missing
            said.append(f"Readouts of {task}: {on}.")
        if table.references:
            spec = self.choices.data.find(table.references)
            rows = quick.references or table.reference_rows
            said.append(
                "Interpretations: with the references stored with the model, because "
                f"{table.references} was not found."
                if spec is None
                else f"Interpretations: with {f'{rows:,} rows' if rows else 'all rows'} of {spec} "
                "as references."
            )
        if any(task_of(part) == "generation" for one in table.columns for part in one.parts):
            said.append("Generation: greedy decoding; the authors' code uses 5 beams.")
        return said

    def _cell(self, table: PublishedTable, figure: PublishedFigure) -> MadeCell:
        row, parts = figure.row, figure.parts
        cell = MadeCell(
            row=row.name,
            column=figure.column.header,
            data=", ".join(dict.fromkeys(part.data for part in parts)),
            metric=", ".join(dict.fromkeys(part.metric for part in parts)),
            paper=figure.percent,
        )
        try:
            if not (row.method or row.model):
                raise Unavailable(PUBLISHED_ONLY)
            if not all(part.metric for part in parts):
                raise Unavailable(f"{row.name} does not have this metric")
            specs = [self._corpus(part, figure) for part in parts]
            rows = [self._rows(figure, *each) for each in zip(parts, specs, strict=True)]
            if table.is_grid:
                asked = study_of(grid_row(table), figure.trained, self.choices)
                at = {name: values[0] for name, values in row.settings.items()}
                cell.judged_on, cell.study = asked.options["dev"][0], asked.name
                cell.ours = _of_trial(self._run(asked), cell.metric, at | figure.column.settings)
            elif row.model == "linear":
                cell.judged_on, cell.study = specs[0], row.model
                found = self._of_linear(figure)
                cell.ours = 100 * found[f"{specs[0]}/{cell.metric.partition('/')[2]}"]
            else:
                name, model = self._model(figure)
                cell.judged_on, cell.study = ", ".join(dict.fromkeys(specs)), name
                cell.ours = fmean(
                    _of_table(self._measure(name, model, figure, *each), each[0].metric)
                    for each in zip(parts, specs, rows, strict=True)
                )
        except (Unavailable, CorpusError) as error:
            cell.reason = str(error)
        return cell

    def _corpus(self, part: Measurement, figure: PublishedFigure) -> str:
        if (spec := self.choices.data.find(part.data)) is None:
            raise Unavailable(f"{part.data} not found")
        rows = None if data_sets()[part.data].whole else self.choices.quick_of(figure.trained).rows
        return cut(spec, rows)

    def _model(self, figure: PublishedFigure) -> tuple[str, Embedder]:
        """Return name and model of a row: the product of its study, or a pretrained encoder."""
        from sentune.embedder.embedder import Embedder

        row = figure.row
        if row.method:
            if row.encoder_of:
                first = row.model_copy(update={"settings": {}, **row.encoder_of})
                theirs = study_of(first, figure.paper.trained[first.trained], self.choices)
                if (encoder := self._model_folder(theirs)) is None:
                    raise Unavailable(f"study {theirs.name} has no model")
                row = row.model_copy(update={"options": {**row.options, "encoder": encoder}})
            asked = study_of(row, figure.trained, self.choices)
            try:
                tuned = self._run(asked).model
            except InvalidValue as error:
                if not row.options:
                    raise
                raise Unavailable(str(error)) from error  # e.g. the row's encoder is missing
            return asked.name, _changed(tuned, row.readouts, self._references(figure, asked, tuned))
        model = row.model
        if model.startswith("random:"):
            if (vectors := self.choices.models.get("vectors")) is None:
                raise Unavailable("random encoders need --vectors")
            model = f"{model}{'&' if '?' in model else '?'}vectors={vectors}"
            if width := self.choices.quick_of(figure.trained).width:
                model = f"{model}&size={width}"
        try:
            return model, self._once(("model", model), lambda: Embedder.load(model))
        except InvalidValue as error:
            raise Unavailable(str(error)) from error

    def _references(
        self, figure: PublishedFigure, study: PaperStudy, model: Embedder
    ) -> StoredReferences | None:
        """Return the references of a row's interpretations, from the table's data set or the model.

        None if the model has no interpretations.
        """
        from sentune.corpora.formats import read
        from sentune.embedder.references import StoredReferences
        from sentune.tasks.references import References, kind_of_references

        few, stored = self.choices.quick_of(figure.trained).references, model.references
        if stored is None:
            return None
        spec = self.choices.data.find(figure.table.references) if figure.table.references else None
        if spec is None:
            part = stored.sentences[:few], stored.embeddings[:few]
            return stored if few is None else StoredReferences(*part)
        rows = few or figure.table.reference_rows

        def draw() -> StoredReferences:
            table = read(spec, kind_of_references(spec)).table
            seed = self.choices.options.get("seed", 0)
            drawn = References.sample(table, [rows or table.num_rows], seed)
            embeddings = model.embed(drawn.sentences, show_progress=False).cpu()
            return StoredReferences(drawn.sentences, embeddings, drawn.sizes)

        return self._once(("references", study.name, spec, rows), draw)

    def _run(self, study: PaperStudy) -> StudyResult:
        def run() -> StudyResult:
            self.say(f"== study {study.name}")
            result = study.run()
            self._asked[study.name] = study
            return result

        return self._once(("study", study.name), run)

    def _model_folder(self, study: PaperStudy) -> str | None:
        """Return the model folder of a study, run or resumed unless it is complete.

        A complete study is not run again, because a model that is rewritten counts as another
        encoder in the studies that start from it.
        """
        from sentune.api import load_study

        with suppress(InvalidValue):
            found = load_study(study.name, storage=study.options.get("storage"))
            if found.state == "complete":
                return found.view.summary.model
        return self._run(study).view.summary.model

    def _of_linear(self, figure: PublishedFigure) -> dict[str, float]:
        """Return the metrics of LINEAR on all data sets of a table, as ``CORPUS/metric``."""
        from sentune.training.linear import LinearSettings, run_linear

        asked = linear_of(figure.table, figure.trained, self.choices)
        parts = [column.parts[0] for column in figure.table.columns]
        parts = [part for part in parts if self.choices.data.find(part.data) is not None]
        specs = {self._corpus(part, figure): part for part in parts}
        tests = {spec: (task_of(part), spec) for spec, part in specs.items()}

        def run() -> dict[str, float]:
            self.say(f"== linear, {asked.options['corpus']}")
            settings = LinearSettings(seed=self.choices.options.get("seed", 0))
            found = run_linear(**asked.options, tests=tests, settings=settings, say=self.say)
            self._asked[asked.name] = asked
            return dict(found.metrics)

        return self._once(("linear", *asked.options.items(), *tests.items()), run)

    def _rows(self, figure: PublishedFigure, part: Measurement, spec: str) -> Data:
        """Return the data of a measurement: the corpus' name, or for transfer tasks its rows."""
        from sentune.corpora.formats import read
        from sentune.corpora.stratified import stratified_part
        from sentune.tasks.transfer import TRANSFER

        if (kind := TRANSFER.get(task_of(part))) is None:
            return spec
        most = self.choices.quick_of(figure.trained).transfer

        def rows() -> Data:
            corpus = read(spec, kind)
            return (corpus if most is None else stratified_part(corpus, most)).table

        return self._once(("rows", spec, kind, most), rows)

    def _measure(
        self,
        name: str,
        model: Embedder,
        figure: PublishedFigure,
        part: Measurement,
        spec: str,
        rows: Data,
    ) -> pd.DataFrame:
        from sentune.api import evaluate

        task, table, row = task_of(part), figure.table, figure.row
        quick = self.choices.quick_of(figure.trained)
        own = table.dev.get(task)
        dev = self.choices.data.find(own) if own is not None else None
        tuned = {task: cut(dev, quick.rows)} if dev is not None else None

        def measure() -> pd.DataFrame:
            self.say(f"== {task} of {name} on {spec}")
            return evaluate(
                model,
                {task: rows},
                dev=tuned,
                folds=quick.folds,
                exclude=table.exclude,
                component_from="task" if row.method == "invertible" else "corpus",
            )

        references = table.references, quick.references or table.reference_rows
        key = name, str(row.readouts), task, spec, table.exclude, str(tuned), references
        return self._once(("measure", *key, quick.folds, quick.transfer), measure)


def _changed(
    model: Embedder, readouts: dict[str, Any], references: StoredReferences | None
) -> Embedder:
    """Return a copy of a model with readouts fixed for all tasks and with other references."""
    kept = {n: v for n, v in model.readouts.items() if n.rpartition("/")[2] not in readouts}
    model = copy(model)
    model.readouts, model.references = kept | readouts, references
    return model


def _of_table(found: pd.DataFrame, metric: str) -> float:
    """Return the value of a metric in percent."""
    if metric not in found.index:
        raise Unavailable(f"the model has no {metric}")
    value: Any = found.loc[metric, "value"]
    if pd.isna(value):
        raise Unavailable(str(found.loc[metric, "reason"]))
    return 100 * float(value)


def _of_trial(result: StudyResult, metric: str, settings: dict[str, Any]) -> float:
    """Return the best value in percent among the complete trials of these settings.

    Trials that were stopped at a rung saw only a part of the paper's examples.
    """
    none = Unavailable("no complete trial has these settings and this metric")
    if (trials := result.trials).empty:
        raise none
    trials = trials[trials["state"] == "complete"]
    for name, value in settings.items():
        trials = trials[trials[f"settings.{name}"] == value]
    found: Any = trials[f"metrics.{metric}"].dropna() if f"metrics.{metric}" in trials else []
    if not len(found):
        raise none
    return 100 * float(max(found))
