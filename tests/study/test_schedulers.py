"""Schedulers answer from the curves alone, and each by its own rule."""

from __future__ import annotations

from collections import Counter
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentune.study import SCHEDULERS
from sentune.study.schedulers import (
    KINDS,
    AshaPromotion,
    Halving,
    Hyperband,
    MedianStopping,
    Scheduler,
)

NUMBERS = {"first_rung": 100, "eta": 3, "max_examples": 900, "mode": "max", "keep": 1}

curves_of = st.lists(
    st.lists(st.floats(-1, 1), min_size=9, max_size=9), min_size=1, max_size=24
).map(lambda rows: {n: {100 * (i + 1): v for i, v in enumerate(r)} for n, r in enumerate(rows)})


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("asha", Halving),
        ("asha-promotion", AshaPromotion),
        ("hyperband", Hyperband),
        ("median", MedianStopping),
        ("none", Scheduler),
    ],
)
def test_schedulers_come_by_name(name, made):
    scheduler = KINDS[name](**NUMBERS)
    assert type(scheduler) is made
    assert scheduler.milestones[-1] == 900
    assert set(scheduler.rungs) < set(scheduler.milestones)
    assert list(scheduler.milestones) == sorted(set(scheduler.milestones))


@given(st.sampled_from(SCHEDULERS), st.sampled_from(["max", "min"]), curves_of, st.data())
def test_a_verdict_stands_whatever_comes_later(name, mode, curves, data):
    scheduler = KINDS[name](**{**NUMBERS, "mode": mode})
    trial = data.draw(st.sampled_from(sorted(curves)))
    examples = data.draw(st.sampled_from(scheduler.milestones))
    known = {number: {e: v for e, v in c.items() if e <= examples} for number, c in curves.items()}
    verdict = scheduler.verdict(known, trial, examples)
    assert verdict == scheduler.verdict(known, trial, examples)
    assert verdict == scheduler.verdict(curves, trial, examples), "nobody looks ahead"
    later = {
        **known,
        **{len(known) + i: dict.fromkeys(range(100, 901, 100), 5.0 - i) for i in (0, 9)},
    }
    assert verdict == scheduler.verdict(later, trial, examples)
    if examples not in scheduler.rungs:
        assert not verdict


@given(st.sampled_from(["asha", "hyperband", "median"]), curves_of, st.data())
def test_less_is_better_where_the_mode_says_so(name, curves, data):
    """``keep`` is 1, so the first is never stopped; mirrored curves get mirrored verdicts."""
    most, least = (KINDS[name](**{**NUMBERS, "mode": mode}) for mode in ("max", "min"))
    mirrored = {number: {e: -v for e, v in c.items()} for number, c in curves.items()}
    trial = data.draw(st.sampled_from(sorted(curves)))
    for examples in most.rungs:
        one, other = most.verdict(curves, trial, examples), least.verdict(mirrored, trial, examples)
        assert bool(one) is bool(other)
        assert not (trial == 0 and one)


