"""Budgets: what is used up, what is kept for the finals, and when searching on is not worth it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentune.records import Spent, TrialRecord, TrialState
from sentune.study.config import Budget
from sentune.study.runner.limits import Limits, expected_rest
from sentune.study.space.objectives import Objective

SCORE, COST = Objective("toy/score"), Objective("toy/cost", "min")


def trial(
    number: int,
    value: float = 0.0,
    state: TrialState = TrialState.COMPLETE,
    *,
    examples: int = 100,
    cost: float = 0.0,
    broken: float = -1.0,
) -> TrialRecord:
    return TrialRecord(
        id=number,
        state=state,
        settings={},
        metrics={"toy/score": value, "toy/cost": cost} if state == "complete" else {},
        examples=examples,
        seconds=examples / 10,
        gpu_seconds=examples / 5,
        violations={"toy/cost<=1": broken},
    )


def test_without_limits_nothing_is_ever_used_up() -> None:
    assert Budget().exhausted(Spent(trials=10**6, hours=10**6, gpu_hours=10**6), Spent()) == ""
    assert Budget().no_gain_in([trial(n) for n in range(99)], SCORE) == ""


@pytest.mark.parametrize(
    ("budget", "spent", "reserve", "said"),
    [
        (Budget(max_trials=5), Spent(trials=4), Spent(trials=9), ""),
        (Budget(max_trials=5), Spent(trials=5), Spent(), "--max-trials 5 is used up: 5 trials"),
        (Budget(max_hours=2.5), Spent(hours=1.9), Spent(hours=0.5), ""),
        (
            Budget(max_hours=2.5),
            Spent(hours=2.0),
            Spent(hours=0.5),
            "--max-hours 2.5 is used up: 2 hours so far, 0.5 are reserved for a last trial",
        ),
        (
            Budget(max_gpu_hours=40),
            Spent(gpu_hours=31.26),
            Spent(gpu_hours=9),
            "--max-gpu-hours 40 is used up: 31.26 GPU hours so far, 9 are reserved for a last",
        ),
        (Budget(max_gpu_hours=40), Spent(gpu_hours=40, hours=99), Spent(), "40 GPU hours so far"),
    ],
)
def test_a_limit_is_used_up_with_what_the_finals_need(
    budget: Budget, spent: Spent, reserve: Spent, said: str
) -> None:
    found = budget.exhausted(spent, reserve)
    assert said in found
    assert bool(found) == bool(said)


@given(
    st.floats(0.1, 100), st.floats(0, 100), st.floats(0, 100), st.floats(0, 100), st.floats(0, 100)
)
def test_what_is_used_up_stays_used_up(
    limit: float, hours: float, kept: float, more: float, more_kept: float
) -> None:
    budget = Budget(max_hours=limit)
    if budget.exhausted(Spent(hours=hours), Spent(hours=kept)):
        assert budget.exhausted(Spent(hours=hours + more), Spent(hours=kept + more_kept))
    else:
        assert hours + kept < limit


def test_no_gain_counts_trials_after_the_best_one() -> None:
    budget = Budget(no_gain=3)
    values = [0.2, 0.5, 0.5, 0.4, 0.3]  # an equal value is no gain
    records = [trial(n, value) for n, value in enumerate(values)]
    assert budget.no_gain_in(records[:4], SCORE) == ""
    assert budget.no_gain_in(records, SCORE) == (
        "--stop-after-no-gain 3: 3 trials in a row found nothing better"
    )
    assert budget.no_gain_in([*records, trial(5, 0.6)], SCORE) == ""
    assert budget.no_gain_in(records, Objective("toy/score", "min")) != ""
    assert budget.no_gain_in([*records, trial(5, 0.1)], Objective("toy/score", "min")) == ""


def test_stopped_and_infeasible_trials_are_no_gain_failed_and_running_ones_say_nothing() -> None:
    budget, first = Budget(no_gain=2), trial(0, 0.1)
    silent = [trial(n, 0.0, s) for n, s in ((1, TrialState.FAILED), (2, TrialState.RUNNING))]
    assert budget.no_gain_in([first, *silent, *silent], SCORE) == ""
    stopped = trial(3, 0.0, TrialState.PRUNED)
    too_large = trial(4, 0.0, TrialState.INFEASIBLE)
    assert budget.no_gain_in([first, stopped, *silent, too_large], SCORE) != ""
    breaks = trial(5, 0.9, broken=2.0)
    assert budget.no_gain_in([first, breaks, breaks], SCORE) != ""


def test_trials_of_another_study_may_be_the_best_and_are_none_without_a_gain() -> None:
    budget, taken = Budget(no_gain=2), [trial(n, value) for n, value in enumerate((0.5, 0.4, 0.3))]
    for record in taken:
        record.source = f"another/{record.id}"
    assert budget.no_gain_in([*taken, trial(3, 0.4)], SCORE) == ""
    assert budget.no_gain_in([*taken, trial(3, 0.4), trial(4, 0.4)], SCORE) != ""
    assert budget.no_gain_in([*taken, trial(3, 0.4), trial(4, 0.6)], SCORE) == ""


points = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


@given(points, st.integers(1, 4))
def test_with_two_objectives_a_gain_is_what_nothing_before_it_covers(
    drawn: list[tuple[int, int]], patience: int
) -> None:
    records = [trial(n, score, cost=cost) for n, (score, cost) in enumerate(drawn)]
    without = 0
    for place, (score, cost) in enumerate(drawn):
        covered = any(s >= score and c <= cost for s, c in drawn[:place])
        without = without + 1 if covered else 0
    said = Budget(no_gain=patience).no_gain_in(records, SCORE, COST)
    assert bool(said) == (without >= patience)


def test_finals_are_expected_to_take_what_complete_trials_took() -> None:
    slow = trial(2, state=TrialState.PRUNED, examples=50)
    slow.seconds = 10_000
    records = [trial(0), trial(1, examples=300), slow]  # a tenth of a second an example
    expected = expected_rest(records, runs=5, max_examples=36_000, concurrent=2)
    assert expected.hours == pytest.approx(3.0)  # three rounds of an hour
    assert expected.gpu_hours == pytest.approx(10.0)  # five runs of an hour on two GPUs
    after = expected_rest(records, 5, 36_000, 2, rests=[0.5, 1.0])
    assert after.hours == pytest.approx(4.0), "the rests of two trials first, side by side"
    assert after.gpu_hours == pytest.approx(13.0)


def test_before_the_first_complete_trial_the_others_tell() -> None:
    stopped = trial(0, state=TrialState.PRUNED, examples=50)
    assert expected_rest([stopped], 1, 36_000, 1).hours == pytest.approx(1.0)
    nothing = trial(1, state=TrialState.RUNNING, examples=0)
    assert expected_rest([nothing], 1, 36_000, 1) == Spent()
    assert expected_rest([stopped], 0, 36_000, 1) == Spent()


def test_a_trial_that_went_on_keeps_as_much_for_the_finals_as_one_at_once() -> None:
    """Its two parts took 30 and 60 seconds, so a run of the finals takes 90."""
    parts = [trial(0, state=TrialState.PRUNED, examples=300), trial(1, examples=900)]
    parts[1].begun_at, parts[1].parent, parts[1].seconds = 300, 0, 60.0
    store: Any = SimpleNamespace(
        records=lambda: parts, trials=list, budget=900, objectives=(SCORE,)
    )
    for hours, closed in ((190 / 3600, False), (170 / 3600, True)):  # one trial before it
        limits = Limits(store, budget=Budget(max_hours=hours), finals=1)
        assert bool(limits.closed()) is closed


def test_trials_of_another_study_say_nothing_of_what_a_run_costs() -> None:
    own, taken = trial(0, examples=900), trial(1, examples=900)
    taken.source, taken.gpu_seconds = "another", 0.0
    assert expected_rest([own, taken], 1, 900, 1) == expected_rest([own], 1, 900, 1)


def test_spent_is_summed_over_trials_and_finalists() -> None:
    records = [trial(0), trial(1, state=TrialState.FAILED, examples=40)]
    finals = [trial(0), trial(1)]
    finals[1].gpu_seconds += 3600 - sum(run.gpu_seconds for run in (*records, *finals))
    spent = Spent.of(records, finals, hours=1.5)
    assert spent == Spent(trials=2, examples=340, hours=1.5, gpu_hours=pytest.approx(1.0))
