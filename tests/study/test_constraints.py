"""Bounds on metrics, and samplers that learn what breaks them."""

from __future__ import annotations

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import TrialState
from toys import Drawn

from sentune.errors import InvalidValue
from sentune.study.samplers.registry import make_sampler
from sentune.study.samplers.study_adapter import as_finished, shown
from sentune.study.space.domains import Uniform
from sentune.study.space.objectives import Constraint
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import MEMORY

SPACE = SearchSpace(
    method="toy", objective="a/b", settings={"x": Uniform(0.0, 1.0), "y": Uniform(0.0, 1.0)}
)


@pytest.mark.parametrize(
    ("text", "shown", "metric", "value", "by"),
    [
        ("train/seconds<=600", "train/seconds<=600", "train/seconds", 630.0, 30.0),
        (" train/seconds <= 6e2 ", "train/seconds<=600", "train/seconds", 600.0, 0.0),
        ("sts/spearman>=0.7", "sts/spearman>=0.7", "sts/spearman", 0.5, 0.2),
        ("sts/spearman>=-0.25", "sts/spearman>=-0.25", "sts/spearman", 0.5, -0.75),
        ("model/bytes<=12345678901", "model/bytes<=12345678901", "model/bytes", 0.0, -12345678901),
    ],
)
def test_a_constraint_says_by_how_much_it_is_broken(text, shown, metric, value, by):
    constraint = Constraint.parse(text)
    assert str(constraint) == shown
    assert constraint.metric == metric
    assert constraint.violation({metric: value}) == pytest.approx(by)
    assert Constraint.parse(str(constraint)) == constraint


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_at_most_and_at_least_are_each_others_opposite(value: float, bound: float):
    most, least = (Constraint.parse(f"a/b{sign}{bound!r}") for sign in ("<=", ">="))
    metrics = {"a/b": value}
    assert most.violation(metrics) == -least.violation(metrics)
    assert (most.violation(metrics) <= 0) is (value <= most.bound)


@pytest.mark.parametrize(
    "text",
    ["", "seconds", "seconds<600", "seconds=600", "<=600", "a<=b", "a<=", "a<=nan", "a<=inf"],
)
def test_other_forms_are_refused(text: str):
    with pytest.raises(InvalidValue, match="--constraint"):
        Constraint.parse(text)


def drawn_without_memory(name: str, *, objectives: int, told: bool, trials: int) -> int:
    """Draws of x > 0.5, where nothing fits, in the second half of a study.

    The best point is at x = 0.3. ``told``: whether the sampler hears of the memory.
    """
    modes = ["max"] * objectives
    sampler = make_sampler(name, SPACE, trials=trials, seed=0, modes=modes)
    drawn = Drawn(sampler, SPACE, modes)
    found = 0
    for number in range(trials):
        x, y = drawn.next().values()
        if x <= 0.5:
            drawn.ends(values=[-((x - 0.3) ** 2) - (y - 0.5) ** 2, x + y][:objectives])
            continue
        found += number >= trials // 2
        bounds = {MEMORY: 1.0} if told else None
        drawn.ends(state=TrialState.PRUNED, constraints=bounds)
    return found


@pytest.mark.parametrize(("name", "objectives"), [("tpe", 1), ("tpe", 2), ("cmaes", 1)])
def test_samplers_learn_what_does_not_fit_in_memory(name: str, objectives: int):
    """At random 22 of the last 45 would not fit."""
    assert drawn_without_memory(name, objectives=objectives, told=True, trials=90) <= 12


@pytest.mark.parametrize(("told", "low", "high"), [(True, 0, 3), (False, 5, 6)])
def test_a_process_that_is_not_told_draws_the_same_region_for_ever(told, low, high):
    """Of the last 6; Optuna's own sampler reads complete trials alone."""
    assert low <= drawn_without_memory("gp", objectives=1, told=told, trials=12) <= high


def finished(
    value: float | None, curve: dict[int, float], **constraints: float
) -> optuna.trial.FrozenTrial:
    state = TrialState.PRUNED if value is None else TrialState.COMPLETE
    return optuna.create_trial(
        state=state, value=value, intermediate_values=curve, constraints=constraints
    )


def complete(trials: list[optuna.trial.FrozenTrial], *, constrained: bool) -> list[object]:
    for number, trial in enumerate(trials):
        trial.number = number
    found = as_finished([shown(t, {}) for t in trials], ["max"], constrained=constrained)
    return [(t.number, t.values, t.constraints) for t in found if t.state == TrialState.COMPLETE]


def test_stopped_trials_are_shown_with_what_they_would_have_gained():
    trials = [
        finished(0.9, {1: 0.5, 3: 0.7, 9: 0.9}),
        finished(0.8, {1: 0.3, 3: 0.7, 9: 0.8}),
        finished(0.7, {1: 0.4, 3: 0.6, 9: 0.7}),
        finished(None, {1: 0.2}),
        finished(None, {1: 0.3, 3: 0.4}),
        finished(None, {2: 0.2}),
    ]
    found = complete(trials, constrained=True)
    assert [number for number, _, _ in found] == [0, 1, 2, 3, 4]
    assert found[3][1] == pytest.approx([0.2 + 0.4])
    assert found[4][1] == pytest.approx([0.4 + 0.1])


def test_trials_without_memory_are_shown_with_the_constraints_that_all_others_have():
    trials = [
        finished(0.9, {}, **{"a/b<=1": -1.0}),
        finished(0.1, {}, **{"a/b<=1": 3.0}),
        finished(0.5, {}, **{"a/b<=1": -2.0}),
        finished(None, {}, **{MEMORY: 1.0}),
    ]
    found = complete(trials, constrained=True)
    assert [values for _, values, _ in found] == [[0.9], [0.1], [0.5], [0.5]]
    assert [list(c.values()) for _, _, c in found] == [[-1, -1], [3, -1], [-2, -1], [-1, 1]]
    worst = complete(trials, constrained=False)
    assert worst[3][1] == [0.1], "a sampler without constraints hears of a bad value"


def test_where_nothing_has_run_yet_nothing_is_made_up():
    assert complete([finished(None, {1: 0.5})], constrained=True) == []
    assert [v for _, v, _ in complete([finished(None, {}, **{MEMORY: 1.0})], constrained=True)] == [
        [0.0]
    ]
