"""Logistic regressions on embeddings over a grid of C, and the choice of C by cross-validation.

The protocol is that of SentEval's ``tools/validation.py``. The regressions are scikit-learn's, on
many subsets of the same rows, with a warm start from the previous C.

Legend: N = rows, E = examples, J = judged rows, D = width of the features, K = columns of logits
(classes, or 1 for two classes), M = subsets, G = values of C.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentune.beats import beat
from sentune.errors import InvalidValue
from sentune.tasks.base import Given
from sentune.tasks.sts import correlations

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Singles = NDArray[np.float32]
Values = NDArray[np.float64]
Places = NDArray[np.int64]
Fold = tuple[Places, Places]
"""Training rows and held-out rows."""

SEED = 1111
"""SentEval's seed of the folds."""

_EXACT = 1000
"""Largest K (D + 1) for Newton's method in double precision; above it, L-BFGS in single precision.

Times of one fold with averaged GloVe vectors (D = 300, one thread) and all C: on MR (K = 1)
newton-cholesky took 0.9 s and L-BFGS 0.3 s, but L-BFGS made no step at one of six C; on TREC
(K = 6) 17 s and 3.6 s. In single precision TREC's Hessian was singular.
"""

_TOLERANCE = 5e-4
"""Tolerance of the mean loss's gradient, in units of the features' root mean square.

The latter is 0.2 for averaged GloVe vectors, which gives scikit-learn's default of 1e-4. With a
fixed 1e-4, features 25 times shorter were hardly fitted (SICK-R's dev r 0.765 instead of 0.793);
with a fifth of the tolerance SICK-R took more than 1000 steps for the same r.
"""


@dataclass(frozen=True, kw_only=True)
class WeightedRows:
    """Training examples of a classifier; a row with two classes has two examples.

    Attributes:
        rows: rows of the examples, [E].
        classes: classes of the examples, [E].
        weights: weights of the examples, [E]; None: all are 1.
    """

    rows: Places
    classes: Values
    weights: Values | None = None


class Labels:
    """Targets that are classes, as numbers; scored by accuracy."""

    metric = "accuracy"

    def examples(self, targets: Values) -> WeightedRows:
        """Return one example per row."""
        return WeightedRows(rows=np.arange(len(targets)), classes=targets)

    def predict(self, model: LogisticRegression, features: Singles) -> Values:
        """Return the most likely class of each row of features [N, D], [N]."""
        return np.asarray(model.predict(features), dtype=np.float64)

    def score(self, predicted: Values, targets: Values) -> float:
        """Return the accuracy."""
        return float(np.mean(predicted == targets))

    def folds(self, targets: Values, count: int) -> Iterator[Fold]:
        """Yield folds stratified by class, shuffled with SentEval's seed."""
        from sklearn.model_selection import StratifiedKFold  # takes a second to import

        split = StratifiedKFold(count, shuffle=True, random_state=SEED)
        yield from split.split(targets, targets)


class Scores:
    """Targets that are scores, as distributions over integers (Tai, Socher & Manning 2015, 4.2).

    A score of 3.7 is 3 with probability 0.3 and 4 with 0.7; the prediction is the expectation. The
    loss is the cross-entropy with that distribution, which differs from the paper's divergence by
    a constant (SentEval's code uses the squared error). Scored by Pearson's r, 0 if undefined.
    """

    metric = "pearson"

    def examples(self, targets: Values) -> WeightedRows:
        """Return an example for each integer of each row, weighted by the integer's probability.

        Integers of probability 0 in every row are not classes.
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
        """Return the expected score of each row of features [N, D], [N]."""
        expected: Values = model.predict_proba(features).astype(np.float64) @ model.classes_
        return expected

    def score(self, predicted: Values, targets: Values) -> float:
        """Return Pearson's r, 0 if undefined."""
        return float(np.nan_to_num(correlations(predicted[None], targets, "pearson")[0]))

    def folds(self, targets: Values, count: int) -> Iterator[Fold]:
        """Yield folds shuffled with SentEval's seed, not stratified."""
        from sklearn.model_selection import KFold  # takes a second to import

        yield from KFold(count, shuffle=True, random_state=SEED).split(targets)


TargetType = Labels | Scores
"""Interpretation of numeric targets, [N]."""


def along(
    features: Singles,
    examples: WeightedRows,
    subsets: Sequence[Places],
    grid: Sequence[float],
    max_steps: int = 1000,
) -> Iterator[tuple[list[LogisticRegression], int]]:
    """Yield regressions fitted on M subsets of the rows, for each C of the grid.

    Features are not standardised, as in SentEval.

    Args:
        features: features of all rows, [N, D].
        examples: training examples of the rows.
        subsets: M arrays of rows.
        grid: values of C.
        max_steps: largest number of steps of a fit.

    Yields:
        For each C, M regressions, which are changed by the next C, and the number of those that did
        not converge.
    """
    from sklearn.linear_model import LogisticRegression  # takes a second to import

    chosen = [np.flatnonzero(np.isin(examples.rows, subset)) for subset in subsets]
    classes = len(np.unique(examples.classes))
    exact = (features.shape[1] + 1) * (1 if classes == 2 else classes) <= _EXACT
    scale = np.sqrt(np.mean(np.square(features, dtype=np.float64)))
    models = [
        LogisticRegression(
            solver="newton-cholesky" if exact else "lbfgs",
            tol=_TOLERANCE * (scale or 1.0),
            max_iter=max_steps,
            warm_start=True,
        )
        for _ in subsets
    ]
    rows = features.astype(np.float64) if exact else features
    for strength in grid:
        beat()
        converged = [
            _fit(model.set_params(C=strength), rows, examples, places)
            for model, places in zip(models, chosen, strict=True)
        ]
        yield models, converged.count(False)


