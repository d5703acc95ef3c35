"""Rungs in examples, and a verdict that is a pure function of the curves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentune.study.schedulers import Halving, default_first_rung


@pytest.mark.parametrize(
    ("first", "eta", "budget", "milestones"),
    [
        (100, 3, 900, (100, 300, 900)),
        (100, 3, 901, (100, 300, 900, 901)),
        (64, 2, 500, (64, 128, 256, 500)),
        (500, 3, 500, (500,)),
        (900, 3, 500, (500,)),
    ],
)
def test_milestones_are_the_rungs_and_the_end(first, eta, budget, milestones):
    assert Halving(first_rung=first, eta=eta, max_examples=budget).milestones == milestones


@pytest.mark.parametrize(
    ("budget", "batch", "rungs"),
    [
        (27_000, 32, (3_000, 9_000)),  # 94 steps at a ninth
        (27_000, 150, (3_000, 9_000)),  # 20
        (27_000, 151, (9_000,)),
        (2_430, 32, (810,)),
        (100, 64, (34,)),  # two steps in all
        (1, 1, ()),
    ],
)
def test_the_default_rungs_leave_twenty_steps_before_the_first(budget, batch, rungs):
    first = default_first_rung(budget, 3, batch)
    assert Halving(first_rung=first, eta=3, max_examples=budget).rungs == rungs


@pytest.mark.parametrize("wrong", [{"eta": 1}, {"first_rung": 0}])
def test_impossible_rungs_are_refused(wrong):
    with pytest.raises(AssertionError, match="no end"):
        _ = Halving(**{"first_rung": 1, "eta": 3, "max_examples": 9, **wrong}).rungs


def plain(values: list[float], eta: int, keep: int) -> bool:
    """ASHA's rule, slowly: as good as the last of the best max(keep, n // eta), unless it and all
    that are as good are more than twice as many."""
    places = max(keep, len(values) // eta)
    as_good = [value for value in values if value >= values[-1]]
    return values[-1] >= sorted(values)[-places:][0] and len(as_good) <= 2 * places


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=20),
    st.integers(2, 4),
    st.integers(1, 3),
    st.sampled_from(["max", "min"]),
    st.data(),
)
def test_the_best_share_goes_on(values, eta, keep, mode, data):
    halving = Halving(first_rung=10, eta=eta, max_examples=1000, mode=mode, keep=keep)
    trial = data.draw(st.integers(0, len(values) - 1))
    curves = {number: {10: value} for number, value in enumerate(values)}
    verdict = halving.verdict(curves, trial, 10)
    sign = 1 if mode == "max" else -1
    seen = [sign * value for value in values[: trial + 1]]
    assert bool(verdict) is not plain(seen, eta, keep)
    assert verdict == halving.verdict(curves, trial, 10)
    later = {number: {10: value} for number, value in enumerate([*values, 5.0, -5.0])}
    assert verdict == halving.verdict(later, trial, 10), "trials that come later change nothing"


def test_only_rungs_compare_and_the_reason_says_with_what():
    halving = Halving(first_rung=10, eta=2, max_examples=40)
    curves = {0: {10: 0.9, 15: 0.9, 40: 0.9}, 1: {10: 0.5, 15: 0.5, 40: 0.5}}
    assert halving.verdict(curves, 1, 10)
    assert "0.5 at 10 examples" in halving.verdict(curves, 1, 10)
    assert "0.9" in halving.verdict(curves, 1, 10)
    assert not halving.verdict(curves, 1, 15)
    assert not halving.verdict(curves, 1, 40)
