"""How many examples a search spends until it holds the best point of a surface.

    python -m benchmarks.search_quality [--seeds 50] [--shapes]

Replays Table 3 of GaussCSE and the recorded surfaces (``record_surface.py``) through sentune's
store, samplers and schedulers. A cell's value at the end is the paper's (area under the
precision-recall curve on SNLI dev, mean of five seeds), its curve
``final - 0.05 ((examples / budget)^-0.5 - 1)``: 10 points below its end at a ninth of the budget,
3.7 at a third. A seed adds noise of one point (standard deviation 0.01), half of whose variance
lasts along the run and half is fresh at every milestone. No search is told the best point.

A search holds a point while that is the best of its complete trials by what they measured, with
noise; of a recorded surface every point within half a point of the best one is good enough. Spent
is counted in examples as a share of the grid's. "Reached" is the median over seeds of what was
spent when the search first held the best point, with its 95 % interval; a search that never does
counts as the whole grid. "Held" is the share of seeds that hold it when a quarter of the grid is
spent, and at the end; "points below" by how many points the end of what is held then lies below the
best, without noise, in the mean. The whole grid at one seed a cell holds the best cell of Table 3
in 58 % of cases: what is left is the finals' to tell. "More" is, seed by seed, what a search spends
more than the first until it holds the point, in percent of the grid, one that never does counting
as all that it spent, and how many points more it is below at a quarter: means with their 95 %
interval, p of Wilcoxon's signed-rank test.

``--shapes`` replays Table 3 with other curves: all noise lasting; gaps that differ, so that curves
cross; runs that over-fit, falling evenly after a third of the budget by 6 or 15 points; and curves
that sink to their end from above, so that a ninth of the budget is 10 points too good.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.simulate import Outcome, Told, open_simulated, simulate
from benchmarks.surfaces import BUDGET, ETA, Surface, interval, paired, surfaces, table_3
from sentune.study.runner.trial_source import SearchSource
from sentune.study.schedulers import KINDS, AshaPromotion, Curves, Halving, Scheduler


class Extrapolated(Halving):
    """Successive halving by the end that two milestones of a power law of rate 0.5 foretell."""

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        ends = {n: {examples: self._end(c, examples)} for n, c in curves.items() if examples in c}
        return super().verdict(ends, trial, examples)

    def _end(self, curve: Mapping[int, float], examples: int) -> float:
        now, before = curve[examples], examples // self.eta
        if before not in curve:
            return now
        gaps = [(at / self.max_examples) ** -0.5 for at in (before, examples)]
        return now + (now - curve[before]) * (gaps[1] - 1) / (gaps[0] - gaps[1])


@dataclass(frozen=True, kw_only=True)
class Search:
    """A way of searching; ``prior``: the cell that is taken for a good one, which is not tried for
    that alone; ``first``: of its surface, unless 0."""

    name: str
    sampler: str = "tpe"
    scheduler: type[Scheduler] = Halving
    told: Told = Told.OURS
    prior: tuple[int, float] | None = None
    first: int = 0


OURS = Search(name="TPE + ASHA")
RAYS = replace(OURS, name="  and tells stopped as COMPLETE (Ray's)", told=Told.RAYS)
PROMOTION = Search(name="TPE + ASHA by promotion (default)", scheduler=AshaPromotion)
RANDOM = Search(name="random + ASHA", sampler="random")
SEARCHES = (
    OURS,
    RAYS,
    Search(name="  and extrapolates its curves", scheduler=Extrapolated),
    replace(OURS, name="  first rung at 1/27", first=27),
    PROMOTION,
    replace(PROMOTION, name="  first rung at 1/27", first=27),
    replace(PROMOTION, name="GP + ASHA by promotion (MOBSTER's way)", sampler="gp"),
    RANDOM,
    replace(PROMOTION, name="random + ASHA by promotion", sampler="random"),
    Search(name="TPE + Hyperband", scheduler=KINDS["hyperband"]),
    Search(name="TPE at full budget", scheduler=Scheduler),
)
EXTRAS = (
    Search(name="TPE + median stopping", scheduler=KINDS["median"]),
    Search(name="PriorBand, prior one cell off", sampler="priorband", prior=(32, 3e-5)),
    Search(name="PriorBand, prior the worst cell", sampler="priorband", prior=(256, 1e-5)),
)


def run(search: Search, seed: int, surface: Surface | None = None) -> Outcome:
    """One search on the curves of one seed, of as many trials as the surface has points."""
    surface = surface or table_3()
    rung = replace(surface, first=search.first or surface.first).first_rung
    scheduler = search.scheduler(first_rung=rung, eta=ETA, max_examples=surface.budget)
    space = surface.space
    if search.prior is not None:
        space = replace(space, published=dict(zip(space.settings, search.prior, strict=True)))
    store = open_simulated(space, scheduler)
    source = SearchSource(
        store, space, trials=space.size or 0, seed=seed, sampler=search.sampler, first=False
    )
    return simulate(store, source, surface.curves(seed), told=search.told, until=surface.grid)


def reached(outcome: Outcome, surface: Surface | None = None) -> float:
    """Share of the grid's examples until a good point was held; infinite if it never was."""
    surface = surface or table_3()
    spent = outcome.spent_until(surface.good)
    return math.inf if spent is None else spent / surface.grid


