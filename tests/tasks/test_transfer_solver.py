"""What scikit-learn's regression is given, and that warm starts and one scale change nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from sentune.tasks.transfer_solver import Labels, Scores, along

GRID = (0.25, 2.0, 32.0)
ALL = np.arange(120)


def data(seed: int, classes: int, rows: int = 120, width: int = 7) -> tuple:
    """Features whose directions differ two-hundredfold in extent, off the origin, and labels."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, width)) * np.geomspace(20, 0.1, width) + 3
    noise = rng.gumbel(size=(rows, classes))
    labels = (features @ rng.normal(size=(width, classes)) * 0.1 + noise).argmax(axis=1)
    labels[:classes] = np.arange(classes)
    return features.astype(np.float32), labels.astype(float)


@pytest.mark.parametrize(("classes", "width", "same"), [(2, 7, 118), (3, 7, 118), (4, 250, 114)])
def test_warm_starts_classify_as_cold_ones(classes: int, width: int, same: int) -> None:
    """But for 2 of 120 rows; in the last case, L-BFGS with more features than rows, for 6."""
    features, labels = data(1, classes, width=width)
    subsets, grid = [ALL, ALL[:90]] if width < 250 else [ALL[:90]], GRID[:2]
    found = along(features, Labels().examples(labels), subsets, grid)
    for strength, (models, unconverged) in zip(grid, found, strict=True):
        assert unconverged == 0
        for subset, model in zip(subsets, models, strict=True):
            cold = LogisticRegression(C=strength, tol=1e-8, solver="newton-cholesky")
            cold.fit(features[subset].astype(np.float64), labels[subset])
            equal = Labels().predict(model, features) == cold.predict(features)
            assert equal.sum() >= same


@pytest.mark.parametrize(("low", "high"), [(1, 5), (2, 3)])
def test_soft_targets_are_the_direct_minimisation(low: int, high: int) -> None:
    """Of the cross-entropy in double precision, softmax over all integers: to 0.005 of a score."""
    features, _ = data(3, 2)
    scores = np.random.default_rng(3).uniform(low, high, len(features)) + features[:, 0] / 40
    scores = np.clip(scores, low, high)
    classes, width = high - low + 1, features.shape[1]
    floor = np.minimum(np.floor(scores), high - 1).astype(int)
    soft = np.zeros((len(scores), classes))
    soft[np.arange(len(scores)), floor - low] = floor + 1 - scores
    soft[np.arange(len(scores)), floor - low + 1] = scores - floor
    # of two classes the logistic function has one vector, the softmax two of half its length
    strength = 2.0 / (2 if classes == 2 else 1)

    def objective(flat: np.ndarray) -> float:
        w = flat.reshape(width + 1, classes)
        logits = features.astype(np.float64) @ w[1:] + w[0]
        return -(soft * log_softmax(logits, axis=1)).sum() + (w[1:] ** 2).sum() / (2 * strength)

    best = minimize(objective, np.zeros((width + 1) * classes), options={"gtol": 1e-4})
    w = best.x.reshape(width + 1, classes)
    expected = softmax(features.astype(np.float64) @ w[1:] + w[0], axis=1)
    (([model], _),) = along(features, Scores().examples(scores), [ALL], [2.0])
    predicted = Scores().predict(model, features)
    np.testing.assert_allclose(predicted, expected @ np.arange(low, high + 1), atol=5e-3)


def test_short_features_are_fitted_as_long_ones() -> None:
    """A hundredth of the length and 10,000 times the strength are the same regression."""
    features, labels = data(5, 4, width=300)
    examples = Labels().examples(labels)
    (([long], _),) = along(features, examples, [ALL], [0.01])
    (([short], _),) = along(features / 100, examples, [ALL], [100.0])
    expected = long.predict_proba(features)
    np.testing.assert_allclose(short.predict_proba(features / 100), expected, atol=0.02)


@pytest.mark.parametrize("width", [7, 300])
def test_fits_stopped_early_are_counted_and_not_warned_of(width: int) -> None:
    features, labels = data(2, 4, width=width)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        examples = Labels().examples(labels)
        ((_, unconverged),) = along(features, examples, [ALL, ALL[:90]], [1.0], max_steps=1)
    assert unconverged == 2


def test_equal_columns_and_separable_classes_are_fitted() -> None:
    """A curvature without full rank, and probabilities near 0 and 1."""
    features = np.repeat(np.linspace(-1, 1, 40, dtype=np.float32)[:, None], 3, axis=1) * 1000
    labels = (features[:, 0] > 0).astype(float)
    for [model], _ in along(features, Labels().examples(labels), [np.arange(40)], GRID):
        np.testing.assert_array_equal(Labels().predict(model, features), labels)


def test_scores_are_spread_over_their_neighbours() -> None:
    """What is left of 1 at the distance of each; 2 is nobody's neighbour, and no class."""
    examples = Scores().examples(np.array([1.0, 3.7, 5.0]))
    assert examples.weights is not None
    found = zip(examples.rows, examples.classes, examples.weights, strict=True)
    shares = {(row, score): weight for row, score, weight in found}
    expected = {(0, 1): 1, (1, 3): 0.3, (1, 4): 0.7, (2, 5): 1}
    assert shares == pytest.approx(expected)
