"""The study that the Python API returns, with its tables, model and figures."""

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
    """The state of a study when it was loaded.

    Attributes:
        name: of the study.
        state: ``complete``, ``stopped``, ``interrupted``, ``failed``, ``running`` or ``new``;
            ``suspended`` or ``silent`` if its driver is suspended, or does not answer from another
            machine.
        reason: of the state; may be empty.
        figures: as plotly figures.
        view: the report's view of the study.
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
        """One row per trial, with columns such as ``settings.NAME`` and ``metrics.NAME``."""
        rows = [trial.row() for trial in self.view.trials]
        return pd.DataFrame(rows).set_index("trial") if rows else pd.DataFrame()

    @property
    def best(self) -> TrialRecord | None:
        """The trial that the exported model comes from; before the export, the best so far."""
        summary = self.view.summary
        known = {trial.id: trial for trial in summary.trials}
        return known[summary.best] if summary.best is not None else self.view.best

    @property
    def finalists(self) -> pd.DataFrame:
        """One row per finalist and seed, the best finalist first.

        A metric that some seeds of a finalist do not have is left out for that finalist.
        """
        rows = []
        for one in self.view.summary.finalists:
            whole = {n: m.values for n, m in one.metrics.items() if len(m.values) == len(one.seeds)}
            for place, seed in enumerate(one.seeds):
                of_seed = {name: values[place] for name, values in whole.items()}
                rows.append({"trial": one.trial, "seed": seed, **of_seed})
        return pd.DataFrame(rows)

    @property
    def metrics(self) -> pd.DataFrame:
        """One row per metric.

        Columns: mean ``dev`` and its ``sd`` over the winner's seeds (no ``sd`` for one seed),
        ``test`` of the exported model and its standard error over the items, ``test_error``, and
        ``baseline``, the value of a rule without a model.
        """
        from sentune.report.view import ERROR

        summary, measured = self.view.summary, self.view.measured
        test = summary.test.items()
        columns = {
            "dev": {name: over.mean for name, over in measured.items()},
            "sd": {name: over.sd for name, over in measured.items() if len(over.values) > 1},
            "test": {name: value for name, value in test if not name.endswith(ERROR)},
            "test_error": {n.removesuffix(ERROR): v for n, v in test if n.endswith(ERROR)},
            "baseline": summary.baselines,
        }
        table = pd.DataFrame(columns, dtype=float).sort_index()
        return table[~table.index.str.startswith("train/")]

    @property
    def baselines(self) -> dict[str, float]:
        """``task/rule`` -> value of a rule without a model."""
        return dict(self.view.summary.baselines)

    @property
    def verdict(self) -> str:
        """The result of the study with its error, in one or two sentences."""
        from sentune.report.study_page import finding

        against = self.view.against_rules
        said = (finding(self.view), against and against.text, self.view.summary.verdict)
        return " ".join(filter(None, said))

    @cached_property
    def model(self) -> Embedder:
        """The exported model.

        Raises:
            InvalidValue: the study has no model yet.
        """
        from sentune.embedder.embedder import Embedder

        folder = self.view.summary.model
        if folder is None:
            fix = (
                f"the study is {self.state} and has no model yet; resume it with the same call of "
                "sentune.tune or `sentune study resume`"
            )
            raise InvalidValue("model", self.name, fix)
        return Embedder.load(folder)

    @property
    def optuna(self) -> optuna.Study:
        """The Optuna study, for reading."""
        import optuna

        from sentune.study.store.storage import open_storage

        return optuna.load_study(study_name=self.name, storage=open_storage(self._place.url))

    def report(self, out: str | Path) -> Path:
        """Write the study's report as one HTML page to ``out``, and return its path.

        Raises:
            StorageError: the file cannot be written.
        """
        from sentune.report import build
        from sentune.report.render import to_html

        if "://" in str(out):
            raise InvalidValue("out", str(out), "give a file of this machine")
        path, page = Path(out).expanduser(), to_html(build(self.view))
        return Path(write_document(str(path.parent), path.name, page, option="out"))

    def __repr__(self) -> str:
        return f"<study {self.name}: {self.state}. {self.verdict}>"

    def _repr_html_(self) -> str:
        """Return the result and the metrics for a notebook, in red if a rule is not beaten."""
        from html import escape

        against = self.view.against_rules
        red = ' style="color:#c62828"' if against and not against.beaten else ""
        table = self.metrics.to_html(float_format="{:.4f}".format, na_rep="", border=0)
        said = f"<b>{escape(self.name)}</b> ({self.state}): {escape(self.verdict)}"
        return f"<p{red}>{said}</p>{table}"


class StudyFigures:
    """The figures of a study as plotly figures, which notebooks display."""

    def __init__(self, view: View) -> None:
        self._view = view

    @cached_property
    def _optuna(self) -> dict[str, Callable[[], go.Figure]]:
        from sentune.study.interactive_page import figures_of, plain_study

        metrics = [metric for metric, _ in self._view.objectives]
        return figures_of(plain_study(self._view.summary), metrics)

    def history(self) -> go.Figure:
        """Plot the objective of each trial, and the best so far."""
        return self._optuna["history"]()

    def curves(self) -> go.Figure:
        """Plot the objective of each trial over the number of examples."""
        return self._optuna["curves"]()

    def parallel(self) -> go.Figure:
        """Plot parallel coordinates: the settings and the objective of each trial."""
        return self._optuna["parallel"]()

    def importance(self) -> go.Figure:
        """Plot the importance of each setting.

        Raises:
            InvalidValue: too few trials are complete.
        """
        try:
            return self._optuna["importance"]()
        except (ValueError, RuntimeError) as error:
            raise InvalidValue("importance", self._view.summary.study, str(error)) from error

    def seeds(self) -> go.Figure:
        """Plot the objective of each finalist's seeds, on dev."""
        import plotly.graph_objects as go

        objective = self._view.summary.objective
        titles = {"title": "Seeds", "yaxis_title": objective, "xaxis_title": "finalist"}
        figure = go.Figure(layout={**titles, "showlegend": False})
        for finalist in self._view.summary.finalists:
            name, seeds = f"trial {finalist.trial}", [f"seed {seed}" for seed in finalist.seeds]
            values = finalist.metrics[objective].values
            points = {"x": [name] * len(seeds), "y": values, "text": seeds, "name": name}
            figure.add_scatter(**points, mode="markers", marker={"size": 9})
        return figure

    def readouts(self) -> dict[str, go.Figure]:
        """Plot the winner's sweeps: sweep -> metric over each readout, the others at their best."""
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
