"""The winner against the runner-up: the paired t test by hand, and what can be said without."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit

from sentune.records import FinalistRecord, Spread
from sentune.study.runner.finals import compare
from sentune.study.space.objectives import Objective

SCORE = Objective("toy/score")


def finalist(
    trial: int, values: Sequence[float], seeds: Sequence[int] | None = None, metric: str = "score"
) -> FinalistRecord:
    seeds = list(seeds) if seeds is not None else list(range(1, len(values) + 1))
    metrics = {f"toy/{metric}": Spread.of(list(values))}
    return FinalistRecord(trial=trial, settings={}, seeds=seeds, metrics=metrics)


def compared(*finalists: FinalistRecord, objective: Objective = SCORE) -> SimpleNamespace:
    verdict, found = compare(finalists, objective)
    json.dumps(found, allow_nan=False)
    return SimpleNamespace(verdict=verdict, **found)


numbers = st.floats(0, 1).map(lambda x: round(x, 6))


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=8))
def test_the_test_is_student_s_on_the_differences(pairs: list[tuple[float, float]]) -> None:
    apart = [a - b for a, b in pairs]
    n, mean = len(apart), math.fsum(apart) / len(apart)
    sd = math.sqrt(math.fsum((d - mean) ** 2 for d in apart) / (n - 1))
    assume(sd > 1e-6)
    found = compared(finalist(7, [a for a, _ in pairs]), finalist(3, [b for _, b in pairs]))
    error = sd / math.sqrt(n)
    reach = float(stdtrit(n - 1, 0.975)) * error
    assert found.difference == pytest.approx(mean, abs=1e-9)
    assert found.interval == pytest.approx((mean - reach, mean + reach), rel=1e-6, abs=1e-9)
    assert found.p == pytest.approx(2 * float(stdtr(n - 1, -abs(mean) / error)), abs=1e-9)
    assert ("within noise" in found.verdict) == (abs(mean) <= reach)


def test_a_difference_within_noise_is_said_in_a_sentence() -> None:
    ours, theirs = [0.702, 0.716, 0.705, 0.712, 0.705], [0.704, 0.706, 0.702, 0.7, 0.708]
    found = compared(finalist(7, ours), finalist(3, theirs))
    assert found.verdict == (
        "Trial 7 is ahead of trial 3 by 0.4 points (95 % interval -0.4 to 1.2 over 5 seeds): "
        "within noise; either may be better."
    )
    assert (found.winner, found.runner_up, found.seeds) == (7, 3, [1, 2, 3, 4, 5])
    assert found.test == "paired t test"


def test_a_clear_difference_is_said_with_its_p() -> None:
    found = compared(finalist(7, [0.81, 0.82, 0.83]), finalist(3, [0.705, 0.712, 0.728]))
    assert found.verdict.startswith("Trial 7 is ahead of trial 3 by 10.5 points (95 % interval ")
    assert "over 3 seeds): more than noise (p = 0.00" in found.verdict


def test_pairing_is_by_seed_and_unpaired_seeds_are_left_out() -> None:
    a = finalist(7, [0.9, 0.8, 0.7], seeds=[1, 2, 3])
    b = finalist(3, [0.69, 0.1, 0.78], seeds=[3, 9, 2])
    found = compared(a, b)
    assert found.seeds == [2, 3]
    assert found.difference == pytest.approx(0.015)


def test_the_winner_by_mean_may_be_behind_on_the_shared_seeds() -> None:
    a = finalist(7, [0.99, 0.50, 0.51], seeds=[1, 2, 3])
    b = finalist(3, [0.55, 0.57], seeds=[2, 3])
    assert compared(a, b).verdict.startswith("Trial 7 is behind trial 3 by 5.5 points (")


def test_less_is_better_where_the_objective_says_so() -> None:
    seconds = Objective("toy/seconds", "min")
    a, b = (finalist(t, v, metric="seconds") for t, v in ((7, [310, 330]), (3, [350, 365])))
    found = compared(a, b, objective=seconds)
    assert found.difference == pytest.approx(37.5)
    assert "ahead of trial 3 by 0:38 in toy/seconds (95 % interval 0:06 to 1:09" in found.verdict


def test_what_is_no_fraction_is_in_its_own_unit() -> None:
    a, b = finalist(7, [0.25, 0.26], metric="mse"), finalist(3, [0.27, 0.29], metric="mse")
    found = compared(a, b, objective=Objective("toy/mse", "min"))
    assert "ahead of trial 3 by 0.025 in toy/mse (95 % interval -0.03853 to " in found.verdict
    a, b = finalist(7, [300, 310], metric="seconds"), finalist(3, [305, 306], metric="seconds")
    found = compared(a, b, objective=Objective("toy/seconds", "min"))
    assert "95 % interval -0:57 to 0:58" in found.verdict


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (
            finalist(7, [0.75]),
            finalist(3, [0.7]),
            "by 5.0 points over one seed: that says nothing",
        ),
        (finalist(7, [0.75], [1]), finalist(3, [0.7], [2]), "over seeds that they do not share"),
        (finalist(7, [0.7, 0.6]), finalist(3, [0.7, 0.6]), "on each of 2 seeds: neither is better"),
        (finalist(7, [0.3, 0.6]), finalist(3, [0.2, 0.5]), "no seed changes the difference"),
    ],
)
def test_where_no_test_can_be_made_what_can_be_said_is(
    a: FinalistRecord, b: FinalistRecord, said: str
) -> None:
    found = compared(a, b)
    assert said in found.verdict
    assert (found.interval, found.p, found.test) == (None, None, "")


def test_one_finalist_has_nothing_to_be_compared_with() -> None:
    found = compared(finalist(7, [0.7, 0.8]))
    assert found.verdict == "Trial 7 is the only finalist; a comparison needs two."
    assert found.runner_up is None
    assert compare([], SCORE) == ("", {})
