"""Optuna's own figures of a study on one interactive page, for MLflow, a browser or a notebook."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.importance import PedAnovaImportanceEvaluator
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.credentials import without_credentials
from sentune.formatting import setting
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.report.axes import Axis, axes_of
from sentune.report.importance import FEWEST
from sentune.report.render import to_interactive_html
from sentune.report.view import View

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INTERACTIVE = "figures.html"
MOST = 1000
"""Trials of a page."""

_STATES = {
    TrialState.RUNNING: Stored.RUNNING,
    TrialState.COMPLETE: Stored.COMPLETE,
    TrialState.PRUNED: Stored.PRUNED,
    TrialState.FAILED: Stored.FAIL,
    TrialState.INFEASIBLE: Stored.FAIL,
}


def plain_study(summary: StudySummary) -> optuna.Study:
    """A study in memory for any tool of Optuna's: the settings that varied, values, curves, states.

    It holds no other attributes, which Optuna would show with every point. A complete trial
    without a value for each objective counts as failed, and so does, in a study of more than
    ``MOST`` trials, every trial but the best: each is a line of the page.
    """
    objectives = summary.objectives or [{"metric": summary.objective, "mode": summary.mode}]
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        study_name=summary.study,
        directions=["minimize" if one["mode"] == "min" else "maximize" for one in objectives],
    )
    metrics, axes = [one["metric"] for one in objectives], axes_of(summary)
    known = {trial.id: trial for trial in View(summary=summary).ranked[:MOST]}
    for number in range(max(known, default=-1) + 1):  # Optuna numbers trials as they come
        trial = known.get(number, TrialRecord(id=number, state=TrialState.FAILED, settings={}))
        study.add_trial(_frozen(trial, axes, metrics))
    return study


class OptunaFigures:
    """Optuna's figures of a study, as plotly figures.

    Args:
        study: its trials have no user attributes, see ``plain_study``.
        metrics: names of its values; the first one is shown where a figure has one value.
    """

    def __init__(self, study: optuna.Study, metrics: Sequence[str]) -> None:
        self._study, self._names = study, [_safe(metric) for metric in metrics]
        self._shown: dict[str, Any] = {"target_name": self._names[0]}
        self._weighed = dict(self._shown)
        if len(metrics) > 1:  # importance is that for good trials, those of the least values
            sign = -1.0 if study.directions[0] is StudyDirection.MAXIMIZE else 1.0
            self._shown["target"] = lambda trial: trial.values[0]
            self._weighed["target"] = lambda trial: sign * float(trial.values[0])

    def history(self) -> Figure:
        """Return the value of each trial, and the best so far."""
        return optuna.visualization.plot_optimization_history(self._study, **self._shown)

    def front(self) -> Figure:
        """Return the Pareto front of a study of several objectives."""
        return optuna.visualization.plot_pareto_front(self._study, target_names=self._names)

    def curves(self) -> Figure:
        """Return the first objective of each trial over the examples seen."""
        return optuna.visualization.plot_intermediate_values(self._study)

    def slices(self) -> Figure:
        """Return the value of each trial over each setting."""
        return optuna.visualization.plot_slice(self._study, **self._shown)

    def parallel(self) -> Figure:
        """Return a line for each trial through its settings to its value."""
        return optuna.visualization.plot_parallel_coordinate(self._study, **self._shown)

    def importance(self) -> Figure:
        """Return the importance of each setting (PED-ANOVA, Watanabe et al. 2023)."""
        return optuna.visualization.plot_param_importances(
            self._study, evaluator=PedAnovaImportanceEvaluator(), **self._weighed
        )


def interactive_page(study: optuna.Study, title: str, metrics: Sequence[str]) -> str:
    """Return one HTML page of about 5 MB with Optuna's figures, which loads nothing.

    Args:
        study: its trials have no user attributes, see ``plain_study``.
        metrics: names of its values.
    """
    figures = OptunaFigures(study, metrics)
    wanted: dict[str, Callable[[], Figure]] = {"Optimisation history": figures.history}
    if len(metrics) > 1:
        wanted["Pareto front"] = figures.front
    wanted |= {
        "Intermediate values": figures.curves,
        "Slices": figures.slices,
        "Parallel coordinates": figures.parallel,
    }
    if len(study.get_trials(deepcopy=False, states=(Stored.COMPLETE,))) >= FEWEST:
        wanted["Importance of settings"] = figures.importance
    with warnings.catch_warnings():  # of features that may change, and of signs as they are here
        warnings.simplefilter("ignore")
        return to_interactive_html(title, [(name, _div(make)) for name, make in wanted.items()])


def _div(make: Callable[[], Figure]) -> str:
    """Return a figure as an element of a page, or a paragraph that says why there is none."""
    try:
        figure = make()
    except (ValueError, RuntimeError) as error:  # of what it cannot compare
        return f"<p>Optuna draws none: {_safe(error)}</p>"
    if not figure.data:
        return "<p>There is nothing to draw yet.</p>"
    figure.update_layout(title=None, template="plotly_white", legend={"orientation": "h"})
    figure.update_layout(autosize=True, margin={"l": 56, "r": 16, "t": 24, "b": 48})
    config = {"responsive": True, "displayModeBar": False}
    return str(figure.to_html(full_html=False, include_plotlyjs=False, config=config))


def _frozen(trial: TrialRecord, axes: list[Axis], metrics: list[str]) -> FrozenTrial:
    values = [trial.metrics.get(metric, math.nan) for metric in metrics]
    state = _STATES[trial.state]
    if state is Stored.COMPLETE and not all(map(math.isfinite, values)):
        state = Stored.FAIL
    params: dict[str, Any] = {}
    distributions: dict[str, BaseDistribution] = {}
    for axis in axes:
        name = _safe(axis.name)
        value: Any = trial.settings.get(axis.name)
        if axis.position(value) is None:
            continue
        if axis.choices:
            params[name] = _choice(value)
            distributions[name] = CategoricalDistribution([_choice(one) for one in axis.choices])
        else:
            params[name] = float(value)
            distributions[name] = FloatDistribution(axis.low, axis.high, log=axis.log)
    curve = {at: metric.get(metrics[0], math.nan) for at, metric in trial.curve.items()}
    return optuna.trial.create_trial(
        state=state,
        values=values if state is Stored.COMPLETE else None,
        params=params,
        distributions=distributions,
        intermediate_values={at: v for at, v in curve.items() if math.isfinite(v)},
    )


def _choice(value: Any) -> str | float | None:
    plain = value is None or isinstance(value, bool | int | float)
    return value if plain else _safe(setting(value))


def _safe(text: object) -> str:
    """Return a text in which plotly, which obeys some tags of HTML, sees none."""
    return escape(str(without_credentials(str(text))), quote=False)