@given(curves_of, st.sampled_from(["max", "min"]), st.integers(1, 3))
def test_promotion_takes_the_best_third_of_a_rung_and_needs_no_others_checkpoint(
    curves, mode, keep
):
    asha = AshaPromotion(first_rung=100, eta=3, max_examples=900, mode=mode, keep=keep)
    at_rung = {n: {100: curve[100]} for n, curve in curves.items()}
    stopped = dict.fromkeys(at_rung, 100)
    best = sorted(at_rung, key=lambda n: (-asha.sign * at_rung[n][100], n))
    given_out: list[int] = []
    while (number := asha.promoted(at_rung, stopped)) is not None:
        assert number in asha.waiting(at_rung, stopped, len(curves))
        given_out.append(number)
        del stopped[number]
    assert given_out == best[: len(curves) // 3]
    last = asha.promoted(at_rung, stopped, complete=0)
    assert last == (best[len(given_out)] if len(given_out) < min(keep, len(best)) else None)
    assert asha.promoted(at_rung, stopped, complete=keep) is None


def test_promotion_lets_none_pass_a_rung_before_it_can_compare():
    asha = KINDS["asha-promotion"](**NUMBERS)
    curves = {0: {100: 0.5}, 1: {100: 0.4}, 2: {100: 0.9}}
    said = "0.5 at 100 examples; it waits: the best of 3 goes on, and 1 came here so far"
    assert asha.verdict(curves, 0, 100) == said
    assert asha.verdict(curves, 2, 100) == ""
    said = asha.verdict({**curves, 2: {100: 0.3}}, 2, 100)
    assert said == "0.3 at 100 examples; the best 1 of 3 go on, from 0.5"
    ahead = KINDS["asha-promotion"](**NUMBERS, ahead=1)
    assert (ahead.verdict(curves, 0, 100), ahead.verdict(curves, 0, 300)) == ("", "")
    assert ahead.verdict(curves, 1, 100) == asha.verdict(curves, 1, 100) != ""


@pytest.mark.parametrize("name", ["asha", "asha-promotion"])
def test_equal_trials_do_not_all_go_on(name):
    """Models that have learned nothing yet often have the same accuracy."""
    scheduler = KINDS[name](**NUMBERS)
    curves = {number: {100: 0.5} for number in range(9)}
    stopped = {number: 100 for number in curves if scheduler.verdict(curves, number, 100)}
    while (number := scheduler.promoted(curves, stopped)) is not None:
        del stopped[number]
    assert [*curves.keys() - stopped] == ([0, 1] if name == "asha" else [0, 1, 2])
    why = "unless too many are equal" if name == "asha" else "of equals the earlier"
    said = f"0.5 at 100 examples; the best 3 of 9 go on, from 0.5, {why}"
    assert scheduler.verdict(curves, 8, 100) == said


def test_a_few_equal_trials_go_on_if_they_would_get_no_second_chance():
    """A stop by ``asha`` is final; ``asha-promotion`` may promote the later one."""
    values = [0.1, 0.5, 0.2, 0.3, 0.4, 0.5, 0.6, 0.5]
    curves = {number: {100: value} for number, value in enumerate(values)}
    asha, promotion = (KINDS[name](**NUMBERS) for name in ("asha", "asha-promotion"))
    assert asha.verdict(curves, 7, 100) == ""
    said = "0.5 at 100 examples; the best 2 of 8 go on, from 0.5, of equals the earlier"
    assert promotion.verdict(curves, 7, 100) == said


def test_a_round_of_hyperband_has_the_brackets_of_the_algorithm():
    """R = 81, eta = 3: 81, 34, 15, 8 and 5 trials (Li et al. 2018, table 1)."""
    hyperband = Hyperband(first_rung=1, eta=3, max_examples=81)
    counted = Counter(hyperband.bracket_of(trial) for trial in range(143))
    assert [counted[place] for place in range(5)] == [81, 34, 15, 8, 5]
    assert [bracket.rungs for bracket in hyperband.brackets] == [
        (1, 3, 9, 27), (3, 9, 27), (9, 27), (27,), (),
    ]  # fmt: skip
    assert [hyperband.bracket_of(trial + 143) for trial in range(143)] == [
        hyperband.bracket_of(trial) for trial in range(143)
    ]
    early = Counter(hyperband.bracket_of(trial) for trial in range(30))
    assert len(early) == 5, "a short search has every bracket"


@given(curves_of)
def test_brackets_are_blind_to_each_other(curves):
    hyperband = Hyperband(first_rung=100, eta=3, max_examples=900)
    for trial in curves:
        place = hyperband.bracket_of(trial)
        peers = {n: c for n, c in curves.items() if hyperband.bracket_of(n) == place}
        for examples in hyperband.rungs:
            verdict = hyperband.verdict(curves, trial, examples)
            own = hyperband.brackets[place].verdict(peers, trial, examples)
            assert bool(verdict) is bool(own)
            if verdict:
                assert f"bracket {place + 1} of 3" in verdict
                assert examples in hyperband.brackets[place].rungs


@given(curves_of, st.integers(1, 4))
def test_the_median_rule_is_viziers(curves, keep):
    rule = MedianStopping(first_rung=100, max_examples=900, keep=keep)
    assert rule.rungs == (200, 300, 400, 500, 600, 700, 800)
    for trial, curve in curves.items():
        for examples in rule.rungs:
            averages = [
                fmean(v for e, v in curves[n].items() if e <= examples) for n in range(trial)
            ]
            best = max(v for e, v in curve.items() if e <= examples)
            stops = len(averages) >= keep and best < median(averages)
            assert bool(rule.verdict(curves, trial, examples)) is stops


def test_reasons_are_in_plain_words():
    curves = {0: {100: 0.5, 200: 0.7}, 1: {100: 0.6, 200: 0.8}, 2: {100: 0.2, 200: 0.3}}
    said = MedianStopping(first_rung=100, max_examples=900).verdict(curves, 2, 200)
    assert said == ("0.3 at best by 200 examples; the median of 2 earlier trials' averages is 0.65")


@pytest.mark.parametrize("name", KINDS)
def test_all_trials_reach_the_first_milestone_and_fewer_each_later_one(name):
    scheduler = KINDS[name](**NUMBERS)
    assert set(scheduler.expected(0).values()) == {0}
    for trials in (1, 8, 17, 1000):
        reached = scheduler.expected(trials)
        assert (*reached,) == scheduler.milestones
        first, *_ = counts = [*reached.values()]
        assert first == pytest.approx(trials)
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] >= 1


