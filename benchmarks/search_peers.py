"""What searches spend until they hold the best point of a surface, sentune's beside its peers'.

    python -m benchmarks.search_peers [--seeds 50] [--surface FILE ...]

Every search replays the same curves: GaussCSE's Table 3 by the law of ``search_quality.py``, whose
noise is drawn anew for each seed, and recorded surfaces (``record_surface.py``), on which a seed
changes the search alone. A search holds a point while that is the best of its complete trials by
what they measured at their end. Spent is counted in examples, as a share of the whole grid's; the
best of a recorded surface is every point within ``NEAR`` of its best one, about what a seed moves.
No search is told the best point or starts from it. A search ends when it has spent the grid's
examples, and one that has not held the best by then counts as all of them.

Peers by their public classes: Optuna's TPE with its HyperbandPruner; Ray's OptunaSearch with its
AsyncHyperBandScheduler, called as Tune's controller calls them, one trial at a time; Syne Tune's
MOBSTER where it is installed. Shown are the median with its 95 % interval (order statistics), and
the mean of the paired difference to the first search with its 95 % interval.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution
from scipy.stats import binom

from benchmarks.curves import Curves, PowerLaw, Recorded
from benchmarks.search_quality import BEST, BUDGET, final, paired
from benchmarks.search_quality import SPACE as TABLE_3
from benchmarks.simulate import open_simulated, simulate
from sentune.study.runner.trial_source import SearchSource
from sentune.study.schedulers import make_scheduler
from sentune.study.space.space import Choice, SearchSpace

NEAR = 0.005
ETA, METRIC, TIME = 3, "value", "examples"


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A grid, its curves by the seed of a search, and which points are good enough."""

    name: str
    space: SearchSpace
    budget: int
    curves: Callable[[int], Curves]
    good: Callable[[Mapping[str, Any]], bool]

    @property
    def grid(self) -> int:
        """Examples of all of its points."""
        return self.budget * (self.space.size or 0)

    @property
    def milestones(self) -> tuple[int, ...]:
        return (self.budget // ETA**2, self.budget // ETA, self.budget)


Step = tuple[int, Mapping[str, Any], float]
"""Examples spent when a trial was complete, its settings and its value."""
Search = Callable[[Surface, int], Iterator[Step]]


def ours(surface: Surface, seed: int, *, sampler: str, scheduler: str = "asha") -> Iterator[Step]:
    """Run sentune's source, store and scheduler."""
    rungs = make_scheduler(
        scheduler,
        first_rung=surface.milestones[0],
        eta=ETA,
        max_examples=surface.budget,
        mode="max",
        keep=1,
    )
    store = open_simulated(surface.space, rungs)
    trials = surface.space.size or 0
    source = SearchSource(
        store, surface.space, trials=trials, seed=seed, sampler=sampler, first=False
    )
    outcome = simulate(store, source, surface.curves(seed), until=surface.grid)
    for held in outcome.incumbents:
        yield held.examples, held.settings, held.value


def optuna_hyperband(surface: Surface, seed: int) -> Iterator[Step]:
    """Run Optuna's TPE with its own Hyperband pruner."""
    first, *_ = surface.milestones
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.HyperbandPruner(first, surface.budget, ETA),
    )
    axes = _axes(surface)
    curves, spent = surface.curves(seed), 0
    while spent < surface.grid:
        trial, before = study.ask(axes), 0
        for at in surface.milestones:
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
        grace_period=surface.milestones[0],
        max_t=surface.budget,
        reduction_factor=ETA,
    )
    curves, spent, number = surface.curves(seed), 0, 0
    while spent < surface.grid:
        number, before = number + 1, 0
        trial = SimpleNamespace(trial_id=str(number))
        point = searcher.suggest(trial.trial_id)
        scheduler.on_trial_add(None, trial)
        for at in surface.milestones:
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


