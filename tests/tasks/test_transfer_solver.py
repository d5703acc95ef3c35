"""The solver against scikit-learn's regression and against a plain minimisation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from sentune.tasks.transfer_fit import Labels, Scores
from sentune.tasks.transfer_solver import along, probabilities, with_ones

GRID = (0.25, 2.0, 32.0)


def data(seed: int, classes: int, rows: int = 120, width: int = 7) -> tuple:
    """Features whose directions differ two-hundredfold in extent, off the origin, and labels."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, width)) * np.geomspace(20, 0.1, width) + 3
    noise = rng.gumbel(size=(rows, classes))
    labels = (features @ rng.normal(size=(width, classes)) * 0.1 + noise).argmax(axis=1)
    labels[:classes] = np.arange(classes)
    return features.astype(np.float32), labels.astype(float)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 4))
def test_every_subset_and_strength_is_scikit_learns_regression(seed: int, classes: int) -> None:
    features, labels = data(seed, classes)
    subsets = [np.arange(120), np.arange(0, 90), np.r_[np.arange(classes), np.arange(40, 120)]]
    found = along(features, Labels(classes).distributions(labels), subsets, GRID)
    for strength, fitted in zip(GRID, found, strict=True):
        assert fitted.unconverged == 0
        for subset, weights in zip(subsets, fitted.weights, strict=True):
            model = LogisticRegression(C=strength, tol=1e-8, solver="newton-cholesky")
            model.fit(features[subset].astype(np.float64), labels[subset])
            ours = probabilities(with_ones(features) @ weights)
            theirs = model.predict_proba(features.astype(np.float64))
            np.testing.assert_allclose(ours, theirs[:, -ours.shape[1] :], atol=3e-3)


@pytest.mark.parametrize(("low", "high"), [(1, 5), (2, 3)])
def test_soft_targets_are_the_direct_minimisation(low: int, high: int) -> None:
    """Of the cross-entropy in double precision, softmax over all integers."""
    features, _ = data(3, 2)
    scores = np.random.default_rng(3).uniform(low, high, len(features)) + features[:, 0] / 40
    scores = np.clip(scores, low, high)
    readout = Scores(low, high)
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
    (fitted,) = along(features, readout.distributions(scores), [np.arange(len(scores))], [2.0])
    logits = with_ones(features) @ fitted.weights[0]
    predicted = readout.predict(logits)
    np.testing.assert_allclose(predicted, expected @ np.arange(low, high + 1), atol=5e-3)


def test_rows_outside_a_subset_leave_no_trace() -> None:
    features, labels = data(5, 3)
    changed = features.copy()
    changed[100:] = 50 * changed[100:] + 7
    targets, subset = Labels(3).distributions(labels), np.arange(100)
    (plain,) = along(features, targets, [subset], [2.0])
    (other,) = along(changed, targets, [subset], [2.0])
    rows = with_ones(features[:100])
    ours, theirs = (probabilities(rows @ f.weights[0]) for f in (plain, other))
    np.testing.assert_allclose(ours, theirs, atol=3e-3)


def test_equal_columns_and_separable_classes_are_fitted() -> None:
    """A curvature without full rank, and probabilities near 0 and 1."""
    features = np.repeat(np.linspace(-1, 1, 40, dtype=np.float32)[:, None], 3, axis=1) * 1000
    labels = (features[:, 0] > 0).astype(float)
    for fitted in along(features, Labels(2).distributions(labels), [np.arange(40)], GRID):
        predicted = Labels(2).predict(with_ones(features) @ fitted.weights[0])
        np.testing.assert_array_equal(predicted, labels)


def test_scores_are_spread_over_their_neighbours() -> None:
    shares = Scores(1, 5).distributions(np.array([1.0, 3.7, 5.0]))
    expected = [[1, 0, 0, 0, 0], [0, 0, 0.3, 0.7, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_allclose(shares, expected, atol=1e-6)
    np.testing.assert_allclose(Scores(1, 5).predict(np.log(shares + 1e-9)), [1, 3.7, 5], atol=1e-5)
