"""What is read off embeddings by a linear map: labels, or scores.

Legend: N = rows, K = columns of logits (classes, or 1 where there are two).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from sentune.tasks.sts import correlations
from sentune.tasks.transfer_solver import Places, Singles, probabilities

Values = NDArray[np.float64]
Fold = tuple[Places, Places]
"""Training rows and held-out rows."""

SEED = 1111
"""SentEval's, of the folds."""


class Readout(Protocol):
    """What the targets mean; they are [N] numbers."""

    metric: str

    def distributions(self, targets: Values) -> Singles:
        """[N, K] target probabilities of the logistic regression."""

    def predict(self, logits: Singles) -> Values:
        """[N, K] -> [N] predicted targets."""

    def score(self, predicted: Values, targets: Values) -> float:
        """What a strength is chosen by: larger is better."""

    def folds(self, targets: Values, count: int) -> Iterator[Fold]:
        """The folds of [N] rows, shuffled with SentEval's seed."""


class Labels:
    """Classes 0 to ``classes`` - 1; judged by accuracy."""

    metric = "accuracy"

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def distributions(self, targets: Values) -> Singles:
        """1 for the class; of two classes, the second's column alone."""
        columns = np.eye(self.classes, dtype=np.float32)[targets.astype(np.int64)]
        return columns[:, 1:] if self.classes == 2 else columns

    def predict(self, logits: Singles) -> Values:
        """The likeliest class."""
        chosen = logits[:, 0] > 0 if self.classes == 2 else logits.argmax(axis=1)
        return chosen.astype(np.float64)

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

    Args:
        lowest, highest: integers between which the scores lie, 0 and 5 for the STS Benchmark.
    """

    metric = "pearson"

    def __init__(self, lowest: int, highest: int) -> None:
        self.integers = np.arange(lowest, highest + 1, dtype=np.float64)

    def distributions(self, targets: Values) -> Singles:
        """What is left of 1 at the distance of each integer; of two, the second's column alone."""
        shares = np.maximum(0, 1 - np.abs(targets[:, None] - self.integers))
        return shares[:, 1 if len(self.integers) == 2 else 0 :].astype(np.float32)

    def predict(self, logits: Singles) -> Values:
        """The expected score."""
        shares = probabilities(logits).astype(np.float64)
        if shares.shape[1] == 1:
            shares = np.concatenate([1 - shares, shares], axis=1)
        expected: Values = shares @ self.integers
        return expected

    def score(self, predicted: Values, targets: Values) -> float:
        """Pearson's r."""
        return float(np.nan_to_num(correlations(predicted[None], targets, "pearson")[0]))

    def folds(self, targets: Values, count: int) -> Iterator[Fold]:
        """Not stratified: scores are no classes."""
        yield from KFold(count, shuffle=True, random_state=SEED).split(targets)
