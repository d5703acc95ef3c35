"""The exhaustive sweep of alpha_1, alpha_2, n, beta and the intersection on ambiguous entailment.

Legend: X = intersections, F = n's, A = allowed pairs of alphas, N = pairs, S = sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.geometry.boxes import Boxes
from sentune.readouts.grid import Grid
from sentune.readouts.sweep import Sweep
from sentune.readouts.three_way import best_beta, decide, macro_f1
from sentune.tasks.ambiguous_ranges import Floats, RangeFinder, Ranges, Rows
from sentune.tasks.parallel_map import ParallelMap

AXES = ("intersection", "references", "alpha_1", "alpha_2")
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, kw_only=True)
class AmbiguousSweepResult:
    """The sweep, and what the best combination gives.

    Attributes:
        predicted: [N] classes.
        of_sets: share of empty U, mean P(b | b), mean |U|, over the distinct sentences.
        coverage: intersection -> shares of sentences without a reference above each alpha, and
            quantiles of P(b | b), as JSON types.
    """

    sweep: Sweep
    predicted: Rows
    of_sets: tuple[float, float, float]
    coverage: dict[str, Any]


@dataclass(frozen=True)
class _Collected:
    """The ranges of all pairs under one intersection, in the order of the corpus.

    Attributes:
        low, high: [F, A, N] log P.
        members: [S, F, A], largest: [S], own: [S].
    """

    low: Floats
    high: Floats
    members: NDArray[np.int32]
    largest: Floats
    own: Floats


def sweep(
    metric: str,
    grids: Mapping[str, Grid],
    *,
    boxes: Boxes,
    sentences: Tensor,
    references: Tensor,
    pairs: tuple[Rows, Rows],
    sizes: tuple[int, ...],
    gold: Rows,
    spread: ParallelMap,
) -> AmbiguousSweepResult:
    """Macro F1 of every combination, and the best of them.

    Args:
        grids: of ``AXES`` and ``beta``; an empty one for ``beta`` finds it exactly.
        sentences, references: [S, D], [R, D] packed embeddings.
        pairs: rows of premises and of hypotheses in ``sentences``.
        sizes: references of each n of the grid.

    Raises:
        InvalidValue: no alpha_1 is below an alpha_2.
    """
    grid = list(product(range(len(grids["alpha_1"])), range(len(grids["alpha_2"]))))
    values = grids["alpha_1"], grids["alpha_2"]
    allowed = [(i, j) for i, j in grid if float(values[0][i]) < float(values[1][j])]
    if not allowed:
        raise InvalidValue("alpha_1", list(values[0]), f"one must be below alpha_2: {values[1]}")
    finder = RangeFinder(
        boxes=boxes,
        sentences=sentences,
        references=references,
        premises=pairs[0],
        hypotheses=pairs[1],
        sizes=sizes,
        alphas=tuple((float(values[0][i]), float(values[1][j])) for i, j in allowed),
    )
    found = _collect(finder, grids["intersection"], spread)
    table = _table(metric, grids, found, allowed, gold)
    return _at_best(table, found, allowed, finder)


def _collect(finder: RangeFinder, intersections: Grid, spread: ParallelMap) -> list[_Collected]:
    """One for each intersection; the blocks of all of them are spread together."""
    blocks = [finder.blocks(name) for name in intersections]  # type: ignore[arg-type]
    ranges = iter(spread(finder, [block for some in blocks for block in some]))
    found = []
    for some in blocks:
        collected = _empty(finder)
        for block in some:
            _put(collected, block.pairs, next(ranges))
        found.append(collected)
    return found


def _empty(finder: RangeFinder) -> _Collected:
    shape = (len(finder.sizes), len(finder.alphas))
    pairs, sentences = len(finder.premises), len(finder.sentences)
    dtype = np.float64 if finder.sentences.dtype == torch.float64 else np.float32
    low, high = (np.empty((*shape, pairs), dtype) for _ in range(2))
    largest, own = (np.zeros((sentences,), dtype) for _ in range(2))
    members = np.zeros((sentences, *shape), np.int32)
    return _Collected(low, high, members, largest, own)


def _put(into: _Collected, pairs: Rows, found: Ranges) -> None:
    into.low[..., pairs], into.high[..., pairs] = found.low, found.high
    into.members[found.sentences] = found.members
    into.largest[found.sentences], into.own[found.sentences] = found.largest, found.own


def _probabilities(logarithms: Floats) -> NDArray[np.float64]:
    """exp in float64, so that beta is compared with distinct numbers down to 1e-323."""
    return np.exp(logarithms.astype(np.float64))


def _table(
    metric: str,
    grids: Mapping[str, Grid],
    found: list[_Collected],
    allowed: list[tuple[int, int]],
    gold: Rows,
) -> Sweep:
    betas = grids["beta"]
    axes = {name: grids[name] for name in (*AXES, *(["beta"] if betas else []))}
    values = np.full([len(grid) for grid in axes.values()], np.nan)
    exact = np.full(values.shape, np.nan)
    first, second = (list(side) for side in zip(*allowed, strict=True))
    for x, n in np.ndindex(values.shape[:2]):
        low, high = _probabilities(found[x].low[n]), _probabilities(found[x].high[n])
        if betas:
            values[x, n, first, second] = macro_f1(low, high, gold, [float(b) for b in betas])
        else:
            best = best_beta(low, high, gold, limits=(0.0, 1.0))
            values[x, n, first, second] = best.macro_f1
            exact[x, n, first, second] = best.beta
    return Sweep(metric=metric, axes=axes, values=values, exact={} if betas else {"beta": exact})


def _at_best(
    table: Sweep, found: list[_Collected], allowed: list[tuple[int, int]], finder: RangeFinder
) -> AmbiguousSweepResult:
    x, n, *alphas = table.place[:4]
    best, pair = found[x], allowed.index((alphas[0], alphas[1]))
    low, high = _probabilities(best.low[n, pair]), _probabilities(best.high[n, pair])
    members = best.members[:, n, pair]
    names = table.axes["intersection"]
    return AmbiguousSweepResult(
        sweep=table,
        predicted=decide(low, high, float(table.chosen["beta"])),
        of_sets=(
            float(np.mean(members == 0)),
            float(best.own.mean(dtype=np.float64)),
            float(members.mean()),
        ),
        coverage={str(k): _coverage(c, finder) for k, c in zip(names, found, strict=True)},
    )


def _coverage(found: _Collected, finder: RangeFinder) -> dict[str, Any]:
    alphas = [alpha for alpha in finder.cells.edges.tolist() if alpha >= finder.smallest_alpha]
    dtype = found.largest.dtype.type  # as ``Cells`` rounds the alphas
    uncovered = [float(np.mean(found.largest <= dtype(alpha))) for alpha in alphas]
    quantiles = np.quantile(found.own, QUANTILES).tolist()
    return {
        "alphas": alphas,
        "without_reference": uncovered,
        "self_probability": {"quantiles": list(QUANTILES), "values": quantiles},
    }
