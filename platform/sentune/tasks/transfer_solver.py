"""Labels or scores read off embeddings by logistic regressions, along a grid of strengths; and
how the strength is chosen (SentEval's ``tools/validation.py``).

The regressions are scikit-learn's, on many subsets of the same rows, each started from its
neighbour in the grid.

Legend: N = rows, E = examples, J = judged rows, D = width of the features, K = columns of logits
(classes, or 1 where there are two), M = subsets, G = strengths.
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
"""SentEval's, of the folds."""

_EXACT = 1000
"""K (D + 1) up to which Newton's steps are taken, in double precision, instead of L-BFGS in single.

A fold with averaged GloVe vectors (D = 300, a thread), all strengths: of MR (K = 1) newton-cholesky
took 0.9 s, L-BFGS 0.3 s, but it stayed where it was at one of six strengths; of TREC (K = 6) 17 s
against 3.6 s. In single precision TREC's Hessian was singular.
"""

_TOLERANCE = 5e-4
"""Of the mean loss's gradient, in units of the features' root mean square.

That is 0.2 for averaged GloVe vectors, which gives scikit-learn's 1e-4. With a plain 1e-4 features
25 times as short were hardly fitted (SICK-R's dev r 0.765, not 0.793); with a fifth of it SICK-R
took more than 1000 steps, for the same r.
"""


@dataclass(frozen=True, kw_only=True)
class WeightedRows:
    """What the rows' targets are to a classifier: [E] rows, their classes, and weights if not 1.

    A row with two classes is there twice.
    """

    rows: Places
    classes: Values
    weights: Values | None = None


class Labels:
    """Classes are numbers; judged by accuracy."""

    metric = "accuracy"

    def examples(self, targets: Values) -> WeightedRows:
        """Return what the regression is fitted to: the rows themselves."""
        return WeightedRows(rows=np.arange(len(targets)), classes=targets)

    def predict(self, model: LogisticRegression, features: Singles) -> Values:
        """[N, D] -> [N] likeliest classes."""
        return np.asarray(model.predict(features), dtype=np.float64)

    def score(self, predicted: Values, targets: Values) -> float:
        return float(np.mean(predicted == targets))

    def folds(self, targets: Values, count: int) -> Iterator[Fold]:
        """Folds stratified by class, shuffled with SentEval's seed."""
        from sklearn.model_selection import StratifiedKFold  # it takes a second to import

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
        """[N, D] -> [N] expected scores."""
        expected: Values = model.predict_proba(features).astype(np.float64) @ model.classes_
        return expected

    def score(self, predicted: Values, targets: Values) -> float:
        return float(np.nan_to_num(correlations(predicted[None], targets, "pearson")[0]))

    def folds(self, targets: Values, count: int) -> Iterator[Fold]:
        """Folds shuffled with SentEval's seed; not stratified, since scores are no classes."""
        from sklearn.model_selection import KFold  # it takes a second to import

        yield from KFold(count, shuffle=True, random_state=SEED).split(targets)


TargetType = Labels | Scores
"""What [N] targets mean; they are numbers."""


def along(
    features: Singles,
    examples: WeightedRows,
    subsets: Sequence[Places],
    grid: Sequence[float],
    max_steps: int = 1000,
) -> Iterator[tuple[list[LogisticRegression], int]]:
    """[N, D] features, examples of them -> the regressions of M subsets of rows, by strength.

    Features are not standardised (SentEval does not).

    Returns:
        For each strength M regressions, which the next one changes, and how many of them stopped
        before their minimum.
    """
    from sklearn.linear_model import LogisticRegression  # it takes a second to import

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
    """Return whether it converged; other warnings are passed on."""
    from sklearn.exceptions import ConvergenceWarning  # it takes a second to import

    weights = None if examples.weights is None else examples.weights[places]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(features[examples.rows[places]], examples.classes[places], weights)
    others = [w for w in told if not issubclass(w.category, ConvergenceWarning)]
    for other in others:
        warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return len(others) == len(told)


