"""Shares of a cluster: dominant resource fairness, by a slow reckoning and the paper's case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentune.study.runner.shares import Claim, fair_shares


def claim(
    study: str = "a", *, cpus: float = 1, gpus: float = 0, wanted: int = 100, **more: float
) -> Claim:
    return Claim(study=study, cpus=cpus, gpus=gpus, wanted=wanted, **more)


def test_equal_studies_get_equal_parts_and_what_one_cannot_use_the_others_get() -> None:
    assert fair_shares([claim() for _ in range(8)], 16, 0) == [2] * 8
    assert fair_shares([claim(wanted=1), claim(), claim()], 16, 0)[0] == 1
    assert sum(fair_shares([claim(wanted=1), claim(), claim()], 16, 0)) == 16
    assert fair_shares([claim(wanted=5)], 16, 0) == [5]


def test_twice_the_weight_twice_the_share() -> None:
    assert fair_shares([claim(weight=2), claim()], 12, 0) == [8, 4]


def test_of_more_studies_than_places_those_come_first_that_have_had_least() -> None:
    claims = [claim(used=5.0), claim(used=1.0), claim(used=3.0)]
    assert fair_shares(claims, 2, 0) == [0, 1, 1]
    heavy = [claim(used=5.0, weight=10), claim(used=1.0), claim(used=3.0)]
    assert fair_shares(heavy, 2, 0) == [1, 1, 0]


def test_each_counts_in_the_resource_that_it_needs_most() -> None:
    """The example of the paper, section 4.1: 9 CPUs, 18 GB; <1 CPU, 4 GB> and <3 CPUs, 1 GB>."""
    claims = [claim(cpus=1, gpus=4), claim(cpus=3, gpus=1)]
    assert fair_shares(claims, 9, 18) == [3, 2]


def test_studies_without_gpus_do_not_count_against_those_with() -> None:
    claims = [claim(cpus=1, gpus=1, wanted=8), claim(cpus=1, wanted=24)]
    assert fair_shares(claims, 32, 8) == [8, 24]


def test_thirds_of_a_gpu() -> None:
    assert fair_shares([claim(cpus=0.1, gpus=1 / 3, wanted=9)], 8, 1) == [3]


def slow_shares(claims: list[Claim], cpus: float, gpus: float) -> list[int]:
    """One run after the other, looking at everybody each time."""
    given = [0] * len(claims)
    while True:
        held = [
            (sum(n * c.cpus for n, c in zip(given, claims, strict=True))),
            (sum(n * c.gpus for n, c in zip(given, claims, strict=True))),
        ]
        able = [
            place
            for place, c in enumerate(claims)
            if given[place] < c.wanted
            and held[0] + c.cpus <= cpus + 1e-6
            and held[1] + c.gpus <= gpus + 1e-6
        ]
        if not able:
            return given
        keys = {}
        for place in able:
            c = claims[place]
            parts = [c.cpus / cpus if cpus else 0, c.gpus / gpus if gpus else 0]
            keys[place] = (given[place] * max(parts) / c.weight, c.used / c.weight, place)
        given[min(able, key=keys.__getitem__)] += 1


claims = st.builds(
    Claim,
    study=st.just("s"),
    cpus=st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    gpus=st.sampled_from([0.0, 0.25, 1.0, 2.0]),
    wanted=st.integers(0, 12),
    weight=st.sampled_from([0.5, 1.0, 2.0]),
    used=st.sampled_from([0.0, 1.0, 2.0]),
)


@given(st.lists(claims, max_size=6), st.sampled_from([0, 3, 8, 32]), st.sampled_from([0, 1, 4]))
def test_against_the_slow_reckoning(claims: list[Claim], cpus: float, gpus: float) -> None:
    assert fair_shares(claims, cpus, gpus) == slow_shares(claims, cpus, gpus)


@given(st.integers(1, 8), st.integers(1, 64))
def test_equal_claims_differ_by_one_run_at_most_and_use_all(studies: int, cpus: int) -> None:
    shares = fair_shares([claim() for _ in range(studies)], cpus, 0)
    assert max(shares) - min(shares) <= 1
    assert sum(shares) == cpus


@pytest.mark.parametrize("nodes", [1000])
def test_a_thousand_nodes(nodes: int) -> None:
    shares = fair_shares([claim(cpus=1, gpus=1, wanted=4000) for _ in range(8)], 8 * nodes, nodes)
    assert shares == [nodes // 8] * 8
