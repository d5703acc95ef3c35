"""Samplers by name: what a trial draws depends on the store alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from toys import SPACE, open_ledger, play, table

from sentune.errors import InvalidValue
from sentune.search.dimensions import Integer, Uniform
from sentune.search.sampling import SAMPLERS, derived_seed, distribution, make_sampler
from sentune.search.space import SearchSpace


@pytest.mark.parametrize("name", ["tpe", "random", "qmc", "gp"])
def test_a_restarted_driver_draws_the_points_that_it_would_have_drawn(tmp_path: Path, name: str):
    for folder, restarts in (("whole", (8,)), ("restarted", (1, 2, 6, 8))):
        (tmp_path / folder).mkdir()
        for trials in restarts:
            ledger = open_ledger(tmp_path / folder, sampler=name)
            play(ledger, tmp_path / folder, trials=trials)
    whole, restarted = (table(open_ledger(tmp_path / f)) for f in ("whole", "restarted"))
    assert whole == restarted
    assert len({str(row[3]) for row in whole}) == 8


def test_another_seed_draws_other_points():
    seeds = {derived_seed(seed, number) for seed in range(20) for number in range(20)}
    assert len(seeds) == 400


def test_settings_of_one_trial_are_drawn_apart(tmp_path: Path):
    """One seed for all settings of a trial would tie them together."""
    space = SearchSpace(
        method="toy",
        objective=SPACE.objective,
        settings={"ab": Uniform(0, 1), "ba": Uniform(0, 1)},
    )
    sampler = make_sampler("random", space, trials=4, seed=0)
    ledger = open_ledger(tmp_path, space=space, sampler="random")
    ledger.study.sampler = sampler
    axes = {name: distribution(d) for name, d in space.settings.items()}
    trial = ledger.study.ask()
    drawn = [trial._suggest(name, axis) for name, axis in axes.items()]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(
    ("dimension", "values"),
    [
        (Uniform(1e-5, 1e-2, log=True), (1e-6, 1e-5, 1e-3, 1e-2, 0.1)),
        (Integer(1, 9, step=2), tuple(range(-1, 12))),
    ],
)
def test_distributions_hold_what_the_dimensions_hold(dimension, values):
    made = distribution(dimension)
    assert [made._contains(value) for value in values] == [
        dimension.contains(value) for value in values
    ]


def test_wrong_names_are_refused():
    with pytest.raises(InvalidValue, match=f"--sampler: 'magic'.*{SAMPLERS[0]}"):
        make_sampler("magic", SPACE, trials=4, seed=0)
    ranged = SearchSpace(method="toy", objective="a/b", settings={"rate": Uniform(0, 1)})
    with pytest.raises(InvalidValue, match="--set rate=a,b,c"):
        make_sampler("grid", ranged, trials=4, seed=0)