GRID = tuple(2.0**t for t in range(-2, 4))
"""C of the logistic regression where dev or inner folds choose it."""

GRID_OF_FOLDS = tuple(2.0**t for t in range(-1, 6))
"""C where folds of train choose it and another split is judged."""

RELATEDNESS_GRID = tuple(4.0**t for t in range(9))
"""C of scores, from 1 to 65536: with averaged word vectors the best was 4, with the same at length
1, whose products of coordinates are small, beyond 1000."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of a split: [N, D] features and [N] targets."""

    features: Singles
    targets: Values

    def at(self, rows: Places) -> Part:
        """Return some of the rows."""
        return Part(features=self.features[rows], targets=self.targets[rows])


@dataclass(frozen=True, kw_only=True)
class ChosenStrength:
    """What was found with each strength, and which of them was chosen.

    Attributes:
        scores: [G], by which the place was chosen.
        on: what chose it, for people.
        predictions: [J] with the strength chosen.
        unconverged: fits that stopped before their minimum, among all.
    """

    grid: Sequence[float]
    scores: Values
    place: int
    on: str
    predictions: Values
    unconverged: int

    @property
    def strength(self) -> float:
        return float(self.grid[self.place])


def choose(
    readout: TargetType, parts: Mapping[str, Part], folds: int, grid: Sequence[float]
) -> ChosenStrength:
    """Let dev choose where there is a test split too, else folds of train; the whole of train is
    fitted with every strength on the way. Train alone is judged row by row, each by the fit of the
    folds that did not see it."""
    train, judged = parts["train"], parts[judged_split(parts)]
    split = [] if by_dev(parts) else list(readout.folds(train.targets, folds))
    subsets = [np.arange(len(train.targets)), *(rows for rows, _ in split)]
    held_out = [train.at(rows) for _, rows in split] or [parts["dev"]]
    scores, predictions, unconverged = [], [], 0
    for models, stopped in along(train.features, readout.examples(train.targets), subsets, grid):
        tried = list(zip(held_out, models[1:] or models, strict=True))
        scores.append(np.mean([_score(readout, part, model) for part, model in tried]))
        if judged is train:
            found = np.empty_like(train.targets)
            for (_, rows), (part, model) in zip(split, tried, strict=True):
                found[rows] = readout.predict(model, part.features)
            predictions.append(found)
        else:
            predictions.append(readout.predict(models[0], judged.features))
        unconverged += stopped
    # the first of those that are equal to 0.01 %, as SentEval rounds
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
    """Judge outer folds; as many inner folds of their training rows choose their strength.

    Inner folds are shuffled with the same seed as outer ones.

    Returns:
        What each outer fold found, its score, and [N] predictions, each row by the fit that did not
        see it.
    """
    found, scores, predictions = [], [], np.empty_like(rows.targets)
    for seen, unseen in readout.folds(rows.targets, folds):
        parts = {"train": rows.at(seen), "test": rows.at(unseen)}
        found.append(choose(readout, parts, folds, grid))
        scores.append(readout.score(found[-1].predictions, parts["test"].targets))
        predictions[unseen] = found[-1].predictions
    return found, scores, predictions


def by_dev(splits: Container[str]) -> bool:
    """Return whether dev chooses the strength, not folds of train."""
    return "dev" in splits and "test" in splits


def judged_split(splits: Container[str]) -> str:
    """``test``, or where there is none ``dev``, or where that is missing too ``train``."""
    return next(split for split in ("test", "dev", "train") if split in splits)


def grid_of(readouts: Given, name: str, default: Sequence[float]) -> Sequence[float]:
    """Return the strength among the readouts alone, else the default grid."""
    given = (readouts or {}).get(f"{name}/C")
    if given is None:
        return default
    if not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise InvalidValue(f"{name}/C", given, "use a positive number")
    return (float(given),)


def _score(readout: TargetType, part: Part, model: LogisticRegression) -> float:
    return readout.score(readout.predict(model, part.features), part.targets)
