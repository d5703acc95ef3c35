"""How many workers an elastic group starts with, and what its desk tells it; without Ray."""

from __future__ import annotations

import asyncio

import pytest

from sentune.launchers import control_actor as judge
from sentune.launchers import elastic_sizing as room
from sentune.launchers.control_actor import JudgeActor
from sentune.launchers.control_signal import Wish
from sentune.launchers.elastic_sizing import Room, free_places


class Coordinator:
    """Promises so many places in all."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.asked: dict[str, int] = {}
        self.cancelled: list[str] = []

    def promised(self, name: str) -> int:
        before = list(self.asked)[: list(self.asked).index(name)]
        return min(self.asked[name], self.places - sum(self.asked[other] for other in before))


class Claim:
    """Stands in for a claim at Ray's coordinator."""

    def __init__(self, coordinator: Coordinator, name: str) -> None:
        self.coordinator, self.name = coordinator, name

    def ask(self, workers: int) -> None:
        self.coordinator.asked[self.name] = workers

    def promised(self) -> int:
        return max(0, self.coordinator.promised(self.name))

    def cancel(self) -> None:
        self.coordinator.cancelled.append(self.name)


@pytest.mark.parametrize(
    ("promised", "free", "placed", "size"),
    [
        (8, 8, 8, 6),  # the most that it asks for
        (4, 8, 8, 4),  # the rest was promised to others
        (8, 3, 8, 3),  # the rest is in use
        (8, 5, 4, 4),  # one machine has just died
        (8, 5, 1, 2),  # the fewest wait
        (0, 0, 0, 2),
    ],
)
def test_a_group_starts_with_what_there_is_room_for(
    promised: int, free: int, placed: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Coordinator(promised)
    monkeypatch.setattr(room, "_Claim", lambda name, needs, priority: Claim(there, name))
    monkeypatch.setattr(room, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(room, "free_places", lambda needs: free)
    monkeypatch.setattr(Room, "_placed", lambda self, workers: workers <= placed)
    assert Room("0000", (2, 6), {"CPU": 1.0}, 60.0).size() == size
    assert there.asked == {"0000 at least": 2, "0000 at most": 4}
    assert there.cancelled == ["0000 at least"], "Ray Train claims that for the group itself"


def test_machines_that_are_taken_back_and_parts_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"a": {"CPU": 8.0, "GPU": 1.0}, "b": {"CPU": 1.0, "GPU": 1.0}, "c": {"CPU": 4.0}}
    monkeypatch.setattr(room.ray._private.state, "available_resources_per_node", lambda: free)
    monkeypatch.setattr(room, "draining_nodes", frozenset)
    assert free_places({"CPU": 1.0, "GPU": 0.2}) == 6, "five and one; 1.0 // 0.2 is four"
    assert free_places({"CPU": 2.0}) == 6
    monkeypatch.setattr(room, "draining_nodes", lambda: frozenset("a"))
    assert free_places({"CPU": 1.0, "GPU": 0.2}) == 1


def test_a_group_is_asked_to_grow_until_it_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "draining_nodes", lambda: frozenset({"old"}))

    async def words() -> None:
        desk = JudgeActor()
        await desk.start("0000")
        assert not await desk.running("0000")
        assert await desk.wish("new", "0000") is Wish.NONE
        assert await desk.running("0000")
        await desk.resize("0000")
        assert await desk.wish("new", "0000") is Wish.RESIZE
        assert await desk.wish("new", "0001") is Wish.NONE
        assert await desk.wish("old", "0000") is Wish.PREEMPTED, "that one cannot wait"
        await desk.depart("0000", 160, False)
        assert await desk.departure("0000") == (160, False)
        await desk.start("0000")
        assert not await desk.running("0000")
        assert await desk.wish("new", "0000") is Wish.NONE
        await desk.resize("0000")
        await desk.ask_to_leave()
        assert await desk.wish("new", "0000") is Wish.LEAVE

    asyncio.run(words())
