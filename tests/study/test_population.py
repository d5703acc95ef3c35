"""Population-based training on stored segments: who takes up whose checkpoint, and kills."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.storages import InMemoryStorage
from toys import OBJECTIVE, Killed, kill_after

from benchmarks.simulate import open_simulated
from sentune.errors import InvalidValue
from sentune.launchers.trial_report import Report
from sentune.study.runner.population import (
    GENERATION,
    MEMBER,
    PARENT,
    Population,
    explored,
)
from sentune.study.runner.trial_source import Candidate
from sentune.study.schedulers import Scheduler
from sentune.study.space.domains import Choice, Integer, Uniform
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_store import TrialStore

SPACE = SearchSpace(
    method="toy",
    objective=OBJECTIVE,
    settings={"rate": Uniform(1e-4, 1.0, log=True), "width": Choice(16, 32, 64)},
    live=frozenset({"rate", "weight"}),
    fixed={"weight": 2.0},
    published={"rate": 1e-3, "width": 32},
)
MEMBERS, GENERATIONS = 6, 5

Checkpoints = dict[tuple[str, int], float]


def train(candidate: Candidate, checkpoints: Checkpoints) -> float:
    """The best rate falls from 0.1 to 0.001 while a model is trained: no constant one is best."""
    score, start = 0.0, 0
    if candidate.start_from:
        start = candidate.start_at
        score = checkpoints[candidate.start_from, start]
    for examples in range(start, candidate.stop_at, 100):
        target = -1 - 2 * examples / 900
        score += 0.1 - (math.log10(candidate.settings["rate"]) - target) ** 2 / 20
    checkpoints[candidate.name, candidate.stop_at] = score
    return score


def open_population(storage: InMemoryStorage | None = None) -> Population:
    store = open_simulated(SPACE, Scheduler(max_examples=900), storage=storage)
    return Population(store, SPACE, members=MEMBERS, generations=GENERATIONS, seed=7)


def revive(storage: InMemoryStorage) -> None:
    """Its writes are its own again after a kill."""
    for name in [name for name in vars(storage) if hasattr(InMemoryStorage, name)]:
        delattr(storage, name)


def play(
    population: Population, checkpoints: Checkpoints, *, at_once: int = 1, order: int = 0
) -> None:
    """Runs segments, several at once, which end in any order; checks what is kept for them."""
    rng = np.random.default_rng(order)
    live: list[Candidate] = []
    while True:
        needed = population.needed()
        while len(live) < at_once and (given := population.next(len(live))) is not None:
            assert not given.start_from or given.start_from in needed
            assert given.name in population.needed()
            live.append(given)
        if not live:
            assert population.finished
            return
        candidate = live.pop(int(rng.integers(len(live))))
        end(population.store, candidate, train(candidate, checkpoints))


def end(store: TrialStore, candidate: Candidate, score: float) -> None:
    metrics = {OBJECTIVE: score}
    report = Report(examples=candidate.stop_at, metrics=metrics, final=True)
    store.milestone(candidate.number, report)
    store.complete(candidate.number)


def table(store: TrialStore) -> dict[tuple[int, int], tuple[object, ...]]:
    """(Generation, member) -> settings, value, and the place whose checkpoint was taken up."""
    segments = store.trials()
    places = {t.number: (t.user_attrs[GENERATION], t.user_attrs[MEMBER]) for t in segments}
    return {
        places[t.number]: (t.params, t.value, places.get(t.user_attrs.get(PARENT)))
        for t in segments
    }


@pytest.fixture(scope="module")
def whole() -> dict[tuple[int, int], tuple[object, ...]]:
    """The table of a population that nothing disturbed."""
    population = open_population()
    play(population, {})
    return table(population.store)


def test_every_segment_counts_as_a_trial():
    population = open_population()
    play(population, {})
    assert all(record.parent is None for record in population.store.records())


def test_every_member_trains_through_all_generations(whole):
    assert set(whole) == {(g, m) for g in range(5) for m in range(6)}
    assert whole[0, 0][0] == {"rate": 1e-3, "width": 32}, "known points come first"


def test_the_worst_take_up_the_best_and_the_others_go_on(whole):
    for generation in range(1, 5):
        before = {m: whole[generation - 1, m] for m in range(6)}
        ranked = sorted(before, key=lambda m: -before[m][1])
        for member in range(6):
            params, _, (from_generation, parent) = whole[generation, member]
            assert from_generation == generation - 1
            if member in ranked[-2:]:
                assert parent in ranked[:2]
                assert params["width"] == before[parent][0]["width"], "not a live setting"
                assert params["rate"] != before[parent][0]["rate"]
            else:
                assert (parent, params) == (member, before[member][0])


def test_a_schedule_beats_every_constant_setting(whole):
    constant = []
    for rate in np.logspace(-4, 0, 41):
        candidate = Candidate(
            number=0, name="c", settings={"rate": float(rate)}, seed=0, stop_at=900
        )
        constant.append(train(candidate, {}))
    assert max(value for (g, _), (_, value, _) in whole.items() if g == 4) > max(constant)


@pytest.mark.parametrize("writes", [5, 9, 16, 40])
def test_kills_between_any_two_writes_change_nothing(whole, writes: int):
    starts, checkpoints, storage = 0, {}, InMemoryStorage()
    while True:
        starts += 1
        assert starts < 300, "a population that never gets anywhere"
        try:
            revive(storage)
            kill_after(storage, writes)
            population = open_population(storage)
            play(population, checkpoints)
            break
        except Killed:
            continue
    assert starts > 1
    assert table(population.store) == whole
    counted = Counter((t.user_attrs[GENERATION], t.user_attrs[MEMBER])
                      for t in population.store.trials())  # fmt: skip
    assert set(counted.values()) == {1}


@pytest.mark.parametrize("order", [1, 2])
def test_the_order_in_which_members_end_changes_nothing(whole, order: int):
    population = open_population()
    play(population, {}, at_once=4, order=order)
    assert table(population.store) == whole


def test_checkpoints_are_kept_until_nobody_can_take_them_up():
    population = open_population()
    kept: list[int] = []
    checkpoints: Checkpoints = {}
    while (given := population.next(0)) is not None:
        kept.append(len(population.needed()))
        end(population.store, given, train(given, checkpoints))
    assert max(kept) <= 2 * MEMBERS
    assert population.needed() == set()


def test_members_that_fail_are_replaced_and_a_population_without_any_ends():
    population = open_population()
    for member in range(6):
        given = population.next(0)
        if member in (0, 1, 4):
            population.store.fail(given.number, "its loss is nan")
        else:
            end(population.store, given, float(member))
    names = {2: "0002", 3: "0003", 5: "0005"}
    for member in range(6):
        given = population.next(0)
        took = {names[5], names[3]} if member in (0, 1, 4) else {names[member]}
        assert given.start_from in took
        population.store.fail(given.number, "its loss is nan")
    assert population.next(0) is None
    assert population.finished


def test_a_closed_population_starts_nothing_more():
    population = open_population()
    given = population.next(0)
    population.close()
    assert population.next(1) is None
    assert not population.finished
    end(population.store, given, 0.0)
    assert population.next(0) is None
    assert population.finished


def test_what_cannot_be_done_is_refused():
    store = open_population().store
    with pytest.raises(InvalidValue, match="during training: rate, weight"):
        Population(store, SPACE.narrow({"rate": "1e-3"}), members=6, generations=5, seed=0)
    with pytest.raises(InvalidValue, match="--generations"):
        Population(store, SPACE, members=2, generations=901, seed=0)
    for wrong in ({"members": 1}, {"generations": 0}):
        with pytest.raises(InvalidValue):
            Population(store, SPACE, **{"members": 4, "generations": 2, "seed": 0, **wrong})


WIDE = SearchSpace(
    method="toy",
    objective=OBJECTIVE,
    settings={
        "rate": Uniform(1e-4, 1.0, log=True),
        "negatives": Integer(1, 20),
        "kind": Choice("a", "b"),
        "depth": Integer(1, 8),
        "width": Choice(16, 32, 64),
    },
    conditions={"depth": {"kind": ("b",)}},
    live=frozenset({"rate", "negatives", "kind", "depth"}),
)


@given(st.integers(0, 10_000))
def test_exploring_stays_inside_and_leaves_the_rest(seed: int):
    rng = np.random.default_rng(seed)
    point = WIDE.draw(lambda _, dimension: dimension.at(float(rng.random())))
    found = explored(point, WIDE, np.random.default_rng(seed))
    assert found == explored(point, WIDE, np.random.default_rng(seed))
    assert found["width"] == point["width"]
    assert ("depth" in found) is (found["kind"] == "b")
    for name, value in found.items():
        assert WIDE.settings[name].contains(value)


def test_exploring_multiplies_three_times_in_four():
    space = replace(WIDE, live=frozenset({"rate"}))
    point = {"rate": 0.01, "negatives": 5, "kind": "a", "width": 16}
    rng = np.random.default_rng(0)
    rates = [explored(point, space, rng)["rate"] for _ in range(2000)]
    near = Counter(round(rate, 6) for rate in rates)
    assert 0.33 < near[0.008] / 2000 < 0.42
    assert 0.33 < near[0.012] / 2000 < 0.42
