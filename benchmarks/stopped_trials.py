"""What telling stopped trials as COMPLETE, as Ray's OptunaSearch does, costs a search.

    python -m benchmarks.stopped_trials [--seeds 50] [--runs 10]

The space is GaussCSE's grid of Table 3 with temperature, contradiction weight, pooling and warm-up
beside it, each with a stated loss. A run's curve is ``PowerLaw``: its end, less a gap that closes
with the root of the examples, less what it falls by over-fitting after a third of the budget; one
point of noise, half of it lasting. TPE, successive halving with rungs at a ninth and a third of the
budget, one trial at a time, as many as the examples of 10 full runs pay for. These are all the
shapes that were tried; "hot" is 0 at temperature 1 and 1 at 0.01.

OURS tells PRUNED of stopped trials, RAYS COMPLETE of all with their last values, both with
sentune's sampler, whose 10 random trials are Optuna's default too. Ray's winner is the trial whose
last value is best, stopped or not (``ResultGrid.get_best_result``); ours the best complete one.

A configuration's quality is the end of its law, without noise. Shown are means over seeds in points
below the best quality that there is: of the best complete trial when 3, 6 and 10 full runs are
spent, of what is drawn after the 10 random trials, and of the winner; then the number of trials,
and the median of full runs spent until a complete trial within two points was the best. Below is
the difference, seed by seed: mean, 95 % confidence interval, p of Wilcoxon's signed-rank test (not
corrected for the number of shapes).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, median
from typing import Any

import numpy as np

from benchmarks.curves import PowerLaw, Shape
from benchmarks.simulate import Outcome, Told, open_simulated, simulate
from benchmarks.surfaces import BUDGET, SPACE, final, paired
from sentune.records import TrialRecord
from sentune.study.runner.trial_source import SearchSource
from sentune.study.samplers.registry import make_sampler
from sentune.study.schedulers import Halving
from sentune.study.space.space import Choice, Uniform

WIDE = replace(
    SPACE,
    settings={
        **SPACE.settings,
        "temperature": Uniform(0.01, 1.0, log=True),
        "contradiction_weight": Uniform(0.1, 10.0, log=True),
        "pooling": Choice("cls", "mean"),
        "warmup": Uniform(0.0, 0.3),
    },
)
STARTUP = 10
TRIALS = 40
"""Planned, of which a quarter are random; as many are run as the examples pay for."""

NEAR = 0.02


def wide_final(settings: Mapping[str, Any]) -> float:
    """A cell's value less what the further settings cost; nothing at their best."""
    temperature = math.log10(settings["temperature"] / 0.05)
    weight = math.log10(settings["contradiction_weight"] / 3)
    lost = 0.02 * temperature**2 + 0.02 * weight**2 + 0.3 * (settings["warmup"] - 0.1) ** 2
    return final(settings) - lost - (0.01 if settings["pooling"] == "mean" else 0.0)


def hot(settings: Mapping[str, Any]) -> float:
    """0 at temperature 1, 1 at 0.01."""
    return -math.log10(settings["temperature"]) / 2


