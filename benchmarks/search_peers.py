"""What searches spend until they hold the best point of a surface, sentune's beside its peers'.

    python -m benchmarks.search_peers [--seeds 50] [--first 9]

Every search replays the same curves, those of ``search_quality.py``; a search holds a point as it
is said there. No search is told the best point or starts from it. A search ends when it has spent
the grid's examples, and one that has not held the best by then counts as all of them.

Peers by their public classes: Optuna's TPE and GPSampler with its HyperbandPruner; Ray's
OptunaSearch with its AsyncHyperBandScheduler, called as Tune's controller calls them, one trial at
a time. Syne Tune's MOBSTER, a Gaussian process with ASHA, cannot be installed beside this project's
lock; the nearest are Optuna's Gaussian process with its HyperbandPruner, and with ASHA in sentune.
Shown are the median with its 95 % interval (order statistics), and the mean of the paired
difference to the first search with its 95 % interval.
"""

from __future__ import annotations

import argparse
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.samplers import GPSampler, TPESampler

from benchmarks.search_quality import Search as Own
from benchmarks.search_quality import run
from benchmarks.surfaces import ETA, Surface, interval, paired, surfaces
from sentune.study.schedulers import AshaPromotion, Halving, Hyperband

METRIC, TIME = "value", "examples"


def milestones(surface: Surface) -> tuple[int, ...]:
    """Rungs and end of every search."""
    rungs = Halving(first_rung=surface.first_rung, eta=ETA, max_examples=surface.budget)
    return rungs.milestones


Step = tuple[int, Mapping[str, Any], float]
"""Examples spent when a trial was complete, its settings and its value."""
Search = Callable[[Surface, int], Iterator[Step]]


def ours(surface: Surface, seed: int, **search: Any) -> Iterator[Step]:
    """Run sentune's source and store; ``search``: fields of ``search_quality.Search``."""
    outcome = run(Own(name="", **search), seed, surface)
    for held in outcome.incumbents:
        yield held.examples, held.settings, held.value


def optuna_pruned(surface: Surface, seed: int, *, sampler: type[Any]) -> Iterator[Step]:
    """Run one of Optuna's samplers with its own Hyperband pruner."""
    study = optuna.create_study(
        direction="maximize",
        sampler=sampler(seed=seed),
        pruner=optuna.pruners.HyperbandPruner(milestones(surface)[0], surface.budget, ETA),
    )
    axes = _axes(surface)
    curves, spent = surface.curves(seed), 0
    while spent < surface.grid:
        trial, before = study.ask(axes), 0
        for at in milestones(surface):
            spent, before = spent + at - before, at
            value = curves.value(trial.params, at)
            trial.report(value, at)
            if at < surface.budget and trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, value)
            yield spent, trial.params, value


def ray_asha(surface: Surface, seed: int) -> Iterator[Step]:
    """Run Ray's OptunaSearch with its ASHA."""
    from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler
    from ray.tune.search.optuna import OptunaSearch

    searcher = OptunaSearch(space=_axes(surface), metric=METRIC, mode="max", seed=seed)
    scheduler: Any = AsyncHyperBandScheduler(
        time_attr=TIME,
        metric=METRIC,
        mode="max",
        grace_period=milestones(surface)[0],
        max_t=surface.budget,
        reduction_factor=ETA,
    )
    curves, spent, number = surface.curves(seed), 0, 0
    while spent < surface.grid:
        number, before = number + 1, 0
        trial = SimpleNamespace(trial_id=str(number))
        point = searcher.suggest(trial.trial_id)
        scheduler.on_trial_add(None, trial)
        for at in milestones(surface):
            spent, before = spent + at - before, at
            result = {METRIC: curves.value(point, at), TIME: at, "training_iteration": at}
            action = scheduler.on_trial_result(None, trial, result)
            if action == TrialScheduler.STOP:
                break
            searcher.on_trial_result(trial.trial_id, result)
        searcher.on_trial_complete(trial.trial_id, result)
        scheduler.on_trial_complete(None, trial, result)
        if before == surface.budget:
            yield spent, point, result[METRIC]


def _axes(surface: Surface) -> dict[str, Any]:
    return {n: CategoricalDistribution(d.values) for n, d in surface.choices.items()}


SEARCHES: dict[str, Search] = {
    "sentune: TPE + ASHA": ours,
    "sentune: TPE + promotion": partial(ours, scheduler=AshaPromotion),
    "sentune: TPE + promotion, 1/27": partial(ours, scheduler=AshaPromotion, first=27),
    "sentune: TPE + Hyperband": partial(ours, scheduler=Hyperband),
    "sentune: GP + promotion": partial(ours, sampler="gp", scheduler=AshaPromotion),
    "sentune: random + ASHA": partial(ours, sampler="random"),
    "Optuna: TPE + HyperbandPruner": partial(optuna_pruned, sampler=TPESampler),
    "Optuna: GP + HyperbandPruner": partial(optuna_pruned, sampler=GPSampler),
    "Ray: OptunaSearch + ASHA": ray_asha,
}


def share_until_held(surface: Surface, search: Search, seed: int) -> float:
    """Return the share of the grid's examples spent until a good point was held; 1 if never."""
    random.seed(seed)
    np.random.seed(seed)
    best = -np.inf
    for spent, settings, value in search(surface, seed):
        if value > best:
            best = value
            if surface.good(settings):
                return min(1.0, spent / surface.grid)
    return 1.0


def main() -> None:
    """Prints a table for each surface."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="first rung: the budget over it")
    parser.add_argument("--only", nargs="*", default=[*SEARCHES], help="names of searches")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("ray").setLevel(logging.ERROR)
    for surface in (replace(surface, first=given.first) for surface in surfaces()):
        print(f"\n{surface.name}: {surface.space.size} points, {given.seeds} seeds")
        first: list[float] = []
        for name in given.only:
            found = [share_until_held(surface, SEARCHES[name], s) for s in range(given.seeds)]
            first = first or found
            low, high = interval(found)
            more = paired([100 * (a - b) for a, b in zip(found, first, strict=True)])
            print(
                f"{name:30} | {np.median(found):6.1%} ({low:.1%} to {high:.1%}) | {more}",
                flush=True,
            )


if __name__ == "__main__":
    main()
