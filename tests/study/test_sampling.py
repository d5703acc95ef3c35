"""Samplers by name: what a trial draws depends on the store alone."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial
from toys import SPACE, Drawn, open_store, play, table

from sentune.errors import InvalidValue
from sentune.study import SAMPLERS
from sentune.study.samplers import study_adapter
from sentune.study.samplers.per_trial import derived_seed
from sentune.study.samplers.registry import make_sampler
from sentune.study.samplers.study_adapter import distribution, newest_and_best, shown
from sentune.study.space.domains import Choice, Integer, Uniform
from sentune.study.space.objectives import Constraint
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import key


@pytest.mark.parametrize("name", ["tpe", "random", "qmc", "gp", "priorband"])
def test_a_restarted_driver_draws_the_points_that_it_would_have_drawn(tmp_path: Path, name: str):
    for folder, restarts in (("whole", (8,)), ("restarted", (1, 2, 6, 8))):
        (tmp_path / folder).mkdir()
        for trials in restarts:
            store = open_store(tmp_path / folder)
            play(store, tmp_path / folder, trials=trials, sampler=name)
    whole, restarted = (table(open_store(tmp_path / f)) for f in ("whole", "restarted"))
    assert whole == restarted
    assert len({str(row[3]) for row in whole}) == 8


def test_another_seed_draws_other_points():
    seeds = {derived_seed(seed, number) for seed in range(20) for number in range(20)}
    assert len(seeds) == 400


def test_settings_of_one_trial_are_drawn_apart():
    """One seed for all settings of a trial would tie them together."""
    space = SearchSpace(
        method="toy",
        objective=SPACE.objective,
        settings={"ab": Uniform(0, 1), "ba": Uniform(0, 1)},
    )
    drawn = make_sampler("random", space, trials=4, seed=0).draw([], 0, ()).point
    assert drawn["ab"] != drawn["ba"]


@pytest.mark.parametrize(
    ("dimension", "values"),
    [
        (Uniform(1e-5, 1e-2, log=True), (1e-6, 1e-5, 1e-3, 1e-2, 0.1)),
        (Integer(1, 9, step=2), tuple(range(-1, 12))),
    ],
)
def test_distributions_hold_what_the_dimensions_hold(dimension, values):
    axes = {"x": distribution(dimension)}
    for value in values:
        holds = nullcontext() if dimension.contains(value) else pytest.raises(ValueError, match="x")
        with holds:
            create_trial(params={"x": value}, distributions=axes, value=0.0)


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
        ("cmaes", RANGES, {"modes": ["max", "min"]}, "one objective"),
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
    drawn, broken = Drawn(sampler, space), []
    for _ in range(trials):
        x = drawn.next()["x"]
        broken.append(x > 0.4)
        drawn.ends(value=x, constraints={str(BOUNDS[0]): x - 0.4})
    assert fmean(broken[-trials // 3 :]) <= 0.5


@pytest.mark.parametrize("name", ["tpe", "random", "qmc", "cmaes", "nsga2"])
def test_every_sampler_draws_inside_the_space_and_models_get_better(name: str):
    """A number among numbers in order is a place on a line, also for CMA-ES."""
    settings = {**RANGES, "batch_size": Choice(8, 16, 32, 64, 128, 256)}
    space = SearchSpace(method="toy", objective="a/b", settings=settings)
    drawn, values = Drawn(make_sampler(name, space, trials=60, seed=4), space), []
    for _ in range(60):
        point = drawn.next()
        assert list(point) == list(settings)
        assert all(settings[n].contains(v) for n, v in point.items())
        far = [
            math.log10(point["rate"]) + 2,
            point["depth"] / 4 - 2,
            math.log2(point["batch_size"]) - 5,
        ]
        values.append(-sum(x * x for x in far))
        drawn.ends(value=values[-1])
    if name in ("tpe", "cmaes", "nsga2"):
        assert fmean(values[40:]) > fmean(values[:15])


def test_a_neighbour_of_a_good_choice_is_tried_before_a_far_one():
    """TPE knows no order of choices; it is shown places on a line instead."""
    places, far = list(range(30)), {}
    for order in (places, Random(0).sample(places, 30)):
        choice = Choice(*(2**place for place in order))
        space = SearchSpace(method="toy", objective="a/b", settings={"batch_size": choice})
        axes = {"batch_size": distribution(choice)}
        trials = [
            create_trial(
                params={"batch_size": 2**place}, distributions=axes, value=-abs(place - 12)
            )
            for place in places[::3]
        ]
        known = {key(trial.params) for trial in trials}
        drawn = [
            make_sampler("tpe", space, trials=12, seed=seed)
            .draw(stored(trials), 10, known)
            .point["batch_size"]
            for seed in range(40)
        ]
        far[order == places] = [abs(math.log2(value) - 12) for value in drawn]
    assert fmean(far[True]) < 2 < 6 < fmean(far[False])


def test_a_sequence_fills_the_space_evenly_whatever_order_trials_are_asked_in():
    space = SearchSpace(
        method="toy", objective="a/b", settings={"x": Uniform(0, 1), "kind": Choice("a", "b")}
    )
    sampler = make_sampler("qmc", space, trials=16, seed=0)
    points = [sampler.draw([], number, ()).point for number in reversed(range(16))]
    assert sorted(int(16 * point["x"]) for point in points) == list(range(16))
    assert Counter(point["kind"] for point in points) == {"a": 8, "b": 8}


def test_what_another_study_has_tried_is_known_and_not_drawn_again():
    space = SearchSpace(
        method="toy", objective="a/b", settings={"x": Choice(*range(6)), "y": Choice("a", "b")}
    )
    drawn = Drawn(make_sampler("tpe", space, trials=8, seed=1), space)
    axes = {name: distribution(d) for name, d in space.settings.items()}
    for x in range(6):
        drawn.study.add_trial(
            create_trial(params={"x": x, "y": "a"}, distributions=axes, value=float(-abs(x - 2)))
        )
    found = []
    for _ in range(6):
        point = drawn.next()
        found.append(point["x"])
        assert point["y"] == "b"
        drawn.ends(value=-abs(point["x"] - 2))
    assert sorted(found) == list(range(6))


LINE = SearchSpace(method="toy", objective="toy/score", settings={"x": Uniform(0.0, 1.0)})


def on_line(x: float, **ending: Any) -> FrozenTrial:
    return create_trial(params={"x": x}, distributions={"x": distribution(Uniform(0, 1))}, **ending)


def stored(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """With their numbers."""
    study = optuna.create_study()
    study.add_trials(trials)
    return study.get_trials(deepcopy=False)


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_trials_that_run_are_kept_away_from(name: str):
    """Of a point that eight trials are just trying, further ones tell nothing."""
    ended = [on_line(x / 20, value=-abs(x / 20 - 0.3)) for x in range(20)]
    live = [on_line(0.3, state=TrialState.RUNNING)] * 8
    far: dict[bool, list[float]] = {}
    for running in (False, True):
        trials = stored(ended + live * running)
        far[running] = [
            abs(make_sampler(name, LINE, trials=40, seed=s).draw(trials, 28, ()).point["x"] - 0.3)
            for s in range(5)
        ]
    assert fmean(far[True]) > 2 * fmean(far[False])


@pytest.mark.parametrize("name", ["cmaes", "nsga2"])
def test_what_a_sampler_notes_on_its_trials_is_all_that_it_needs(name: str):
    """Another process, which has the stored trials alone, draws the same."""
    space = SearchSpace(method="toy", objective="a/b", settings=RANGES)
    drawn = Drawn(make_sampler(name, space, trials=40, seed=2), space)
    for number in range(40):
        point = drawn.next()
        again = Drawn(make_sampler(name, space, trials=40, seed=2), space)
        again.study = drawn.study
        assert again.next() == point
        assert again.draw == drawn.draw
        assert drawn.draw.notes or number < 10
        drawn.ends(value=math.log10(point["rate"]) - point["depth"])


def test_of_very_many_trials_the_best_and_the_newest_are_learned_from(monkeypatch):
    """Old trials that are not among the best change no draw; old ones that are best do."""
    monkeypatch.setattr(study_adapter, "NEWEST", 40)
    monkeypatch.setattr(study_adapter, "STEP", 10)

    def drawn(first: float, value: float) -> list[Any]:
        random, trials = Random(1), []
        for number in range(250):
            x, score = random.random(), random.random()
            x, score = (first + x / 2, value) if number < 100 else (x, score)
            trials.append(on_line(x, value=score))
        trials, draws = stored(trials), []
        sampler = make_sampler("tpe", LINE, trials=250, seed=0)
        for number in range(204, 250, 4):
            draws.append(sampler.draw(trials[:number], number, ()))
            fresh = make_sampler("tpe", LINE, trials=250, seed=0)
            assert draws[-1] == fresh.draw(trials[:number], number, ())
        return draws

    assert drawn(0.0, -9.0) == drawn(0.5, -9.0)
    assert drawn(0.0, 9.0) != drawn(0.5, 9.0)
    monkeypatch.setattr(study_adapter, "NEWEST", 1000)
    assert drawn(0.0, -9.0) != drawn(0.5, -9.0)


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("best", [10, 45, 100])
def test_of_old_trials_those_are_shown_that_run_or_are_best(monkeypatch, mode: str, best: int):
    """Complete ones by value, then stopped ones by rung and value, then those over a bound."""
    for name, value in {"NEWEST": 20, "STEP": 5, "BEST": best}.items():
        monkeypatch.setattr(study_adapter, name, value)
    random, made, kinds = Random(2), [], []
    for number in range(160):
        x, step = random.random(), random.choice((1, 3))
        kinds.append(
            ("complete", "over", f"at {step}", "runs" if number % 5 else "over")[number % 4]
        )
        if kinds[-1] == "runs":
            made.append(on_line(x, state=TrialState.RUNNING))
        elif kinds[-1].startswith("at"):
            made.append(on_line(x, state=TrialState.PRUNED, intermediate_values={step: x}))
        else:
            by = x if kinds[-1] == "over" else -x
            made.append(on_line(x, value=x, constraints={"a/b<=1": by}))
    trials = [shown(trial, {}) for trial in stored(made)]

    def ranked(kind: str) -> list[int]:
        found = [t.number for t in trials[:140] if kinds[t.number] == kind]
        reverse = mode == "max" and kind != "over"
        return sorted(found, key=lambda number: trials[number].params["x"], reverse=reverse)

    order = [number for kind in ("complete", "at 3", "at 1", "over") for number in ranked(kind)]
    left = {*order[:best], *ranked("runs"), *range(140, 160)}
    assert [t.number for t in newest_and_best(trials, [mode])] == sorted(left)
    assert newest_and_best(trials, [mode, mode]) == trials
    assert newest_and_best(trials[:24], [mode]) == trials[:24]
