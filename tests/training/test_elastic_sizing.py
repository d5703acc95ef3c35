"""How many workers an elastic group starts with, and what its desk tells it; without Ray."""

from __future__ import annotations

import asyncio

import pytest

from sentune.beats import Beat
from sentune.launchers import control_actor, elastic_sizing
from sentune.launchers.control_actor import ControlActor, ControlSignal
from sentune.launchers.elastic_sizing import ElasticSizing, free_places
from sentune.launchers.trial_report import Report


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
    monkeypatch.setattr(elastic_sizing, "_Claim", lambda name, needs, priority: Claim(there, name))
    monkeypatch.setattr(elastic_sizing, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(elastic_sizing, "free_places", lambda needs: free)
    monkeypatch.setattr(ElasticSizing, "_placed", lambda self, workers: workers <= placed)
    assert ElasticSizing("0000", (2, 6), {"CPU": 1.0}, 60.0).size() == size
    assert there.asked == {"0000 at least": 2, "0000 at most": 4}
    assert there.cancelled == ["0000 at least"], "Ray Train claims that for the group itself"


def test_machines_that_are_taken_back_and_parts_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"a": {"CPU": 8.0, "GPU": 1.0}, "b": {"CPU": 1.0, "GPU": 1.0}, "c": {"CPU": 4.0}}
    monkeypatch.setattr(elastic_sizing, "free_resources", lambda: free)
    monkeypatch.setattr(elastic_sizing, "draining_nodes", frozenset)
    assert free_places({"CPU": 1.0, "GPU": 0.2}) == 6, "five and one; 1.0 // 0.2 is four"
    assert free_places({"CPU": 2.0}) == 6
    monkeypatch.setattr(elastic_sizing, "draining_nodes", lambda: frozenset("a"))
    assert free_places({"CPU": 1.0, "GPU": 0.2}) == 1


def test_a_group_is_asked_to_grow_until_it_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_actor, "draining_nodes", lambda: frozenset({"old"}))

    async def words() -> None:
        control = ControlActor()
        await control.forget("0000")
        assert not await control.running("0000")
        assert await control.signal("new", "0000", Beat()) is ControlSignal.NONE
        assert await control.running("0000")
        await control.resize("0000")
        assert await control.signal("new", "0000") is ControlSignal.RESIZE
        assert await control.signal("new", "0001") is ControlSignal.NONE
        assert await control.signal("old", "0000") is ControlSignal.PREEMPTED, (
            "that one cannot wait"
        )
        await control.record_end("0000", Report(examples=160, left=True))
        await control.record_end("0000", Report(examples=320, failure="its peer has left"))
        assert await control.take_end("0000") == Report(examples=160, left=True)
        assert await control.take_end("0000") is None
        await control.forget("0000")
        assert not await control.running("0000")
        assert await control.signal("new", "0000") is ControlSignal.NONE
        await control.resize("0000")
        await control.ask_to_leave()
        assert await control.signal("new", "0000") is ControlSignal.LEAVE

    asyncio.run(words())


def test_a_group_of_two_is_answered_and_its_verdicts_are_dropped() -> None:
    async def session() -> None:
        control = ControlActor()
        for at in range(100, 1100, 100):
            early = asyncio.create_task(control.verdict("0000", at))
            await asyncio.sleep(0)
            await control.put("0000", at, at < 1000)
            await control.put("0000", at, at >= 1000)
            said = [await early, await control.verdict("0000", at)]
            assert said == [at < 1000] * 2, "the first verdict stands, for both workers"
            assert [*control._verdicts["0000"]] == [at], "those before have been heard"

    asyncio.run(session())


def test_of_a_trial_that_has_ended_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_actor, "draining_nodes", frozenset)

    async def session() -> None:
        control = ControlActor()
        before = held_by(control)
        for number in range(50):
            name = f"{number:04d}"
            await control.signal("node", name)
            await control.put(name, 100, True)
            await control.verdict(name, 100)
            await control.record_end(name, Report(failure="x" * 100))
            await control.resize(name)
            await control.forget(name)
        assert held_by(control) == before

    asyncio.run(session())


def held_by(control: ControlActor) -> int:
    """Entries in the actor's collections."""
    return sum(len(kept) for kept in vars(control).values() if isinstance(kept, dict | set))
