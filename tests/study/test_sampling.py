"""Samplers by name: what a trial draws depends on the store alone."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.samplers._tpe.sampler import _split_trials
from optuna.search_space.group_decomposed import _GroupDecomposedSearchSpace
from optuna.trial import create_trial
from toys import SPACE, open_ledger, play, table

from sentune.errors import InvalidValue
from sentune.study.samplers import old
from sentune.study.samplers.per_trial import Groups
from sentune.study.samplers.registry import SAMPLERS, derived_seed, distribution, make_sampler
from sentune.study.space.constraints import Constraint
from sentune.study.space.domains import Choice, Integer, Uniform
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import WARM_FROM


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


RANGES = {"rate": Uniform(1e-4, 1e-1, log=True), "depth": Integer(1, 12)}
BOUNDS = (Constraint(metric="train/seconds", bound=600.0, at_most=True),)


@pytest.mark.parametrize(
    ("name", "settings", "options", "said"),
    [
        ("cmaes", {**RANGES, "pooling": Choice("cls", "mean")}, {}, "fix pooling with --set"),
        ("cmaes", RANGES, {"objectives": 2}, "one objective"),
        ("cmaes", RANGES, {"constraints": BOUNDS}, r"constraints \(train/seconds<=600\); give tpe"),
        ("gp", RANGES, {"trials": 501}, "--trials 500"),
    ],
)
def test_what_a_sampler_cannot_do_is_said(name, settings, options, said):
    space = SearchSpace(method="toy", objective="a/b", settings=settings)
    with pytest.raises(InvalidValue, match=f"--sampler: '{name}'.*{said}"):
        make_sampler(name, space, **{"trials": 8, "seed": 0, **options})


@pytest.mark.parametrize("name", ["tpe", "random", "grid", "qmc", "gp", "nsga2"])
def test_samplers_that_use_constraints_or_no_measurement_at_all_take_them(name: str):
    space = SearchSpace(method="toy", objective="a/b", settings={"depth": Integer(1, 12)})
    assert make_sampler(name, space, trials=8, seed=0, constraints=BOUNDS)


@pytest.mark.parametrize("name", ["tpe", "nsga2"])
def test_who_is_not_refused_does_use_them(name: str):
    """The objective grows with x, and a metric allows x up to 0.4 only: 0.6 breaks it at random."""
    space = SearchSpace(
        method="toy", objective="a/b", settings={"x": Uniform(0, 1), "y": Uniform(0, 1)}
    )
    trials = 40 if name == "nsga2" else 18
    sampler = make_sampler(name, space, trials=trials, seed=3, constraints=BOUNDS)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    broken = []
    for _ in range(trials):
        trial, point = draw(study, space)
        broken.append(point["x"] > 0.4)
        trial.set_constraint(str(BOUNDS[0]), point["x"] - 0.4)
        study.tell(trial, point["x"])
    assert fmean(broken[-trials // 3 :]) <= 0.5


def draw(study: optuna.Study, space: SearchSpace) -> tuple[optuna.Trial, dict[str, object]]:
    trial = study.ask()
    return trial, space.draw(lambda name, axis: trial._suggest(name, distribution(axis)))


@pytest.mark.parametrize("name", ["tpe", "random", "qmc", "cmaes", "nsga2"])
def test_every_sampler_draws_inside_the_space_and_models_get_better(name: str):
    """A number among numbers in order is a place on a line, also for CMA-ES."""
    settings = {**RANGES, "batch_size": Choice(8, 16, 32, 64, 128, 256)}
    space = SearchSpace(method="toy", objective="a/b", settings=settings)
    study = optuna.create_study(
        direction="maximize", sampler=make_sampler(name, space, trials=60, seed=4)
    )
    values = []
    for _ in range(60):
        trial, point = draw(study, space)
        assert all(settings[n].contains(v) for n, v in point.items())
        assert trial.params == point
        far = [
            math.log10(point["rate"]) + 2,
            point["depth"] / 4 - 2,
            math.log2(point["batch_size"]) - 5,
        ]
        values.append(-sum(x * x for x in far))
        study.tell(trial, values[-1])
    if name in ("tpe", "cmaes", "nsga2"):
        assert fmean(values[40:]) > fmean(values[:15])


def test_a_neighbour_of_a_good_choice_is_tried_before_a_far_one():
    """TPE knows no order of choices; it is shown places on a line instead."""
    space = SearchSpace(
        method="toy", objective="a/b", settings={"batch_size": Choice(*(2**n for n in range(12)))}
    )
    near = []
    for seed in range(10):
        study = optuna.create_study(
            direction="maximize", sampler=make_sampler("tpe", space, trials=12, seed=seed)
        )
        distances = []
        for _ in range(8):
            trial, point = draw(study, space)
            distances.append(abs(math.log2(point["batch_size"]) - 3))
            study.tell(trial, -distances[-1])
        near.append(fmean(distances[4:]) - fmean(distances[:4]))
    assert fmean(near) < -0.5


def test_a_sequence_fills_the_space_evenly_whatever_order_trials_are_asked_in():
    space = SearchSpace(
        method="toy", objective="a/b", settings={"x": Uniform(0, 1), "kind": Choice("a", "b")}
    )
    study = optuna.create_study(sampler=make_sampler("qmc", space, trials=16, seed=0))
    points = []
    for _ in range(16):
        trial, point = draw(study, space)
        points.append(point)
        study.tell(trial, 0.0)
    assert sorted(int(16 * point["x"]) for point in points) == list(range(16))
    assert Counter(point["kind"] for point in points) == {"a": 8, "b": 8}


def test_what_another_study_has_tried_is_known_and_not_drawn_again():
    space = SearchSpace(
        method="toy", objective="a/b", settings={"x": Choice(*range(6)), "y": Choice("a", "b")}
    )
    study = optuna.create_study(
        direction="maximize", sampler=make_sampler("tpe", space, trials=8, seed=1)
    )
    axes = {name: distribution(d) for name, d in space.settings.items()}
    for x in range(6):
        study.add_trial(
            optuna.create_trial(
                params={"x": x, "y": "a"},
                distributions=axes,
                value=float(-abs(x - 2)),
                user_attrs={WARM_FROM: "old/0001"},
            )
        )
    drawn = []
    for _ in range(6):
        trial, point = draw(study, space)
        drawn.append(point["x"])
        assert point["y"] == "b"
        study.tell(trial, -abs(point["x"] - 2))
    assert sorted(drawn) == list(range(6))


def test_settings_are_grouped_as_optuna_groups_them():
    """Of conditional settings: each trial has some of them."""
    study, random = optuna.create_study(), Random(0)
    names = "abcdef"
    for _ in range(60):
        own = [name for name in names if random.random() < 0.6]
        axes = {name: FloatDistribution(0, 1) for name in own}
        study.add_trial(create_trial(params=dict.fromkeys(own, 0.5), distributions=axes, value=0.0))
        optunas = _GroupDecomposedSearchSpace(include_pruned=True).calculate(study)
        assert Groups(include_pruned=True).calculate(study).search_spaces == optunas.search_spaces


def test_of_very_many_trials_the_best_and_the_newest_are_learned_from(monkeypatch):
    """Old trials that are not among the best change no draw; old ones that are best do."""
    monkeypatch.setattr(old, "NEWEST", 40)
    monkeypatch.setattr(old, "STEP", 10)
    space = SearchSpace(method="toy", objective="toy/score", settings={"x": Uniform(0.0, 1.0)})

    def drawn(first: float, value: float) -> list[Any]:
        sampler = make_sampler("tpe", space, trials=250, seed=0)
        study, random, draws = optuna.create_study(direction="maximize"), Random(1), []
        for number in range(250):
            old, x, score = number < 100, random.random(), random.random()
            x, score = (first + x / 2, value) if old else (x, score)
            axes = {"x": FloatDistribution(0, 1)}
            study.add_trial(create_trial(params={"x": x}, distributions=axes, value=score))
            if number > 200 and number % 4 == 0:
                asking = study.ask()._get_latest_trial()
                draws.append(sampler.sample_relative(study, asking, sampler.axes))
                fresh = make_sampler("tpe", space, trials=250, seed=0)
                assert draws[-1] == fresh.sample_relative(study, asking, sampler.axes)
        return draws

    assert drawn(0.0, -9.0) == drawn(0.5, -9.0)
    assert drawn(0.0, 9.0) != drawn(0.5, 9.0)
    monkeypatch.setattr(old, "NEWEST", 1000)
    assert drawn(0.0, -9.0) != drawn(0.5, -9.0)


def test_the_best_are_the_best_of_all_that_have_ended(monkeypatch):
    """As Optuna finds them among all; a trial that ends late is not forgotten."""
    monkeypatch.setattr(old, "NEWEST", 20)
    monkeypatch.setattr(old, "STEP", 5)
    study, random, known, late = optuna.create_study(), Random(2), old.Old(), []
    for number in range(300):
        trial = study.ask()
        trial.report(random.random(), random.choice((1, 3)))
        late.append(trial.number)
        while len(late) > 10 or (late and number == 299):
            ended = late.pop(random.randrange(len(late)))
            if random.random() < 0.5:
                study.tell(ended, random.random())
            else:
                study.tell(ended, state=optuna.trial.TrialState.PRUNED)
        stored = study.get_trials(deepcopy=False)
        seen = known.and_newest(study, stored)
        finished = [[t for t in trials if t.state.is_finished()] for trials in (stored, seen)]
        of_all, of_seen = (_split_trials(study, trials, old.BEST)[0] for trials in finished)
        assert [t.number for t in of_seen] == [t.number for t in of_all]
        assert {t.number for t in stored if not t.state.is_finished()} <= {t.number for t in seen}
        assert [t.number for t in seen] == sorted({t.number for t in seen})
    assert len(seen) <= 20 + 5 + old.BEST + 1
