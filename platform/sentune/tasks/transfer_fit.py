"""What is read off embeddings by a linear map: labels, or scores.

Legend: N = rows, D = width of the features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold

from sentune.tasks.sts import correlations
from sentune.tasks.transfer_solver import Places, Singles, Values, WeightedRows

Fold = tuple[Places, Places]
"""Training rows and held-out rows."""

SEED = 1111
"""SentEval's, of the folds."""


class TargetType(Protocol):
    """What the targets mean; they are [N] numbers."""

    metric: str

    def examples(self, targets: Values) -> WeightedRows:
        """What the logistic regression is fitted to."""

    def predict(self, model: LogisticRegression, features: Singles) -> Values:
        """[N, D] -> [N] predicted targets."""

    def score(self, predicted: Values, targets: Values) -> float:
        """What a strength is chosen by: larger is better."""

    def folds(self, targets: Values, count: int) -> Iterator[Fold]:
        """The folds of [N] rows, shuffled with SentEval's seed."""


class Labels:
    """Classes are numbers; judged by accuracy."""

    metric = "accuracy"

    def examples(self, targets: Values) -> WeightedRows:
        """Return the rows themselves."""
        return WeightedRows(rows=np.arange(len(targets)), classes=targets)

    def predict(self, model: LogisticRegression, features: Singles) -> Values:
        """Return the likeliest class."""
        return np.asarray(model.predict(features), dtype=np.float64)

    def score(self, predicted: Values, targets: Values) -> float:
        """Accuracy."""
        return float(np.mean(predicted == targets))

    def folds(self, targets: Values, count: int) -> Iterator[Fold]:
        """Stratified by class."""
        split = StratifiedKFold(count, shuffle=True, random_state=SEED)
        yield from split.split(targets, targets)


class Scores:
    """Scores as distributions over the integers around them (Tai, Socher & Manning 2015, 4.2).

    A score of 3.7 is 3 with probability 0.3 and 4 with 0.7; the prediction is the expectation. The
    loss is the cross-entropy with that distribution, which differs from the paper's divergence by
    a constant (SentEval's code takes the squared error). Judged by Pearson's r, 0 where undefined.
    """

    metric = "pearson"

    def examples(self, targets: Values) -> WeightedRows:
        """Each row once for each of its integers, weighted by what the integer has of it.

        Integers that no row has are no classes.
        """
        below = np.floor(targets)
        weights = np.concatenate([below + 1 - targets, targets - below])
        kept = weights > 0
        return WeightedRows(
            rows=np.tile(np.arange(len(targets)), 2)[kept],
            classes=np.concatenate([below, below + 1])[kept],
            weights=weights[kept],
        )

    def predict(self, model: LogisticRegression, features: Singles) -> Values:
        """Return the expected score."""
        expected: Values = model.predict_proba(features).astype(np.float64) @ model.classes_
        return expected

    def score(self, predicted: Values, targets: Values) -> float:
        """Pearson's r."""
        return float(np.nan_to_num(correlations(predicted[None], targets, "pearson")[0]))

    def folds(self, targets: Values, count: int) -> Iterator[Fold]:
        """Not stratified: scores are no classes."""
        yield from KFold(count, shuffle=True, random_state=SEED).split(targets)
