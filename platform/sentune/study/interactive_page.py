"""Interactive HTML page with Optuna's figures of a study, for MLflow, a browser or a notebook."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.formatting import setting
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.report.axes import Axis
from sentune.report.blocks import Chart, Section, StudyReport, Text
from sentune.report.drawing import safe
from sentune.report.importance import FEWEST
from sentune.report.render import to_html
from sentune.report.view import View
from sentune.study.store.trial_codec import DIRECTIONS

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INTERACTIVE = "figures.html"
TITLES = {
    "history": "Optimisation history",
    "front": "Pareto front",
    "curves": "Intermediate values",
    "slices": "Slices",
    "parallel": "Parallel coordinates",
    "importance": "Importance of settings",
}
MOST = 1000
"""Most trials of a page."""


def plain_study(summary: StudySummary) -> optuna.Study:
    """Return the study as an in-memory Optuna study for Optuna's own tools.

    It has the varied settings, values, curves, states and constraints, but no user attributes,
    which Optuna would show with every point. Complete trials without a value of each objective are
    failed ones, and so are all but the ``MOST`` best trials, since each is a line of the page.
    """
    view = View(summary=summary)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    metrics, modes = zip(*view.objectives, strict=True)
    directions = [DIRECTIONS[mode] for mode in modes]
    study = optuna.create_study(study_name=summary.study, directions=directions)
    known = {trial.id: trial for trial in view.ranked[:MOST]}
    for number in range(max(known, default=-1) + 1):  # Optuna numbers trials as they come
        trial = known.get(number, TrialRecord(id=number, state=TrialState.FAILED, settings={}))
        study.add_trial(_frozen(trial, view.axes, metrics))
    return study


def figures_of(study: optuna.Study, metrics: Sequence[str]) -> dict[str, Callable[[], Figure]]:
    """Return name (a key of ``TITLES``) -> function that draws the figure by Optuna.

    Args:
        study: study without user attributes, as by ``plain_study``.
        metrics: names of its values; figures of a single value show the first.
    """
    names = [safe(metric) for metric in metrics]
    shown: dict[str, Any] = {"target_name": names[0]}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()  # Watanabe et al. 2023
    weighed = {**shown, "evaluator": evaluator}
    if len(metrics) > 1:  # PED-ANOVA takes the lowest values for the good trials
        sign = -1.0 if study.directions[0] is StudyDirection.MAXIMIZE else 1.0
        shown["target"] = lambda trial: trial.values[0]
        weighed["target"] = lambda trial: sign * float(trial.values[0])
    draw = optuna.visualization
    return {
        "history": partial(draw.plot_optimization_history, study, **shown),
        "front": partial(draw.plot_pareto_front, study, target_names=names),
        "curves": partial(draw.plot_intermediate_values, study),
        "slices": partial(draw.plot_slice, study, **shown),
        "parallel": partial(draw.plot_parallel_coordinate, study, **shown),
        "importance": partial(draw.plot_param_importances, study, **weighed),
    }


def interactive_page(summary: StudySummary) -> str:
    """Return one self-contained HTML page of about 5 MB with Optuna's figures."""
    metrics = [metric for metric, _ in View(summary=summary).objectives]
    study = plain_study(summary)
    figures = figures_of(study, metrics)
    if len(metrics) == 1:
        del figures["front"]
    if len(study.get_trials(deepcopy=False, states=(Stored.COMPLETE,))) < FEWEST:
        del figures["importance"]
    with warnings.catch_warnings():  # of experimental features and the direction of values
        warnings.simplefilter("ignore")
        blocks = [_block(name, make) for name, make in figures.items()]
    section = Section("figures", "Optuna's figures", blocks)
    lead = f"{summary.method}, selected by {summary.objective}"
    return to_html(StudyReport(summary.study, summary.state, lead, [section]))


def _block(name: str, make: Callable[[], Figure]) -> Chart | Text:
    """Return a figure as a block of a report, or a text that says why there is none."""
    try:
        figure = make()
    except (ValueError, RuntimeError) as error:  # such as trials that cannot be compared
        return Text(f"{TITLES[name]}: Optuna cannot draw it: {error}")
    if not figure.data:
        return Text(f"{TITLES[name]}: there is nothing to draw yet.")
    figure.update_layout(title=None, template="plotly_white", legend={"orientation": "h"})
    figure.update_layout(height=450, margin={"l": 56, "r": 16, "t": 24, "b": 48})
    return Chart(name, TITLES[name], "", lambda: figure, wide=True)


def _frozen(trial: TrialRecord, axes: list[Axis], metrics: Sequence[str]) -> FrozenTrial:
    """Return a record as an Optuna trial, with the settings of the axes as its parameters."""
    values = [trial.metrics.get(metric, math.nan) for metric in metrics]
    state = Stored.__members__.get(trial.state.name, Stored.FAIL)  # FAILED and INFEASIBLE too
    if state is Stored.COMPLETE and not all(map(math.isfinite, values)):
        state = Stored.FAIL
    params: dict[str, Any] = {}
    distributions: dict[str, BaseDistribution] = {}
    for axis in axes:
        name: str = safe(axis.name)
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
        constraints={safe(name): by for name, by in trial.violations.items()},
    )


def _choice(value: Any) -> str | float | None:
    """Return a value as a choice of Optuna's."""
    plain = value is None or isinstance(value, bool | int | float)
    return value if plain else safe(setting(value))
