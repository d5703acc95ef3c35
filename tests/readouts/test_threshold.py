"""The exact threshold against a slow loop, a grid and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    auc,
    average_precision_score,
    precision_score,
    recall_score,
)

from sentune.errors import InvalidValue
from sentune.readouts.threshold import best_threshold, precision_recall
from tests.rounding import rounding

# few distinct values, so that ties are common
coarse = st.integers(-4, 4).map(lambda n: n / 4)
fine = st.floats(-1, 1, allow_nan=False)
cases = st.lists(st.tuples(coarse | fine, st.booleans()), min_size=1, max_size=40)


def brute_force(scores: np.ndarray, truth: np.ndarray) -> float:
    """Best accuracy over a threshold below all, at each score, by plain counting."""
    candidates = [-np.inf, *scores]
    return max(
        sum((s > c) == t for s, t in zip(scores, truth, strict=True)) / len(scores)
        for c in candidates
    )


def accuracy_at(threshold: float, scores: Any, truth: Any) -> float:
    """Share of cases in which ``score > threshold`` agrees with the truth."""
    return float(np.mean((np.array(scores) > threshold) == np.array(truth)))


@given(cases)
def test_no_threshold_does_better(pairs: list[tuple[float, bool]]) -> None:
    scores, truth = np.array([s for s, _ in pairs]), np.array([t for _, t in pairs])
    best = best_threshold(scores, truth)
    assert accuracy_at(best, scores, truth) == pytest.approx(brute_force(scores, truth))
    assert accuracy_score(truth, scores > best) == pytest.approx(brute_force(scores, truth))


@given(cases)
def test_a_sweep_in_steps_of_a_thousandth_does_no_better(pairs: list[tuple[float, bool]]) -> None:
    scores, truth = np.array([abs(s) for s, _ in pairs]), np.array([t for _, t in pairs])
    swept = max(accuracy_at(step / 1000, scores, truth) for step in range(1001))
    assert accuracy_at(best_threshold(scores, truth), scores, truth) >= swept - rounding(1)


def test_a_sweep_misses_what_lies_between_its_steps() -> None:
    scores, truth = [0.10002, 0.10007, 0.10003, 0.10008], [False, True, False, True]
    best = best_threshold(scores, truth)
    assert accuracy_at(best, scores, truth) == 1
    assert best == pytest.approx(0.10005)
    assert max(accuracy_at(step / 1000, scores, truth) for step in range(1001)) == 0.5


def test_equal_scores_are_not_told_apart() -> None:
    assert 0.2 < best_threshold([0.5, 0.5, 0.5, 0.2], [True, True, False, False]) < 0.5


def test_neighbouring_floats_are_told_apart() -> None:
    low = 1.0
    high = float(np.nextafter(low, 2))
    best = best_threshold([low, high], [False, True])
    assert accuracy_at(best, [low, high], [False, True]) == 1


@pytest.mark.parametrize("truth", [True, False])
def test_one_class_alone(truth: bool) -> None:
    best = best_threshold([0.3, 0.1, 0.7], [truth] * 3)
    assert accuracy_at(best, [0.3, 0.1, 0.7], [truth] * 3) == 1
    assert np.isfinite(best)


@given(cases)
def test_the_curve_holds_precision_and_recall_at_each_threshold(
    pairs: list[tuple[float, bool]],
) -> None:
    scores, truth = np.array([s for s, _ in pairs]), np.array([t for _, t in pairs])
    if not truth.any():
        with pytest.raises(InvalidValue):
            precision_recall(scores, truth)
        return
    curve = precision_recall(scores, truth)
    for k, threshold in enumerate(curve.thresholds):
        said = scores >= threshold
        assert curve.precision[k] == pytest.approx(precision_score(truth, said))
        assert curve.recall[k] == pytest.approx(recall_score(truth, said))
    assert curve.area == pytest.approx(slow_area(scores, truth))
    if len(set(scores)) == len(scores):
        assert curve.area == pytest.approx(auc(curve.recall, curve.precision))
    assert curve.average_precision == pytest.approx(average_precision_score(truth, scores))


def slow_area(scores: np.ndarray, truth: np.ndarray) -> float:
    """The area by Davis & Goadrich's points, one positive case after the other."""
    area, true, false = 0.0, 0, 0.0
    for score in sorted(set(scores), reverse=True):
        hits, misses = int(truth[scores == score].sum()), int((~truth[scores == score]).sum())
        for _ in range(hits):
            now = true / (true + false) if true + false else hits / (hits + misses)
            true, false = true + 1, false + misses / hits
            area += (now + true / (true + false)) / 2 / truth.sum()
        false += 0 if hits else misses
    return area


def test_equal_scores_have_the_area_of_chance() -> None:
    truth = np.arange(300) % 3 == 0
    assert precision_recall(np.ones(300), truth).area == pytest.approx(1 / 3)
    collapsed = np.where(np.arange(300) % 7 == 0, 1 - 6e-8, 1.0)
    assert precision_recall(collapsed, truth).area == pytest.approx(1 / 3, abs=0.01)


def test_a_perfect_ranking_has_area_one() -> None:
    curve = precision_recall([0.1, 0.2, 0.8, 0.9], [False, False, True, True])
    assert curve.area == pytest.approx(1)
    assert curve.average_precision == pytest.approx(1)


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(20_000) < 0.3
    curve = precision_recall(rng.random(20_000) + truth, truth)
    thin = curve.thinned(1000)
    assert len(thin["recall"]) == len(thin["precision"]) == len(thin["thresholds"]) + 1 <= 1000
    assert thin["recall"][0] == 1
    assert (thin["recall"][-1], thin["precision"][-1]) == (0, 1)
    short = precision_recall([0.1, 0.9], [False, True])
    assert short.thinned(1000)["recall"] == short.recall.tolist()


@pytest.mark.parametrize(
    ("scores", "truth"), [([], []), ([0.1], [True, False]), ([float("nan")], [True])]
)
def test_what_cannot_be_scored_is_refused(scores: list[float], truth: list[bool]) -> None:
    with pytest.raises(InvalidValue):
        best_threshold(scores, truth)