def _fit(
    model: LogisticRegression,
    features: NDArray[np.floating],
    examples: WeightedRows,
    places: Places,
) -> bool:
    """Fit a model and return whether it converged; warnings about other matters are re-issued."""
    from sklearn.exceptions import ConvergenceWarning  # takes a second to import

    weights = None if examples.weights is None else examples.weights[places]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(features[examples.rows[places]], examples.classes[places], weights)
    others = [w for w in told if not issubclass(w.category, ConvergenceWarning)]
    for other in others:
        warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return len(others) == len(told)


GRID = tuple(2.0**t for t in range(-2, 4))
"""Values of C for labels, if dev or inner folds choose it."""

GRID_OF_FOLDS = tuple(2.0**t for t in range(-1, 6))
"""Values of C for labels, if cross-validation on train chooses it and another split is judged."""

RELATEDNESS_GRID = tuple(4.0**t for t in range(9))
"""Values of C for scores, 1 to 65536. The best was 4 for averaged word vectors and above 1000 for
the same vectors at length 1, whose products of coordinates are small."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of a split: features, [N, D], and targets, [N]."""

    features: Singles
    targets: Values

    def at(self, rows: Places) -> Part:
        """Return some of the rows."""
        return Part(features=self.features[rows], targets=self.targets[rows])


@dataclass(frozen=True, kw_only=True)
class ChosenStrength:
    """The chosen C, with the scores of all C.

    Attributes:
        grid: values of C, G.
        scores: score of each C, [G].
        place: index of the chosen C in the grid.
        on: data that C was chosen on, as text.
        predictions: predictions for the judged rows with the chosen C, [J].
        unconverged: number of fits that did not converge.
    """

    grid: Sequence[float]
    scores: Values
    place: int
    on: str
    predictions: Values
    unconverged: int

    @property
    def strength(self) -> float:
        """Return the chosen C."""
        return float(self.grid[self.place])


def choose(
    readout: TargetType, parts: Mapping[str, Part], folds: int, grid: Sequence[float]
) -> ChosenStrength:
    """Choose C and predict the judged split (``judged_split``) with it.

    C is chosen on dev if there are dev and test, else by cross-validation on train. Predictions are
    those of the fit to all of train; if train itself is judged, those of the fold that did not
    train on the row.
    """
    train, judged = parts["train"], parts[judged_split(parts)]
    split = [] if by_dev(parts) else list(readout.folds(train.targets, folds))
    subsets = [np.arange(len(train.targets)), *(rows for rows, _ in split)]
    held_out = [train.at(rows) for _, rows in split] or [parts["dev"]]
    scores, predictions, unconverged = [], [], 0
    for models, stopped in along(train.features, readout.examples(train.targets), subsets, grid):
        tried = zip(models[1:] or models, held_out, strict=True)
        found = [readout.predict(model, part.features) for model, part in tried]
        each = zip(found, held_out, strict=True)
        scores.append(np.mean([readout.score(rows, part.targets) for rows, part in each]))
        if judged is train:
            predictions.append(np.empty_like(train.targets))
            for (_, rows), of_fold in zip(split, found, strict=True):
                predictions[-1][rows] = of_fold
        else:
            predictions.append(readout.predict(models[0], judged.features))
        unconverged += stopped
    # the first of those that are equal when rounded to 0.01 %, as in SentEval
    place = int(np.argmax(np.round(100 * np.array(scores), 2)))
    return ChosenStrength(
        grid=grid,
        scores=np.array(scores),
        place=place,
        on=f"{folds} folds of train" if split else "dev",
        predictions=predictions[place],
        unconverged=unconverged,
    )


def nested(
    readout: TargetType, rows: Part, folds: int, grid: Sequence[float]
) -> tuple[list[ChosenStrength], list[float], Values]:
    """Run a nested cross-validation, with the same number and seed of inner and outer folds.

    Returns:
        The chosen C of each outer fold, its score, and out-of-fold predictions, [N].
    """
    found, scores, predictions = [], [], np.empty_like(rows.targets)
    for seen, unseen in readout.folds(rows.targets, folds):
        parts = {"train": rows.at(seen), "test": rows.at(unseen)}
        found.append(choose(readout, parts, folds, grid))
        scores.append(readout.score(found[-1].predictions, parts["test"].targets))
        predictions[unseen] = found[-1].predictions
    return found, scores, predictions


def by_dev(splits: Container[str]) -> bool:
    """Return whether C is chosen on dev instead of by cross-validation on train."""
    return "dev" in splits and "test" in splits


def judged_split(splits: Container[str]) -> str:
    """Return the split that metrics are measured on: ``test``, else ``dev``, else ``train``."""
    return next(split for split in ("test", "dev", "train") if split in splits)


def grid_of(readouts: Given, name: str, default: Sequence[float]) -> Sequence[float]:
    """Return the C among the readouts as a grid of one value, else the default grid.

    Raises:
        InvalidValue: the C among the readouts is not a positive number.
    """
    given = (readouts or {}).get(f"{name}/C")
    if given is None:
        return default
    if not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise InvalidValue(f"{name}/C", given, "use a positive number")
    return (float(given),)