def best_after(outcome: Outcome, share: float, surface: Surface) -> Mapping[str, Any]:
    """Settings of the best complete trial when a share of the grid's examples was spent."""
    found = outcome.best_after(int(share * surface.grid)) or outcome.incumbents[0]
    return found.settings


def show(surface: Surface, searches: tuple[Search, ...], seeds: int) -> None:
    """One table."""
    print(f"\n{surface.name}: {surface.space.size} points, {seeds} seeds")
    heads = f"{'reached':24} | held at 25 %, end | points below | spent"
    print(f"{'':40}| {heads} | more: spent; points below")
    first: tuple[list[float], list[float]] | None = None
    for search in searches:
        outcomes = [run(search, seed, surface) for seed in range(seeds)]
        found = [min(1.0, reached(outcome, surface)) for outcome in outcomes]
        low, high = interval(found)
        median = f"{np.median(found):6.1%} ({low:.1%} to {high:.1%})"
        points = [[best_after(o, share, surface) for o in outcomes] for share in (0.25, 1.0)]
        held = " ".join(f"{np.mean([*map(surface.good, each)]):8.0%}" for each in points)
        below = [[100 * surface.loss(point) for point in each] for each in points]
        lost = " ".join(f"{np.mean(each):5.2f}" for each in below)
        spent = [o.examples / surface.grid for o in outcomes]
        until = [100 * min(*both) for both in zip(found, spent, strict=True)]
        first = first or (until, below[0])
        more = [
            paired([a - b for a, b in zip(own, default, strict=True)])
            for own, default in zip((until, below[0]), first, strict=True)
        ]
        costs = f"{held} | {lost:12} | {np.mean(spent):5.1%} | {'; '.join(more)}"
        print(f"{search.name:40}| {median:24} | {costs}", flush=True)


def main() -> None:
    """Prints a table for each surface, or for each shape of the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--surface", help="one of them, by its name")
    given = parser.parse_args()
    shapes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("all noise lasts along a run", {"lasting": 1.0}),
        ("curves cross: gaps that differ by a tenth", {"unequal": 0.1}),
        ("curves cross: gaps that differ by a half", {"unequal": 0.5}),
        ("runs over-fit by six points", {"fall": 0.06}),
        ("runs over-fit by fifteen points", {"fall": 0.15}),
        ("curves sink by ten points: early values look good", {"gap": -0.05}),
    )
    if given.shapes:
        for title, shape in shapes:
            show(table_3(title, **shape), (OURS, PROMOTION, RAYS), given.seeds)
        return
    for surface in surfaces():
        if given.surface not in (None, surface.name):
            continue
        more = EXTRAS if surface.budget == BUDGET else ()  # not for curves at recorded rungs alone
        show(surface, (*SEARCHES, *more), given.seeds)


if __name__ == "__main__":
    main()