@pytest.mark.parametrize(
    ("name", "reached"),
    [
        ("none", [9]),
        ("asha", [9, 3.43, 2.65]),
        ("asha-promotion", [9, 3.61, 1.17]),
        ("hyperband", [9, 6.3, 5.09]),
        ("median", [9, 9, 5.04, 3.91, 3.57, 3.57, 3.57, 3.57, 3.57]),
    ],
)
def test_how_many_of_nine_trials_reach_each_milestone(name, reached):
    found = KINDS[name](**NUMBERS).expected(9)
    assert [*found.values()] == pytest.approx(reached, abs=0.005)


@pytest.mark.parametrize("trials", [9, 200])
def test_stopping_halving_lets_the_expected_number_go_on(trials):
    # in random order the rank of the i-th trial among the first i is uniform
    expected = sum(max(1, i // 3) / i for i in range(1, trials + 1))
    assert KINDS["asha"](**NUMBERS).expected(trials)[300] == pytest.approx(expected, rel=0.1)


def test_by_promotion_fewer_trials_run_to_the_end_than_by_stopping():
    stopping, promotion = (KINDS[n](**NUMBERS).expected(9)[900] for n in ("asha", "asha-promotion"))
    assert 1 <= promotion < stopping


def test_as_many_trials_as_there_are_finalists_run_to_the_end():
    scheduler = KINDS["asha-promotion"](**{**NUMBERS, "keep": 3})
    assert scheduler.expected(8)[900] == pytest.approx(3)


def test_a_first_trial_that_waits_for_no_others_runs_to_the_end():
    reached = KINDS["asha-promotion"](**{**NUMBERS, "ahead": 1}).expected(2)
    assert reached == {100: 2, 300: 1, 900: 1}  # it is the better one


def test_of_many_milestones_the_nearest_later_ones_of_a_few_are_simulated():
    fine = MedianStopping(first_rung=10, max_examples=9_000)
    coarse = MedianStopping(first_rung=300, max_examples=9_000).expected(8)
    reached = fine.expected(8)
    assert (*reached,) == fine.milestones
    assert [reached[at] for at in (10, 300, 310, 600, 9_000)] == [
        coarse[at] for at in (300, 300, 600, 600, 9_000)
    ]