SHAPES: dict[str, dict[str, Shape]] = {
    "rising": {},
    "rising and crossing: gaps differ by a half": {"unequal": 0.5},
    "rising and crossing: hot runs are fast": {"gap": lambda s: 0.1 * (1 - hot(s))},
    "over-fitting by 6 points": {"fall": 0.06},
    "over-fitting by 15 points": {"fall": 0.15},
    "over-fitting by up to 30 points, hot runs most": {"fall": lambda s: 0.3 * hot(s)},
    "hot runs are fast and over-fit by up to 30 points": {
        "gap": lambda s: 0.1 * (1 - hot(s)),
        "fall": lambda s: 0.3 * hot(s),
    },
    "sinking by 4 points: early values look good": {"gap": -0.02},
    "sinking by 10 points: early values look good": {"gap": -0.05},
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A search's numbers; losses in points below the best quality."""

    losses: tuple[float, ...]
    drawn: float
    winner: float
    trials: int
    spent_until_near: float


def search(shape: Mapping[str, Shape], told: Told, seed: int, runs: int) -> Outcome:
    """One search."""
    scheduler = Halving(first_rung=BUDGET // 9, eta=3, max_examples=BUDGET)
    sampler = make_sampler("tpe", WIDE, trials=TRIALS, seed=seed)
    store = open_simulated(WIDE, scheduler)
    return simulate(
        store,
        SearchSource(store, WIDE, trials=20 * runs, seed=seed, sampler=sampler, first=False),
        PowerLaw(final=wide_final, budget=BUDGET, seed=seed, **shape),
        told=told,
        until=runs * BUDGET,
    )


def quality(shape: Mapping[str, Shape], settings: Mapping[str, Any]) -> float:
    """The end of a full run, without noise."""
    return PowerLaw(final=wide_final, budget=BUDGET, **shape).law(settings, BUDGET)


@cache
def best_quality(name: str) -> float:
    """All settings but the temperature are best where they cost nothing, whatever the shape."""
    best = {"batch_size": 16, "learning_rate": 5e-5, "pooling": "cls", "warmup": 0.1}
    rest = {**best, "contradiction_weight": 3.0}
    temperatures = np.geomspace(0.01, 1.0, 1001)
    return max(quality(SHAPES[name], {**rest, "temperature": float(t)}) for t in temperatures)


def winner(outcome: Outcome, told: Told) -> Mapping[str, Any]:
    """Settings of the trial that the search names."""
    if told is not Told.RAYS:
        return outcome.incumbents[-1].settings

    def last(record: TrialRecord) -> float:
        return record.curve[record.examples][WIDE.objective]

    return max(outcome.store.records(), key=last).settings


def seen(name: str, told: Told, seed: int, runs: int) -> Seen:
    """One search, measured."""
    outcome = search(SHAPES[name], told, seed, runs)

    def loss(settings: Mapping[str, Any]) -> float:
        return 100 * (best_quality(name) - quality(SHAPES[name], settings))

    held = [outcome.best_after(runs * BUDGET * third // 3) for third in (1, 2, 3)]
    records = outcome.store.records()
    near = outcome.spent_until(lambda settings: loss(settings) <= 100 * NEAR)
    return Seen(
        losses=tuple(loss(found.settings) if found else math.inf for found in held),
        drawn=fmean(loss(record.settings) for record in records[STARTUP:]),
        winner=loss(winner(outcome, told)),
        trials=len(records),
        spent_until_near=math.inf if near is None else near / BUDGET,
    )


def row(found: list[Seen]) -> str:
    """Means over seeds, and the median of what was spent."""
    means = [fmean(values) for values in zip(*(s.losses for s in found), strict=True)]
    means += [fmean(s.drawn for s in found), fmean(s.winner for s in found)]
    spent = median(s.spent_until_near for s in found)
    trials = fmean(s.trials for s in found)
    return "".join(f"{mean:8.2f}" for mean in means) + f"{trials:8.1f}{spent:8.1f}"


def show(name: str, seeds: int, runs: int) -> None:
    """The table of one shape."""
    thirds = [runs * third // 3 for third in (1, 2, 3)]
    print(f"\n{name} ({seeds} seeds)")
    heads = [*(f"at {n}" for n in thirds), "drawn", "winner", "trials", "near at"]
    print(f"{'':8}" + "".join(f"{head:>8}" for head in heads))
    found = {}
    for told in Told:
        found[told] = [seen(name, told, seed, runs) for seed in range(seeds)]
        print(f"{told.name:8}{row(found[told])}", flush=True)
    pairs = list(zip(found[Told.OURS], found[Told.RAYS], strict=True))
    for what, more in (
        (f"at {runs}", [theirs.losses[-1] - ours.losses[-1] for ours, theirs in pairs]),
        ("drawn", [theirs.drawn - ours.drawn for ours, theirs in pairs]),
        ("winner", [theirs.winner - ours.winner for ours, theirs in pairs]),
        ("near at", [_longer(ours, theirs, runs) for ours, theirs in pairs]),
    ):
        print(f"    RAYS - OURS, {what}: {paired(more)}", flush=True)


def _longer(ours: Seen, theirs: Seen, runs: int) -> float:
    """A search that is never near counts as all that it spent."""
    return min(theirs.spent_until_near, runs) - min(ours.spent_until_near, runs)


def main() -> None:
    """Prints one table for each shape of the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--shape", choices=SHAPES, action="append")
    given = parser.parse_args()
    for name in given.shape or SHAPES:
        show(name, given.seeds, given.runs)


if __name__ == "__main__":
    main()
