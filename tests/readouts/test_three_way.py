"""The exact beta of ambiguous RTE against every candidate by hand, scored by scikit-learn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from sentune.errors import InvalidValue
from sentune.readouts import three_way
from sentune.readouts.three_way import (
    BOTH,
    best_beta,
    class_metrics,
    class_weights,
    decide,
    macro_f1,
)
from tests.rounding import rounding

EXAMPLES = settings(max_examples=40, deadline=None)


def by_sklearn(predicted: list[int], gold: list[int]) -> float:
    return f1_score(gold, predicted, labels=[0, 1, 2], average="macro", zero_division=0)


def by_eq_14(low: list[float], high: list[float], beta: float) -> list[int]:
    rule = [0 if x > beta else 1 if y < beta else 2 for x, y in zip(low, high, strict=True)]
    assert decide(low, high, beta).tolist() == rule
    return rule


def every_beta(values: list[float]) -> list[float]:
    """One beta in each gap between the values, and one at either end."""
    known = sorted(set(values))
    gaps = [(a + b) / 2 for a, b in pairwise(known)]
    ends = (np.nextafter(known[0], -1), np.nextafter(known[-1], 2))
    return sorted({*gaps, *map(float, ends)})


@st.composite
def ranges(draw):
    """Few distinct values, so that ties within and between the sides are common."""
    count = draw(st.integers(1, 12))
    value = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5, 0.9, 1.0])
    pairs = draw(st.lists(st.tuples(value, value), min_size=count, max_size=count))
    gold = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return [min(p) for p in pairs], [max(p) for p in pairs], gold


@EXAMPLES
@given(ranges())
def test_no_beta_is_better(scene):
    low, high, gold = scene
    found = best_beta(low, high, gold)
    betas = every_beta(low + high)
    scores = [by_sklearn(by_eq_14(low, high, beta), gold) for beta in betas]
    assert found.macro_f1 == pytest.approx(max(scores), abs=rounding(4))
    assert by_sklearn(by_eq_14(low, high, float(found.beta)), gold) == pytest.approx(max(scores))
    np.testing.assert_allclose(macro_f1(low, high, gold, betas), scores, rtol=0, atol=rounding(4))


@EXAMPLES
@given(ranges(), st.sampled_from([(0.0, 1.0), (0.1, 0.5), (0.5, 0.5)]))
def test_limits_are_kept(scene, limits):
    low, high, gold = scene
    allowed = [b for b in every_beta(low + high) if limits[0] <= b <= limits[1]]
    if not allowed:
        with pytest.raises(InvalidValue, match="limits"):
            best_beta(low, high, gold, limits)
        return
    found = best_beta(low, high, gold, limits)
    assert limits[0] <= found.beta <= limits[1]
    best = max(by_sklearn(by_eq_14(low, high, beta), gold) for beta in allowed)
    assert found.macro_f1 == pytest.approx(best, abs=rounding(4))


@EXAMPLES
@given(ranges(), st.sampled_from(["balanced", "both=0.3", "both=.95"]))
def test_a_prior_is_the_macro_f1_of_weighted_pairs(scene, prior):
    low, high, gold = scene
    shares = np.bincount(gold, minlength=3) / len(gold)
    if shares[BOTH] in (0, 1):
        with pytest.raises(InvalidValue, match="give pairs of this and other classes"):
            class_weights(prior, np.array(gold))
        return
    weights = class_weights(prior, np.array(gold))
    found = weights * shares
    assert found.sum() == pytest.approx(1)
    if prior == "balanced":
        assert found[shares > 0] == pytest.approx(1 / np.count_nonzero(shares))
    else:
        assert found[BOTH] == pytest.approx(float(prior.removeprefix("both=")))
        assert found[0] * shares[1] == pytest.approx(found[1] * shares[0])

    def score(beta: float) -> float:
        predicted = by_eq_14(low, high, beta)
        metrics = class_metrics(np.array(gold), np.array(predicted), weights)
        own = {"average": None, "zero_division": 0, "sample_weight": weights[gold]}
        each = f1_score(gold, predicted, labels=[0, 1, 2], **own)
        assert metrics["macro_f1"] == pytest.approx(each.mean())
        assert metrics["f1_both"] == pytest.approx(each[BOTH])
        return float(each.mean())

    betas = every_beta(low + high)
    scores = [score(beta) for beta in betas]
    best = best_beta(low, high, gold, weights=weights)
    assert best.macro_f1 == pytest.approx(max(scores), abs=rounding(4))
    assert score(float(best.beta)) == pytest.approx(max(scores), abs=rounding(4))
    table = macro_f1(low, high, gold, betas, weights)
    np.testing.assert_allclose(table, scores, rtol=0, atol=rounding(4))


@pytest.mark.parametrize("prior", ["both", "both=0", "both=1", "both=0.0", "both=30%", "none=0.3"])
def test_what_is_no_prior(prior):
    with pytest.raises(InvalidValue, match=f"--prior: {prior!r} .*both=SHARE"):
        class_weights(prior, np.array([0, 1, 2]))


def test_a_pair_of_one_probability_is_not_both():
    low, high, gold = [0.2, 0.5, 0.6, 0.1], [0.4, 0.5, 0.9, 0.7], [1, 2, 0, 2]
    assert decide(low, high, 0.5).tolist() == gold  # by the last bit of one probability
    found = best_beta(low, high, gold)
    assert decide(low, high, float(found.beta))[1] != BOTH
    assert found.macro_f1 < macro_f1(low, high, gold, [0.5])[0] == 1.0


def test_neighbouring_floats_have_no_beta_in_between():
    low = high = [0.5, float(np.nextafter(0.5, 1))]
    found = best_beta(low, high, [1, 0])
    # both pairs are of one class: F1 of 2/3 for it, 0 for the rest
    assert found.macro_f1 == pytest.approx(2 / 9)


def test_many_combinations_at_once(monkeypatch):
    monkeypatch.setattr(three_way, "CHUNK", 200)
    random = np.random.default_rng(0)
    sides = np.sort(random.random((2, 3, 40, 2)).round(2), axis=-1)
    low, high, gold = sides[..., 0], sides[..., 1], random.integers(0, 3, 40)
    found = best_beta(low, high, gold)
    assert found.beta.shape == found.macro_f1.shape == (2, 3)
    for place in np.ndindex(2, 3):
        alone = best_beta(low[place], high[place], gold)
        assert (alone.beta, alone.macro_f1) == (found.beta[place], found.macro_f1[place])
    table = macro_f1(low, high, gold, [0.3, 0.5])
    assert table.shape == (2, 3, 2)
    assert table[1, 2, 0] == macro_f1(low[1, 2], high[1, 2], gold, [0.3])[0]


def test_everything_ambiguous():
    found = best_beta([0.1, 0.2], [0.8, 0.9], [BOTH, BOTH])
    assert found.macro_f1 == pytest.approx(1 / 3)
    assert 0.2 <= found.beta <= 0.8


@pytest.mark.parametrize(
    ("low", "high", "gold", "message"),
    [
        ([0.1], [0.1, 0.2], [0], "a low, a high"),
        ([], [], [], "a low, a high"),
        ([0.2], [0.1], [0], "low <= high"),
        ([np.nan], [0.1], [0], "finite"),
        ([0.1], [0.1], [3], "classes"),
    ],
)
def test_what_cannot_be_used(low, high, gold, message):
    with pytest.raises(InvalidValue, match=message):
        best_beta(low, high, gold)
    with pytest.raises(InvalidValue, match="limits"):
        best_beta([0.5], [0.5], [0], (2.0, 3.0))
