"""How many examples a search spends until it holds the best cell of GaussCSE's Table 3.

    python benchmarks/search_quality.py [--seeds 50] [--trials 15]

The space is the grid of Table 3: five batch sizes, three learning rates. A cell's value at the end
is the paper's (area under the precision-recall curve on SNLI dev, mean of five seeds). Its curve is
``final - 0.05 ((examples / budget)^-0.5 - 1)``: 10 points below its end at a ninth of the budget,
3.7 at a third. A seed adds noise of one point (standard deviation 0.01), half of whose variance
lasts along the run and half is fresh at every milestone. No search is told the paper's best cell.

A search holds a cell while that is the best of its complete trials by what they measured, with
noise. Spent is counted in examples against those of the whole grid, 15 full runs. "Reached" is the
median over seeds of what was spent when the search first held the cell; a search that never does
counts as infinite. "At 25 %" is the share of seeds that hold it when a quarter is spent. The whole
grid at one seed a cell holds the best cell in 58 % of cases: what is left is the finals' to tell.

Curves: those above; all noise lasting; gaps that differ, so that curves cross; runs that over-fit,
falling evenly after a third of the budget to 6 or 15 points below the law; and curves that sink to
their end from above, so that a ninth of the budget is 10 points too good. The last line of a table
compares stopped trials told as PRUNED (ours) with those told as COMPLETE (Ray's), seed by seed: by
how many percent of the grid more Ray's way spends until the best cell is held, a seed that never
holds it counting as all that it spent; mean, 95 % confidence interval and p of Wilcoxon's
signed-rank test. ``stopped_trials.py`` does so on a space with more room.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from benchmarks.curves import PowerLaw
from benchmarks.simulate import Outcome, Told, open_simulated, simulate
from sentune.study.runner.trial_source import SearchSource
from sentune.study.schedulers import make_scheduler
from sentune.study.space.space import Choice, SearchSpace

# Sentence Representations via Gaussian Embedding, Table 3: batch size -> learning rate -> AUC.
TABLE_3 = {
    16: {1e-5: 0.6439, 3e-5: 0.6602, 5e-5: 0.6700},
    32: {1e-5: 0.6321, 3e-5: 0.6523, 5e-5: 0.6597},
    64: {1e-5: 0.6079, 3e-5: 0.6413, 5e-5: 0.6527},
    128: {1e-5: 0.5993, 3e-5: 0.6272, 5e-5: 0.6360},
    256: {1e-5: 0.5886, 3e-5: 0.6150, 5e-5: 0.6252},
}
BUDGET = 900_000
BEST = max(max(row.values()) for row in TABLE_3.values())
SPACE = SearchSpace(
    method="gauss",
    objective="rte/auc",
    settings={"batch_size": Choice(*TABLE_3), "learning_rate": Choice(1e-5, 3e-5, 5e-5)},
)
GRID = len(TABLE_3) * 3 * BUDGET


@dataclass(frozen=True, kw_only=True)
class Search:
    """A way of searching; ``prior``: the cell that is taken for a good one, which is not tried for
    that alone."""

    name: str
    sampler: str
    scheduler: str
    told: Told = Told.OURS
    prior: tuple[int, float] | None = None


SEARCHES = (
    Search(name="TPE + ASHA, stopped is PRUNED (ours)", sampler="tpe", scheduler="asha"),
    Search(
        name="TPE + ASHA, stopped is COMPLETE (Ray's)",
        sampler="tpe",
        scheduler="asha",
        told=Told.RAYS,
    ),
    Search(name="TPE at full budget", sampler="tpe", scheduler="none"),
    Search(name="random + ASHA", sampler="random", scheduler="asha"),
    Search(name="random at full budget", sampler="random", scheduler="none"),
    Search(name="TPE + Hyperband", sampler="tpe", scheduler="hyperband"),
    Search(name="TPE + median stopping", sampler="tpe", scheduler="median"),
    Search(
        name="PriorBand + ASHA, prior one cell off",
        sampler="priorband",
        scheduler="asha",
        prior=(32, 3e-5),
    ),
    Search(
        name="PriorBand + ASHA, prior the worst cell",
        sampler="priorband",
        scheduler="asha",
        prior=(256, 1e-5),
    ),
)


def final(settings: Mapping[str, Any]) -> float:
    """The paper's value of a cell."""
    return TABLE_3[settings["batch_size"]][settings["learning_rate"]]


