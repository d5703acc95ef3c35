"""Drivers that share a cluster find each other, and forget those that are gone."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

from sentune.launchers.ray_internals import ClusterStore
from sentune.study.planning.capacity import Capacity, Node
from sentune.study.runner import sharing
from sentune.study.runner.sharing import FORGOTTEN, Claim, Sharing, fair_shares
from tests.toy_trials import Wall

EIGHT = Capacity.fixed(Node(cpus=4), Node(cpus=4))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(sharing.time, "monotonic", lambda: now[0])
    return now


def study(wall: Any, name: str = "a", wanted: int = 8, **more: float) -> Sharing:
    claim = Claim(study=name, cpus=1.0, gpus=0.0, wanted=wanted, **more)
    return Sharing(claim, EIGHT, wall)


def looked(*studies: Sharing) -> list[int]:
    for _ in range(2):  # the first has not seen the last before
        for one in studies:
            one.look()
    return [one.allowed for one in studies]


def test_alone_it_has_all_that_it_can_use(clock: list[float]) -> None:
    assert looked(study(Wall())) == [8]
    assert looked(study(Wall(), wanted=3)) == [3]


def test_shares_follow_who_is_there_and_what_they_want(clock: list[float]) -> None:
    wall = Wall()
    first, second = study(wall, "a"), study(wall, "b")
    assert looked(first, second) == [4, 4]
    second.wanted = 1  # its last trial
    assert looked(first, second) == [7, 1]
    second.wanted = second.most
    third = study(wall, "c", weight=2)
    assert looked(first, second, third) == [2, 2, 4]


def test_a_killed_driver_is_forgotten_and_its_claim_taken_away(clock: list[float]) -> None:
    wall = Wall()
    killed, alive = study(wall, "killed"), study(wall, "alive")
    assert looked(killed, alive) == [4, 4]
    clock[0] += FORGOTTEN
    assert looked(alive) == [4]
    clock[0] += 1
    assert looked(alive) == [8]
    assert len(wall) == 2
    clock[0] += 10 * FORGOTTEN
    assert looked(alive) == [8]
    assert len(wall) == 1


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[1]",
        "{}",
        '{"study": "b", "cpus": 1, "gpus": 0, "wanted": 8, "weight": 1, "beats": 1}',
        '{"study": "b", "cpus": "x", "gpus": 0, "wanted": 8, "weight": 1, "used": 0}',
        '{"study": "b", "cpus": 1, "gpus": 0, "wanted": 8, "weight": 0, "used": 0}',
    ],
)
def test_a_claim_of_an_unknown_version_is_ignored(
    text: str, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    wall = Wall()
    one, two = study(wall, "a"), study(wall, "c")
    wall["other"] = text
    assert looked(one, two) == [4, 4]
    assert looked(one, two) == [4, 4]
    assert caplog.text.count("its claim is ignored") == 2, "once for each study"


def test_a_claim_with_more_than_this_version_knows_counts(clock: list[float]) -> None:
    wall = Wall()
    one = study(wall, "a")
    known = {"study": "b", "cpus": 1, "gpus": 0, "wanted": 8, "weight": 1, "used": 0}
    wall["other"] = json.dumps({**known, "memory": 3})
    assert looked(one) == [4]


def test_a_study_that_ends_leaves_at_once(clock: list[float]) -> None:
    wall = Wall()
    stays, goes = study(wall, "stays"), study(wall, "goes")
    with goes.watched():
        assert looked(stays) == [4]
    assert looked(stays) == [8]


def test_places_go_round_where_there_are_too_few(clock: list[float]) -> None:
    """Nine studies on eight CPUs: who has waited is first when a place is free."""
    wall = Wall()
    nine = [study(wall, str(number)) for number in range(9)]
    waited: set[int] = set()
    for _ in range(9):
        shares = looked(*nine)
        assert sorted(shares) == [0] + [1] * 8
        waited.add(shares.index(0))
        for one, share in zip(nine, shares, strict=True):
            one.live = share
        clock[0] += 1
    assert len(waited) > 1


def test_it_says_once_with_whom_it_shares(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    wall = Wall()
    with caplog.at_level(logging.WARNING):
        looked(study(wall, "mine"), study(wall, "theirs"))
    assert caplog.messages == [
        "the cluster is shared with mine: 4 of 8 runs at a time for now",
        "the cluster is shared with theirs: 4 of 8 runs at a time for now",
    ]


def test_an_unreachable_board_changes_nothing(
    clock: list[float], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()

    class Broken(Wall):
        def read(self) -> dict[str, str]:
            if self:
                looked.set()
                raise ray.exceptions.RpcError("the cluster does not answer")
            return {}

    monkeypatch.setattr(sharing, "EVERY", 0.0)
    one = study(Wall())
    with one.watched():
        one._store = Broken({"other": "{}"})
        assert looked.wait(60)
    assert one.allowed == 8
    assert "does not answer" in caplog.text


@pytest.mark.cluster
def test_the_key_value_store_of_a_cluster() -> None:
    ray.init(address="local", num_cpus=1, include_dashboard=False)
    try:
        store = ClusterStore()
        store.write("one", "1")
        store.write("two", "ä")
        assert store.read() == {"one": "1", "two": "ä"}
        store.remove("one")
        assert store.read() == {"two": "ä"}
    finally:
        ray.shutdown()


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