def mobster(surface: Surface, seed: int) -> Iterator[Step]:
    """Run Syne Tune's MOBSTER, whose decisions are STOP and CONTINUE here."""
    from syne_tune.backend.trial_status import Trial
    from syne_tune.config_space import choice
    from syne_tune.optimizer.baselines import MOBSTER

    space: dict[str, Any] = {n: choice([*d.values]) for n, d in _choices(surface).items()}
    scheduler = MOBSTER(
        {**space, "limit": surface.budget},
        metric=METRIC,
        mode="max",
        type="stopping",
        resource_attr=TIME,
        max_resource_attr="limit",
        grace_period=surface.milestones[0],
        reduction_factor=ETA,
        random_seed=seed,
    )
    curves, spent, number = surface.curves(seed), 0, 0
    while spent < surface.grid:
        asked = scheduler.suggest(number)
        point = {name: asked.config[name] for name in space}
        trial, before, decision = Trial(number, asked.config, None), 0, "CONTINUE"
        scheduler.on_trial_add(trial)
        for at in surface.milestones:
            spent, before = spent + at - before, at
            result = {METRIC: curves.value(point, at), TIME: at}
            if at < surface.budget:
                decision = scheduler.on_trial_result(trial, result)
            if decision == "STOP":
                break
        else:
            scheduler.on_trial_complete(trial, result)
            yield spent, point, result[METRIC]
        number += 1


def _choices(surface: Surface) -> dict[str, Choice]:
    return {n: d for n, d in surface.space.settings.items() if isinstance(d, Choice)}


def _axes(surface: Surface) -> dict[str, Any]:
    return {n: CategoricalDistribution(d.values) for n, d in _choices(surface).items()}


SEARCHES: dict[str, Search] = {
    "sentune: TPE + ASHA": partial(ours, sampler="tpe"),
    "sentune: GP + ASHA": partial(ours, sampler="gp"),
    "sentune: random + ASHA": partial(ours, sampler="random"),
    "Optuna: TPE + HyperbandPruner": optuna_hyperband,
    "Ray: OptunaSearch + ASHA": ray_asha,
    "Syne Tune: MOBSTER": mobster,
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


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median by order statistics."""
    ordered, low = sorted(values), int(binom.ppf(0.025, len(values), 0.5))
    return ordered[max(0, low - 1)], ordered[min(len(values) - 1, len(values) - low)]


def table_3() -> Surface:
    """Return GaussCSE's Table 3."""
    return Surface(
        name="GaussCSE, Table 3",
        space=TABLE_3,
        budget=BUDGET,
        curves=lambda seed: PowerLaw(final=final, budget=BUDGET, seed=seed),
        good=lambda settings: final(settings) >= BEST,
    )


def recorded(file: Path) -> Surface:
    """Return a surface that ``record_surface.py`` has written."""
    content = json.loads(gzip.decompress(file.read_bytes()))
    curves = {
        point: {int(at): value for at, value in curve.items()}
        for point, curve in content["curves"].items()
    }
    points = [json.loads(point) for point in curves]
    axes = {name: sorted({point[name] for point in points}) for name in points[0]}
    held, budget = Recorded(points=curves), content["budget"]
    best = max(curve[budget] for curve in curves.values())
    return Surface(
        name=file.name.removesuffix(".json.gz"),
        space=replace(TABLE_3, settings={name: Choice(*axis) for name, axis in axes.items()}),
        budget=budget,
        curves=lambda _: held,
        good=lambda settings: held.value(settings, budget) >= best - NEAR,
    )


def main() -> None:
    """Prints a table for each surface."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--surface", type=Path, nargs="*", default=[])
    parser.add_argument("--only", nargs="*", default=[*SEARCHES], help="names of searches")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("ray").setLevel(logging.ERROR)
    for surface in (table_3(), *map(recorded, given.surface)):
        print(f"\n{surface.name}: {surface.space.size} points, {given.seeds} seeds")
        first: list[float] = []
        for name in given.only:
            if SEARCHES[name] is mobster and find_spec("syne_tune") is None:
                print(f"{name:30} | not installed: skipped")
                continue
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
