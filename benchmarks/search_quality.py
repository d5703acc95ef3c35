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

What stopped trials are told as makes no difference there: TPE asks which tenth is best, and curves
that rise keep their order. The second table has room for it: temperature, contradiction weight,
pooling and warm-up beside the cells, each with a stated loss, and runs that over-fit after the
first third of the budget. It shows by how many points what a search holds is worse than the best
there is, on average, after the examples of 5, 10 and 20 full runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from sentune.search.curves import PowerLaw
from sentune.search.sampling import make_sampler
from sentune.search.schedulers import make_scheduler
from sentune.search.simulate import Outcome, open_simulated, simulate
from sentune.search.source import SearchSource
from sentune.search.space import Choice, SearchSpace, Uniform

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
GRID = len(TABLE_3) * 3 * BUDGET


@dataclass(frozen=True, kw_only=True)
class Search:
    """A way of searching."""

    name: str
    sampler: str
    scheduler: str
    all_complete: bool = False


SEARCHES = (
    Search(name="TPE + ASHA, stopped is PRUNED (ours)", sampler="tpe", scheduler="asha"),
    Search(
        name="TPE + ASHA, stopped is COMPLETE (Ray's)",
        sampler="tpe",
        scheduler="asha",
        all_complete=True,
    ),
    Search(name="TPE at full budget", sampler="tpe", scheduler="none"),
    Search(name="random + ASHA", sampler="random", scheduler="asha"),
    Search(name="random at full budget", sampler="random", scheduler="none"),
    Search(name="TPE + Hyperband", sampler="tpe", scheduler="hyperband"),
    Search(name="TPE + median stopping", sampler="tpe", scheduler="median"),
)


def final(settings: Mapping[str, Any]) -> float:
    """The paper's value of a cell."""
    return TABLE_3[settings["batch_size"]][settings["learning_rate"]]


def wide_final(settings: Mapping[str, Any]) -> float:
    """A cell's value less what the further settings cost; nothing at their best."""
    temperature = math.log10(settings["temperature"] / 0.05)
    weight = math.log10(settings["contradiction_weight"] / 3)
    lost = 0.02 * temperature**2 + 0.02 * weight**2 + 0.3 * (settings["warmup"] - 0.1) ** 2
    return final(settings) - lost - (0.01 if settings["pooling"] == "mean" else 0.0)


def run(
    search: Search,
    seed: int,
    *,
    trials: int = 15,
    space: SearchSpace = SPACE,
    until: int | None = None,
    **shape: float,
) -> Outcome:
    """One search on the curves of one seed; ``shape``: other fields of ``PowerLaw``."""
    scheduler = make_scheduler(
        search.scheduler, first_rung=BUDGET // 9, eta=3, max_examples=BUDGET, mode="max", keep=1
    )
    sampler = make_sampler(search.sampler, space, trials=trials, seed=seed)
    ledger = open_simulated(space, sampler, scheduler)
    return simulate(
        ledger,
        SearchSource(ledger, space, trials=trials, seed=seed, first=False),
        PowerLaw(final=final if space is SPACE else wide_final, budget=BUDGET, seed=seed, **shape),
        all_complete=search.all_complete,
        until=until,
    )


def reached(outcome: Outcome, tolerance: float) -> float:
    """Share of the grid's examples until a cell within a tolerance of the best was held."""
    spent = outcome.spent_until(lambda settings: final(settings) >= BEST - tolerance)
    return math.inf if spent is None else spent / GRID


def held(outcome: Outcome, share: float, tolerance: float) -> bool:
    """Whether such a cell was held when a share of the grid's examples was spent."""
    found = outcome.best_after(int(share * GRID))
    return found is not None and final(found.settings) >= BEST - tolerance


def show(searches: tuple[Search, ...], seeds: int, trials: int, **shape: float) -> None:
    """One table."""
    print(f"{'':42}| the best cell           | within one point        | all")
    print(f"{'':42}| reached at 25 % at the end | reached at 25 %  | spent")
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
        print(f"{search.name:42}| {'  '.join(cells)} | {spent:5.1%}")


def show_wide(searches: tuple[Search, ...], seeds: int, **shape: float) -> None:
    """One table of the wide space."""
    runs = (5, 10, 20)
    print(f"{'points below the best, after full runs:':42}|" + "".join(f"{n:7}" for n in runs))
    for search in searches:
        outcomes = [
            run(search, seed, trials=60, space=WIDE, until=runs[-1] * BUDGET, **shape)
            for seed in range(seeds)
        ]
        losses = []
        for number in runs:
            held_ones = [outcome.best_after(number * BUDGET) for outcome in outcomes]
            known = [BEST - wide_final(found.settings) for found in held_ones if found is not None]
            losses.append(f"{100 * fmean(known):7.2f}")
        print(f"{search.name:42}|{''.join(losses)}")


def main() -> None:
    """Prints one table for each shape of the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--trials", type=int, default=15)
    given = parser.parse_args()
    for title, shape in (
        ("noise of a point, half of it lasting", {}),
        ("all noise lasts along a run", {"lasting": 1.0}),
        ("curves cross: unequal gaps, a point apart at the first rung", {"unequal": 0.1}),
    ):
        print(f"\n{title} ({given.seeds} seeds, {given.trials} trials)")
        show(SEARCHES, given.seeds, given.trials, **shape)
    for title, shape in (
        ("wide space, curves that rise", {}),
        ("wide space, six points of over-fitting", {"fall": 0.06}),
        ("wide space, fifteen points of over-fitting", {"fall": 0.15}),
    ):
        print(f"\n{title} ({given.seeds} seeds, 60 trials)")
        show_wide(SEARCHES[:5], given.seeds, **shape)


if __name__ == "__main__":
    main()
