"""PriorBand: where it draws, and what a wrong prior costs."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import TrialState, create_trial
from toys import SPACE, Drawn

from benchmarks.search_quality import Search, reached, run
from benchmarks.surfaces import BEST, GRID, final, table_3
from sentune.errors import InvalidValue
from sentune.study.samplers.priorband import _place, shares
from sentune.study.samplers.registry import make_sampler
from sentune.study.samplers.study_adapter import distribution
from sentune.study.schedulers import Scheduler
from sentune.study.space.domains import Choice, Integer, Uniform
from sentune.study.space.objectives import Constraint
from sentune.study.space.space import SearchSpace

RATE = Uniform(1e-4, 1.0, log=True)
SETTINGS = {"rate": RATE, "width": Integer(1, 9), "pooling": Choice("cls", "mean")}
CENTRE = {"rate": 1e-3, "width": 3, "pooling": "mean"}
BOUND = Constraint(metric="a/c", bound=1.0, at_most=True)
PRIOR = SearchSpace(method="toy", objective="a/b", settings=SETTINGS, published=CENTRE)


@given(st.floats(0, 1, exclude_max=True))
def test_a_value_lies_where_it_was_drawn(share: float) -> None:
    assert _place(RATE, RATE.at(share)) == pytest.approx(share, abs=1e-9)
    for numbers in (Integer(1, 9), Integer(2, 50, step=4), Integer(1, 200, log=True)):
        value = numbers.at(share)
        assert numbers.at(min(max(_place(numbers, value), 0.0), 0.999999)) == value


def test_half_of_the_draws_are_random_and_the_others_near_the_prior() -> None:
    sampler = make_sampler("priorband", PRIOR, trials=8, seed=3)
    drawn = [sampler.draw([], number, ()).point for number in range(400)]
    near = fmean(abs(_place(RATE, point["rate"]) - _place(RATE, 1e-3)) < 0.25 for point in drawn)
    same = fmean(point["pooling"] == "mean" for point in drawn)
    # within a standard deviation: half at random, 0.74 of the other half (cut off at 0)
    assert near == pytest.approx(0.5 * 0.5 + 0.5 * 0.74, abs=0.07)
    assert same == pytest.approx(0.5 * 0.5 + 0.5 * 0.75, abs=0.07)


def test_the_prior_has_less_of_the_draws_the_farther_the_best_trials_lie_from_it() -> None:
    near = [CENTRE, {**CENTRE, "rate": 2e-3}, {**CENTRE, "width": 4}]
    far = [{"rate": 0.9, "width": 9, "pooling": "cls"}, {"rate": 0.5, "width": 8, "pooling": "cls"}]
    assert shares(SETTINGS, CENTRE, []) == (0.5, 0.5, 0.0)
    assert shares(SETTINGS, CENTRE, near) == pytest.approx((0.5, 0.25, 0.25))
    random, prior, around = shares(SETTINGS, CENTRE, far)
    assert random == 0.5
    assert prior < 0.01
    assert around == pytest.approx(0.5 - prior)


def test_the_best_of_the_highest_rung_that_three_have_reached_is_what_it_draws_around() -> None:
    axes = {name: distribution(dimension) for name, dimension in SETTINGS.items()}
    found = {"rate": 0.9, "width": 9, "pooling": "cls"}

    # 7 is best at the first rung, 9 at the second, which three have reached; one is at the third
    curves = {7: {1: 0.9, 3: 0.1}, 9: {1: 0.2, 3: 0.5}, 8: {1: 0.1, 3: 0.2, 9: 9.0}}
    trials = [
        create_trial(
            state=TrialState.PRUNED,
            params={**found, "width": width},
            distributions=axes,
            intermediate_values=curve,
        )
        for width, curve in curves.items()
    ]
    for number, trial in enumerate(trials):
        trial.number = number
    sampler = make_sampler("priorband", PRIOR, trials=8, seed=0)
    drawn = [sampler.draw(trials, number, ()).point for number in range(3, 203)]
    assert sum(point["width"] == 9 and point["rate"] == 0.9 for point in drawn) > 15


@pytest.mark.parametrize(
    ("space", "options", "said"),
    [
        (SearchSpace(method="toy", objective="a/b", settings=SETTINGS), {}, "no published point"),
        (PRIOR, {"modes": ["max", "min"]}, "one objective"),
        (
            PRIOR,
            {"constraints": (Constraint(metric="a/c", bound=1.0, at_most=True),)},
            "constraints",
        ),
    ],
)
def test_what_it_cannot_do_is_said(space, options, said) -> None:
    with pytest.raises(InvalidValue, match=f"--sampler: 'priorband'.*{said}"):
        make_sampler("priorband", space, trials=8, seed=0, **options)


def test_draws_are_settings_of_the_space_and_none_is_drawn_twice() -> None:
    drawn = Drawn(make_sampler("priorband", SPACE, trials=30, seed=1), SPACE)
    points = []
    for _ in range(SPACE.size or 0):
        points.append(drawn.next())
        drawn.ends(value=float(points[-1]["x"]))
    assert len({str(point) for point in points}) == SPACE.size == 30


def test_a_misleading_prior_costs_at_most_a_third_of_the_grid_more_than_none() -> None:
    """On GaussCSE's Table 3, its worst cell for the prior: at the end no cell is out of reach."""
    searches = [
        Search(name="none", sampler="random", scheduler=Scheduler),
        Search(name="worst", sampler="priorband", scheduler=Scheduler, prior=(256, 1e-5)),
    ]
    spent = []
    for search in searches:
        outcomes = [run(search, seed, table_3(noise=0.0)) for seed in range(10)]
        assert all(final(o.incumbents[-1].settings) == BEST for o in outcomes)
        assert all(outcome.examples == GRID for outcome in outcomes)
        spent.append(fmean(reached(outcome) for outcome in outcomes))
    assert spent[1] - spent[0] < 1 / 3
