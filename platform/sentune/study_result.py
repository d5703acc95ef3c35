"""A study as the Python API hands it out: its tables, its model and its figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from sentune.errors import InvalidValue
from sentune.io.atomic import write_document

if TYPE_CHECKING:
    import optuna
    import plotly.graph_objects as go

    from sentune.embedder.embedder import Embedder
    from sentune.records import TrialRecord
    from sentune.report.view import View


class StudyResult:
    """A study as it stood when it was loaded.

    Attributes:
        state: ``complete``, ``stopped``, ``interrupted``, ``failed``, ``running``, ``new``; by its
            driver ``suspended``, or ``silent`` on another machine.
        reason: of the state; empty where there is none.
        figures: for a notebook or a page.
        view: the study as its report sees it.
    """

    def __init__(self, view: Any, storage: str) -> None:
        from sentune.job.artifacts import view_of

        snapshot = view.snapshot()
        self.name, self.state, self.reason = snapshot.name, snapshot.state, snapshot.reason
        self._place = snapshot.place
        self.view = view_of(snapshot, storage)
        self.figures = StudyFigures(self.view)

    @property
    def trials(self) -> pd.DataFrame:
        """A row for each trial by number, with ``settings.``, ``metrics.`` and ``readouts.``."""
        rows = [trial.row() for trial in self.view.trials]
        return pd.DataFrame(rows).set_index("trial") if rows else pd.DataFrame()

    @property
    def best(self) -> TrialRecord | None:
        """The trial that the shipped model comes from, else the best so far."""
        summary = self.view.summary
        known = {trial.id: trial for trial in summary.trials}
        return known[summary.best] if summary.best is not None else self.view.best

    @property
    def finalists(self) -> pd.DataFrame:
        """A row for each finalist and seed, the best finalist first."""
        rows = [
            {"trial": one.trial, "seed": seed}
            | {name: over.values[place] for name, over in one.metrics.items()}
            for one in self.view.summary.finalists
            for place, seed in enumerate(one.seeds)
        ]
        return pd.DataFrame(rows)

    @property
    def metrics(self) -> pd.DataFrame:
        """A row for each metric.

        Columns: ``dev`` and ``sd`` (over the winner's seeds; none for one run), ``test`` (of the
        shipped model), and ``baseline``, what a rule without a model reaches.
        """
        summary, measured = self.view.summary, self.view.measured
        columns = {
            "dev": {name: over.mean for name, over in measured.items()},
            "sd": {name: over.sd for name, over in measured.items() if len(over.values) > 1},
            "test": summary.test,
            "baseline": summary.baselines,
        }
        table = pd.DataFrame(columns, dtype=float).sort_index()
        return table[~table.index.str.startswith("train/")]

    @property
    def baselines(self) -> dict[str, float]:
        """Metric -> what a rule without a model reaches."""
        return dict(self.view.summary.baselines)

    @property
    def verdict(self) -> str:
        """What the study found, in one or two sentences with the error."""
        from sentune.report.study_page import finding

        against = self.view.against_rules
        said = (finding(self.view), against and against.text, self.view.summary.verdict)
        return " ".join(filter(None, said))

    @cached_property
    def model(self) -> Embedder:
        """The shipped model.

        Raises:
            InvalidValue: the study has left none yet.
        """
        from sentune.embedder.embedder import Embedder

        folder = self.view.summary.model
        if folder is None:
            fix = (
                f"it has left none yet, it is {self.state}; sentune.tune with the arguments that "
                "it had, or sentune study resume, goes on"
            )
            raise InvalidValue("model", self.name, fix)
        return Embedder.load(folder)

    @property
    def optuna(self) -> optuna.Study:
        """The study as Optuna has it, opened to be read."""
        import optuna

        from sentune.study.store.storage import open_storage

        return optuna.load_study(study_name=self.name, storage=open_storage(self._place.url))

    def report(self, out: str | Path) -> Path:
        """Write the study's report as one HTML page, and return where it stands.

        Raises:
            StorageError: the disk is full, read-only or at fault.
        """
        from sentune.report import build
        from sentune.report.render import to_html

        path, page = Path(out), to_html(build(self.view))
        return Path(write_document(str(path.parent), path.name, page))

    def __repr__(self) -> str:
        return f"<study {self.name}: {self.state}. {self.verdict}>"

    def _repr_html_(self) -> str:
        """Return the finding and the metrics, for a notebook; red where a rule is not beaten."""
        from html import escape

        against = self.view.against_rules
        red = ' style="color:#c62828"' if against and not against.beaten else ""
        table = self.metrics.to_html(float_format="{:.4f}".format, na_rep="", border=0)
        said = f"<b>{escape(self.name)}</b> ({self.state}): {escape(self.verdict)}"
        return f"<p{red}>{said}</p>{table}"


class StudyFigures:
    """The figures of a study as plotly figures, which a notebook shows as they are."""

    def __init__(self, view: View) -> None:
        self._view = view

    @cached_property
    def _optuna(self) -> dict[str, Callable[[], go.Figure]]:
        from sentune.study.interactive_page import figures_of, plain_study

        metrics = [metric for metric, _ in self._view.objectives]
        return figures_of(plain_study(self._view.summary), metrics)

    def history(self) -> go.Figure:
        """Return the objective of each trial, and the best so far."""
        return self._optuna["history"]()

    def curves(self) -> go.Figure:
        """Return the objective of each trial over the examples seen."""
        return self._optuna["curves"]()

    def parallel(self) -> go.Figure:
        """Return a line for each trial through its settings to its objective."""
        return self._optuna["parallel"]()

    def importance(self) -> go.Figure:
        """Return the importance of each setting.

        Raises:
            InvalidValue: too few trials are complete.
        """
        try:
            return self._optuna["importance"]()
        except (ValueError, RuntimeError) as error:
            raise InvalidValue("importance", self._view.summary.study, str(error)) from error

    def seeds(self) -> go.Figure:
        """Return every seed of each finalist, on dev."""
        import plotly.graph_objects as go

        objective = self._view.summary.objective
        titles = {"title": "Seeds", "yaxis_title": objective, "xaxis_title": "finalist"}
        figure = go.Figure(layout={**titles, "showlegend": False})
        for finalist in self._view.summary.finalists:
            name, seeds = f"trial {finalist.trial}", [f"seed {seed}" for seed in finalist.seeds]
            figure.add_scatter(
                x=[name] * len(seeds),
                y=finalist.metrics[objective].values,
                text=seeds,
                mode="markers",
                marker={"size": 9},
                name=name,
            )
        return figure

    def readouts(self) -> dict[str, go.Figure]:
        """Return sweep -> the metric over each readout of the winner, the others at their best."""
        from plotly.subplots import make_subplots

        from sentune.report.sweep_figures import sweeps_in

        found = {}
        folder = self._view.folder
        for name, table in (sweeps_in(folder) if folder is not None else {}).items():
            figure = make_subplots(cols=len(table.axes), shared_yaxes=True)
            for column, (readout, grid) in enumerate(table.axes.items(), 1):
                values = table.at_best(readout).tolist()
                line = {"x": [*grid], "y": values, "mode": "lines+markers", "name": readout}
                figure.add_scatter(**line, row=1, col=column)
                figure.update_xaxes(title_text=readout, col=column)
            figure.update_yaxes(title_text=table.metric, col=1)
            found[name] = figure.update_layout(title=f"Readouts, {name}", showlegend=False)
        return found
