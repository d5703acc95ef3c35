"""Searches replayed on learning curves, through the real ledger."""

from __future__ import annotations

from statistics import fmean, median

import pytest
from optuna.trial import TrialState as Stored

from benchmarks.search_quality import (
    BEST,
    BUDGET,
    GRID,
    SEARCHES,
    SPACE,
    TABLE_3,
    WIDE,
    final,
    reached,
    run,
    wide_final,
)
from sentune.errors import InvalidValue
from sentune.records import TrialRecord, TrialState
from sentune.search.curves import PowerLaw, Recorded
from sentune.search.sampling import make_sampler
from sentune.search.schedulers import make_scheduler
from sentune.search.simulate import Outcome, open_simulated, simulate
from sentune.search.source import SearchSource

OURS, RAYS, FULL, RANDOM_ASHA, RANDOM = SEARCHES[:5]


def replay(curves, *, scheduler: str = "asha", trials: int = 15, **options) -> Outcome:
    rungs = make_scheduler(scheduler, first_rung=100, eta=3, max_examples=900, mode="max", keep=1)
    sampler = make_sampler("random", SPACE, trials=trials, seed=5)
    ledger = open_simulated(SPACE, sampler, rungs)
    source = SearchSource(ledger, SPACE, trials=trials, seed=5, first=False)
    return simulate(ledger, source, curves, **options)


def table(outcome: Outcome) -> list[tuple[object, ...]]:
    return [(r.id, r.state, r.settings, r.curve) for r in outcome.ledger.records()]


SYNTHETIC = PowerLaw(final=final, budget=900, seed=5)


@pytest.mark.parametrize("workers", [1, 4])
def test_examples_are_those_of_the_curves_and_every_trial_ends(workers: int):
    outcome = replay(SYNTHETIC, workers=workers)
    records = outcome.ledger.records()
    assert len(records) == 15
    assert {r.state for r in records} == {TrialState.COMPLETE, TrialState.PRUNED}
    assert outcome.examples == sum(r.examples for r in records)
    complete = [r for r in records if r.state is TrialState.COMPLETE]
    best = max(complete, key=lambda r: r.metrics[SPACE.objective])
    assert outcome.incumbents[-1].number == best.id
    values = [found.value for found in outcome.incumbents]
    assert values == sorted(values)
    assert outcome.best_after(outcome.examples) == outcome.incumbents[-1]
    assert outcome.best_after(0) is None


def test_simulated_workers_share_the_clock_and_count_the_same_examples():
    alone, four = (replay(SYNTHETIC, scheduler="none", workers=n) for n in (1, 4))
    assert alone.examples == four.examples == 15 * 900
    assert alone.time == 15 * 900
    assert four.time == 4 * 900
    slow = replay(SYNTHETIC, scheduler="none", speed=lambda settings: settings["batch_size"])
    assert slow.time == pytest.approx(sum(3 * 900 / batch for batch in TABLE_3))


def test_a_replay_gives_the_same_again():
    assert table(replay(SYNTHETIC, workers=3)) == table(replay(SYNTHETIC, workers=3))
    other = PowerLaw(final=final, budget=900, seed=6)
    assert table(replay(other)) != table(replay(SYNTHETIC))


def test_a_search_can_be_cut_off():
    outcome = replay(SYNTHETIC, scheduler="none", until=3000)
    assert outcome.examples == 4 * 900


def test_synthetic_curves_have_the_shape_that_is_stated():
    plain = PowerLaw(final=final, budget=900, noise=0.0)
    cell = {"batch_size": 16, "learning_rate": 5e-5}
    assert plain.value(cell, 900) == pytest.approx(0.67)
    assert plain.value(cell, 100) == pytest.approx(0.67 - 0.05 * 2)
    assert plain.value(cell, 225) == pytest.approx(0.67 - 0.05)
    noisy = [PowerLaw(final=final, budget=900, seed=s) for s in range(300)]
    ends = [curve.value(cell, 900) - 0.67 for curve in noisy]
    assert 0.008 < (sum(e * e for e in ends) / 300) ** 0.5 < 0.012
    lasting = [PowerLaw(final=final, budget=900, seed=s, lasting=1.0) for s in range(3)]
    for curve in lasting:
        assert curve.value(cell, 900) - curve.value(cell, 100) == pytest.approx(0.1)


def test_recorded_curves_are_replayed_as_they_are_and_nothing_is_invented():
    first = replay(SYNTHETIC, scheduler="none")
    curves = {
        at: {SPACE.objective: SYNTHETIC.value({"batch_size": 16, "learning_rate": 5e-5}, at)}
        for at in (100, 300, 900)
    }
    held = TrialRecord(
        id=0,
        state=TrialState.COMPLETE,
        settings={"batch_size": 16, "learning_rate": 5e-5},
        curve=curves,
    )
    recorded = Recorded.of([held], SPACE.objective)
    assert recorded.value(held.settings, 300) == curves[300][SPACE.objective]
    with pytest.raises(InvalidValue, match="no run was recorded"):
        replay(recorded)
    with pytest.raises(InvalidValue, match="recorded are 100, 300, 900"):
        recorded.value(held.settings, 500)
    ends = Recorded.of(first.ledger.records(), SPACE.objective)
    assert table(replay(ends, scheduler="none")) == table(first)
    with pytest.raises(InvalidValue, match="workers"):
        replay(SYNTHETIC, workers=0)


def test_what_ray_tells_its_sampler_can_be_compared_with():
    ours, rays = (replay(SYNTHETIC, all_complete=told) for told in (False, True))
    states = [[t.state for t in o.ledger.trials()] for o in (ours, rays)]
    assert Stored.PRUNED in states[0]
    assert set(states[1]) == {Stored.COMPLETE}


def test_tpe_with_asha_finds_the_best_cell_of_table_3_in_a_quarter_of_its_grid():
    """A light version of benchmarks/search_quality.py, which has fifty seeds."""
    seeds = range(7)
    found = {s.name: [reached(run(s, seed), 0.0) for seed in seeds] for s in (OURS, RANDOM)}
    assert median(found[OURS.name]) <= 0.25
    assert median(found[OURS.name]) < median(found[RANDOM.name])
    assert GRID == 15 * BUDGET


def test_where_runs_over_fit_stopped_trials_told_as_complete_mislead_the_sampler():
    """A light version of the benchmark's second table: loss against the best, by seed."""
    losses = {
        search.name: [
            BEST - wide_final(found.settings)
            for seed in range(3)
            if (
                found := run(
                    search, seed, trials=60, space=WIDE, until=12 * BUDGET, fall=0.15
                ).best_after(12 * BUDGET)
            )
        ]
        for search in (OURS, RAYS)
    }
    assert fmean(losses[OURS.name]) < fmean(losses[RAYS.name])
