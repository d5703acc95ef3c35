"""Drivers that share a cluster find each other, and forget those that are gone."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import ray

from sentune.study.planning.capacity import Capacity, Node
from sentune.study.runner import sharing as neighbours
from sentune.study.runner.shares import Claim
from sentune.study.runner.sharing import FORGOTTEN, ClusterBoard, Neighbours

EIGHT = Capacity.fixed(Node(cpus=4), Node(cpus=4))


class Wall(dict[str, str]):
    """A board in memory."""

    def write(self, key: str, text: str) -> None:
        self[key] = text

    def read(self) -> dict[str, str]:
        return dict(self)

    def remove(self, key: str) -> None:
        self.pop(key, None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(neighbours.time, "monotonic", lambda: now[0])
    return now


def study(wall: Any, name: str = "a", wanted: int = 8, **more: float) -> Neighbours:
    claim = Claim(study=name, cpus=1.0, gpus=0.0, wanted=wanted, **more)
    return Neighbours(claim, EIGHT, wall)


def looked(*studies: Neighbours) -> list[int]:
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
    class Broken(Wall):
        def read(self) -> dict[str, str]:
            if self:
                one._over.set()
                raise ray.exceptions.RpcError("the cluster does not answer")
            return {}

    monkeypatch.setattr(neighbours, "EVERY", 0.0)
    one = study(Wall())
    one.look()
    one._board = Broken({"other": "{}"})
    one._watch()
    assert one.allowed == 8
    assert "does not answer" in caplog.text


@pytest.mark.cluster
def test_the_board_of_a_cluster() -> None:
    ray.init(address="local", num_cpus=1, include_dashboard=False)
    try:
        board = ClusterBoard()
        board.write("one", "1")
        board.write("two", "ä")
        assert board.read() == {"one": "1", "two": "ä"}
        board.remove("one")
        assert board.read() == {"two": "ä"}
    finally:
        ray.shutdown()