def run(search: Search, seed: int, *, trials: int = 15, **shape: float) -> Outcome:
    """One search on the curves of one seed; ``shape``: other fields of ``PowerLaw``."""
    scheduler = make_scheduler(
        search.scheduler, first_rung=BUDGET // 9, eta=3, max_examples=BUDGET, mode="max", keep=1
    )
    space = SPACE
    if search.prior is not None:
        space = replace(SPACE, published=dict(zip(SPACE.settings, search.prior, strict=True)))
    store = open_simulated(space, scheduler)
    return simulate(
        store,
        SearchSource(store, space, trials=trials, seed=seed, sampler=search.sampler, first=False),
        PowerLaw(final=final, budget=BUDGET, seed=seed, **shape),
        told=search.told,
    )


def reached(outcome: Outcome, tolerance: float) -> float:
    """Share of the grid's examples until a cell within a tolerance of the best was held."""
    spent = outcome.spent_until(lambda settings: final(settings) >= BEST - tolerance)
    return math.inf if spent is None else spent / GRID


def held(outcome: Outcome, share: float, tolerance: float) -> bool:
    """Whether such a cell was held when a share of the grid's examples was spent."""
    found = outcome.best_after(int(share * GRID))
    return found is not None and final(found.settings) >= BEST - tolerance


def paired(differences: Sequence[float]) -> str:
    """Their mean with a 95 % confidence interval, and the p of Wilcoxon's signed-rank test."""
    found = np.asarray(differences)
    half = 1.96 * found.std(ddof=1) / len(found) ** 0.5
    p = wilcoxon(found).pvalue if found.any() else 1.0
    return (
        f"{found.mean():+.2f} ({found.mean() - half:+.2f} to {found.mean() + half:+.2f}), p {p:.2g}"
    )


def show(searches: tuple[Search, ...], seeds: int, trials: int, **shape: float) -> None:
    """One table."""
    print(f"{'':42}| the best cell           | within one point        | all")
    print(f"{'':42}| reached at 25 % at the end | reached at 25 %  | spent")
    spent_until = {}
    for search in searches:
        outcomes = [run(search, seed, trials=trials, **shape) for seed in range(seeds)]
        cells = []
        for tolerance in (0.0, 0.01):
            cells.append(f"{median(reached(o, tolerance) for o in outcomes):7.1%}")
            cells += [
                f"{sum(held(o, share, tolerance) for o in outcomes) / seeds:5.0%}"
                for share in (0.25, 1.0)
            ]
        spent = median(outcome.examples for outcome in outcomes) / GRID
        print(f"{search.name:42}| {'  '.join(cells)} | {spent:5.1%}", flush=True)
        spent_until[search.name] = [min(reached(o, 0.0), o.examples / GRID) for o in outcomes]
    ours, rays = (spent_until[search.name] for search in searches[:2])
    more = [100 * (ray - our) for our, ray in zip(ours, rays, strict=True)]
    print(f"percent of the grid that Ray's spends more: {paired(more)}")


def main() -> None:
    """Prints one table for each shape of the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--trials", type=int, default=15)
    given = parser.parse_args()
    for title, searches, shape in (
        ("noise of a point, half of it lasting", SEARCHES, {}),
        ("all noise lasts along a run", SEARCHES, {"lasting": 1.0}),
        ("curves cross: gaps that differ by a tenth", SEARCHES, {"unequal": 0.1}),
        ("curves cross: gaps that differ by a half", SEARCHES[:2], {"unequal": 0.5}),
        ("runs over-fit by six points", SEARCHES[:2], {"fall": 0.06}),
        ("runs over-fit by fifteen points", SEARCHES[:2], {"fall": 0.15}),
        ("curves sink by ten points: early values look good", SEARCHES[:2], {"gap": -0.05}),
    ):
        print(f"\n{title} ({given.seeds} seeds, {given.trials} trials)")
        show(searches, given.seeds, given.trials, **shape)


if __name__ == "__main__":
    main()
