"""The whole sweep of alpha_1, alpha_2, beta and n against one evaluation, and against the loop.

python benchmarks/alpha_sweep.py
"""

from __future__ import annotations

import time
from functools import partial
from itertools import product

import numpy as np
import torch
from measure import Work, measure_all, options, report, time_ratio
from torch import Tensor

from sentune.geometry import Boxes
from sentune.readouts.grid import Grid
from sentune.tasks.ambiguous_sweep import AmbiguousSweepResult, RangeFinder, sweep

ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
BETAS = 1000
SHARES = (0.025, 0.05, 0.25, 0.5, 1.0)
LOOP, SWEEP, ONCE = "one evaluation each", "whole sweep", "one evaluation"
LOOPED = 6


def embeddings(pairs: int, references: int, width: int) -> tuple[Tensor, Tensor]:
    """Sentences a little off references' cluster centres, as paraphrases are; packed."""
    torch.manual_seed(0)
    centers = torch.randn(8, width)

    def near(count: int, scale: Tensor, side: float) -> Tensor:
        chosen = centers[torch.randint(0, len(centers), (count,))]
        center = chosen + torch.randn(count, width) * scale
        return torch.cat([center, torch.randn(count, width) * 0.2 + side], dim=1)

    return (
        near(2 * pairs, torch.tensor(0.05), 0.6),
        near(references, 0.8 * torch.rand(references, 1), 1.0),
    )


def work(whole: bool, pairs: int, references: int, width: int, temperature: float) -> Work:
    sentences, others = embeddings(pairs, references, width)
    grids: dict[str, Grid] = {"intersection": ("gumbel",)}
    if whole:
        betas = tuple(i / BETAS for i in range(BETAS))
        grids |= {"alpha_1": ALPHAS[:-1], "alpha_2": ALPHAS[1:], "beta": betas}
        sizes = tuple(max(1, int(share * references)) for share in SHARES)
    else:
        grids |= {"alpha_1": ALPHAS[:1], "alpha_2": ALPHAS[-1:], "beta": (0.5,)}
        sizes = (references,)
    return swept(sentences, others, temperature, grids, sizes)


def swept(
    sentences: Tensor,
    references: Tensor,
    temperature: float,
    grids: dict[str, Grid],
    sizes: tuple[int, ...],
) -> Work:
    """The sweep of some grids and numbers of references; premises come before hypotheses."""
    rows, pairs = np.arange(len(sentences)), len(sentences) // 2
    finder = RangeFinder(
        boxes=Boxes(temperature),
        sentences=sentences,
        references=references,
        premises=rows[:pairs],
        hypotheses=rows[pairs:],
        sizes=sizes,
        grids=grids | {"references": sizes},
    )
    return partial(sweep, "ambiguous-rte/macro_f1", finder, rows[:pairs] % 3, np.ones(3), map)


def loop(pairs: int, references: int, width: int, temperature: float) -> tuple[float, int]:
    """Seconds of all combinations one by one, extrapolated from some of them, and how many."""
    sentences, others = embeddings(pairs, references, width)
    alphas = [(a, b) for a, b in product(ALPHAS, ALPHAS) if a < b]
    combinations = list(product(alphas, SHARES))
    timed = combinations[:: len(combinations) // LOOPED]
    start = time.perf_counter()
    for (alpha_1, alpha_2), share in timed:
        size = max(1, int(share * references))
        grids: dict[str, Grid] = {"intersection": ("gumbel",), "beta": (0.5,)}
        grids |= {"alpha_1": (alpha_1,), "alpha_2": (alpha_2,)}
        swept(sentences, others[:size], temperature, grids, (size,))()
    seconds = time.perf_counter() - start
    return seconds / len(timed) * len(combinations) * BETAS, len(combinations) * BETAS


def main() -> None:
    o = options(__doc__, pairs=6, references=60_000, dimensions=16, temperature=0.02, repeats=3)
    size = (o.pairs, o.references, o.dimensions, o.temperature)
    torch.set_num_threads(o.threads)
    found = work(False, *size)()
    assert isinstance(found, AmbiguousSweepResult)
    mean, empty = found.of_sets["references_per_sentence"], found.of_sets["empty_sets"]
    print(f"mean |U| {mean:.0f}, empty {empty:.2f} at alphas 0.5 and 1.0")
    ways = {SWEEP: partial(work, True, *size), ONCE: partial(work, False, *size)}
    rows = measure_all(ways, repeats=o.repeats, threads=o.threads)
    title = f"Ambiguous entailment, {o.pairs} pairs, {o.references} references, 75,000 combinations"
    report(f"{title}, d = {o.dimensions}", rows, o.threads)
    ratio = time_ratio(ways[SWEEP](), ways[ONCE](), o.repeats)
    print(f"{SWEEP} against {ONCE}, calls alternating: {ratio:.2f}")
    seconds, count = loop(*size)
    print(
        f"{LOOP}: {seconds:.0f} s, extrapolated from {LOOPED} of {count} combinations: "
        f"{seconds / rows[0][1].seconds:.0f} times the sweep"
    )


if __name__ == "__main__":
    main()
