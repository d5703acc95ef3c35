"""Permutation importance of settings for the objective in a random forest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sentune.records import StudySummary, TrialRecord
from sentune.report.axes import axes_of

FEWEST = 6
"""Smallest number of trials to fit a forest to."""
SHUFFLES = 20

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Importance:
    """Rise of the forest's squared error when one setting is shuffled, for each setting.

    Attributes:
        shares: setting -> mean over shuffles, as a fraction of the sum over settings.
        spreads: setting -> standard deviation over shuffles, in the same unit.
        trials: number of trials that the forest is fitted to.
        examples: budget at which the trials are compared; None: each at its end.
        fit: out-of-bag R² of the forest; at or below 0 the shares are not meaningful.
    """

    shares: dict[str, float]
    spreads: dict[str, float]
    trials: int
    examples: int | None
    fit: float


def importance(summary: StudySummary) -> Importance | None:
    """Return the permutation importance (Breiman 2001, section 10) of the settings that varied.

    Trials are compared at one budget, see ``comparable``. The result is None if fewer than
    ``FEWEST`` trials can be compared, no setting varied, or all trials have the same objective.
    """
    from sklearn.ensemble import RandomForestRegressor

    examples, scores = comparable(summary)
    axes = axes_of(summary)
    if len(scores) < FEWEST or not axes or len(set(scores.values())) == 1:
        return None
    trials = [trial for trial in summary.trials if trial.id in scores]
    placed = [[axis.position(trial.settings.get(axis.name)) for axis in axes] for trial in trials]
    # -1 marks a missing value; positions are from 0 to 1
    table = np.array([[-1.0 if place is None else place for place in row] for row in placed])
    target = np.array([scores[trial.id] for trial in trials])
    forest = RandomForestRegressor(200, oob_score=True, random_state=0).fit(table, target)
    rises = rises_of_error(forest.predict, table, target)
    means, spreads = np.maximum(rises.mean(1), 0.0), rises.std(1)
    total = means.sum() or 1.0
    names = [axis.name for axis in axes]
    return Importance(
        shares=dict(zip(names, (means / total).tolist(), strict=True)),
        spreads=dict(zip(names, (spreads / total).tolist(), strict=True)),
        trials=len(trials),
        examples=examples,
        fit=float(forest.oob_score_),
    )


def rises_of_error(predict: Callable[[Floats], Floats], table: Floats, target: Floats) -> Floats:
    """Return the rise of the mean squared error for each column and shuffle, [columns, SHUFFLES].

    Computes the same as scikit-learn's ``permutation_importance`` with one ``predict`` call for
    all shuffled tables, because the overhead of a forest's call dominates.
    """
    rows, columns = table.shape
    shuffled = np.tile(table, (columns, SHUFFLES, 1, 1))  # [columns, shuffles, rows, columns]
    random = np.random.default_rng(0)
    for column in range(columns):
        shuffled[column, ..., column] = random.permuted(shuffled[column, ..., column], axis=1)
    predicted = predict(shuffled.reshape(-1, columns)).reshape(columns, SHUFFLES, rows)
    before = np.square(predict(table) - target).mean()
    rises: Floats = np.square(predicted - target).mean(-1) - before
    return rises


def comparable(summary: StudySummary) -> tuple[int | None, dict[int, float]]:
    """Return the largest budget that enough trials reached, and trial -> objective there.

    Enough means at least half of the trials that reported, and at least ``FEWEST`` unless fewer
    reported. Without curves, complete trials are compared at their end (budget None).
    """
    objective = summary.objective
    every = {trial.id: finite_curve(trial, objective) for trial in summary.trials}
    curves = {number: curve for number, curve in every.items() if curve}
    budgets = sorted({examples for curve in curves.values() for examples in curve}, reverse=True)
    for budget in budgets:
        reached = {n: curve[budget] for n, curve in curves.items() if budget in curve}
        if len(reached) >= max(min(FEWEST, len(curves)), len(curves) / 2):
            return budget, reached
    return None, {
        trial.id: trial.metrics[objective]
        for trial in summary.trials
        if trial.state == "complete" and math.isfinite(trial.metrics.get(objective, math.nan))
    }


def finite_curve(trial: TrialRecord, metric: str) -> dict[int, float]:
    """Return milestone in examples -> finite value of the metric there, sorted by milestone."""
    points = {at: values.get(metric, math.nan) for at, values in sorted(trial.curve.items())}
    return {at: value for at, value in points.items() if math.isfinite(value)}
