"""Exhaustive sweep of alpha_1, alpha_2, n, beta and the intersection on ambiguous entailment.

The ranges of P over the interpretations of sentence pairs (GumbelCSE Eq. 13 and 14) are computed
in blocks of pairs; macro F1 is computed from the ranges.

Legend: N = pairs, S = sentences, R = references, D = packed width, F = values of n (prefixes of
the references), A = allowed pairs of alphas, X = intersections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.beats import beat
from sentune.geometry.boxes import Boxes
from sentune.geometry.interpretations.coverage import Kept, covered
from sentune.geometry.interpretations.extremes import Interpretations, extremes
from sentune.geometry.interpretations.groups import Groups
from sentune.readouts.cells import Cells
from sentune.readouts.grid import Grid
from sentune.readouts.sweep import Sweep
from sentune.readouts.three_way import best_beta, class_metrics, decide, macro_f1
from sentune.tasks.base import ParallelMap
from sentune.tasks.references import AXES, allowed_alphas

Rows = NDArray[np.int64]
Floats = NDArray[np.float32] | NDArray[np.float64]
OF_SETS = ("empty_sets", "self_probability", "references_per_sentence")
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_EMPTY = 0.5
"""Largest share of sentences without a reference of a combination that may be chosen. Above it most
pairs are classified by their own two boxes, which never gives ``both``."""

KEPT = 2**24
"""Largest number of (sentence, reference) pairs in a block, 12 bytes each."""
TABLE = 2**21
"""Largest number of entries in a block's table by groups."""
LARGEST_BLOCK = 256
"""Largest number of pairs in a block."""


@dataclass(frozen=True, kw_only=True)
class AmbiguousSweepResult:
    """The sweep and the results of its best combination.

    Attributes:
        predicted: classes of the best combination, [N].
        of_sets: ``OF_SETS`` -> share of empty U, mean P(b | b), mean |U| of distinct sentences.
        coverage: intersection -> shares of sentences without a reference above each alpha, and
            quantiles of P(b | b), in JSON types.
        by_alpha_1: best combination of each alpha_1: readouts, ``empty_sets``, unweighted
            ``class_metrics``, and ``swept``, the value of the sweep's metric.
    """

    sweep: Sweep
    predicted: Rows
    of_sets: dict[str, float]
    coverage: dict[str, Any]
    by_alpha_1: list[dict[str, Any]]


def sweep(
    metric: str,
    finder: RangeFinder,
    gold: Rows,
    weights: NDArray[np.float64],
    spread: ParallelMap,
) -> AmbiguousSweepResult:
    """Return the macro F1 of every combination, and the best with few enough empty sets.

    Args:
        metric: name of the metric in the sweep.
        finder: computes the ranges of blocks of pairs.
        gold: classes, [N].
        weights: weight of a pair of each class in the macro F1, [3].
        spread: maps the finder over blocks of pairs.

    Raises:
        InvalidValue: no alpha_1 is below an alpha_2.
    """
    found = _collect(finder, spread)
    table = _table(metric, finder, found, gold, weights)
    predicted, of_sets = _applied(table, finder, found)
    names = table.axes["intersection"]
    return AmbiguousSweepResult(
        sweep=table,
        predicted=predicted,
        of_sets=of_sets,
        coverage={str(k): _coverage(c, finder) for k, c in zip(names, found, strict=True)},
        by_alpha_1=list(_by_alpha_1(table, finder, found, gold)),
    )


def _applied(
    table: Sweep, finder: RangeFinder, found: list[Ranges]
) -> tuple[Rows, dict[str, float]]:
    """Return the classes predicted by the best combination, [N], and its ``OF_SETS``."""
    x, n, *alphas = table.place[:4]
    best, pair = found[x], finder.allowed.index((alphas[0], alphas[1]))
    low, high = _probabilities(best.low[n, pair]), _probabilities(best.high[n, pair])
    members = best.members[:, n, pair]
    means = np.mean(members == 0), best.own.mean(dtype=np.float64), members.mean()
    of_sets = dict(zip(OF_SETS, map(float, means), strict=True))
    return decide(low, high, float(table.chosen["beta"])), of_sets


def _by_alpha_1(
    table: Sweep, finder: RangeFinder, found: list[Ranges], gold: Rows
) -> Iterator[dict[str, Any]]:
    for place in range(len(table.axes["alpha_1"])):
        values = np.full_like(table.values, np.nan)
        values[:, :, place] = table.values[:, :, place]
        if np.isfinite(values).any():
            part = replace(table, values=values)
            predicted, of_sets = _applied(part, finder, found)
            empty = {"empty_sets": of_sets["empty_sets"]}
            yield part.chosen | empty | class_metrics(gold, predicted) | {"swept": part.best}


def _collect(finder: RangeFinder, spread: ParallelMap) -> list[Ranges]:
    """Return the ranges of all pairs for each intersection, from one ``spread`` over all blocks."""
    blocks = [finder.blocks(name) for name in finder.grids["intersection"]]  # type: ignore[arg-type]
    parts = iter(spread(finder, [block for some in blocks for block in some]))
    shape = (len(finder.sizes), len(finder.alphas))
    pairs, sentences = len(finder.premises), len(finder.sentences)
    dtype: Any = np.float64 if finder.sentences.dtype == torch.float64 else np.float32
    found = []
    for some in blocks:
        whole = Ranges(
            low=np.empty((*shape, pairs), dtype),
            high=np.empty((*shape, pairs), dtype),
            sentences=np.arange(sentences),
            members=np.zeros((sentences, *shape), np.int32),
            largest=np.zeros(sentences, dtype),
            own=np.zeros(sentences, dtype),
        )
        for block in some:
            beat()
            part: Ranges = next(parts)
            whole.low[..., block.pairs], whole.high[..., block.pairs] = part.low, part.high
            whole.members[part.sentences] = part.members
            whole.largest[part.sentences], whole.own[part.sentences] = part.largest, part.own
        found.append(whole)
    return found


def _probabilities(logarithms: Floats) -> NDArray[np.float64]:
    """Return the exponentials in float64, which are distinct down to 1e-323."""
    return np.exp(logarithms.astype(np.float64))


def _table(
    metric: str,
    finder: RangeFinder,
    found: list[Ranges],
    gold: Rows,
    weights: NDArray[np.float64],
) -> Sweep:
    grids, betas = finder.grids, finder.grids["beta"]
    empty = np.stack([(ranges.members == 0).mean(axis=0) for ranges in found])  # [X, F, A]
    axes = {name: grids[name] for name in (*AXES, *(["beta"] if betas else []))}
    values = np.full([len(grid) for grid in axes.values()], np.nan)
    exact = np.full(values.shape, np.nan)
    barred = np.zeros(values.shape[:4], bool)
    first, second = (list(side) for side in zip(*finder.allowed, strict=True))
    barred[:, :, first, second] = empty > MOST_EMPTY
    for x, n in np.ndindex(values.shape[:2]):
        low, high = _probabilities(found[x].low[n]), _probabilities(found[x].high[n])
        if betas:
            scores = macro_f1(low, high, gold, [float(b) for b in betas], weights)
            values[x, n, first, second] = scores
        else:
            best = best_beta(low, high, gold, (0.0, 1.0), weights)
            values[x, n, first, second] = best.macro_f1
            exact[x, n, first, second] = best.beta
    return Sweep(
        metric=metric,
        axes=axes,
        values=values,
        exact={} if betas else {"beta": exact},
        barred=barred[..., None] if betas else barred,
    )


def _coverage(found: Ranges, finder: RangeFinder) -> dict[str, Any]:
    alphas = finder.cells.edges.tolist()
    dtype = found.largest.dtype.type  # ``Cells`` rounds the alphas to it
    uncovered = [float(np.mean(found.largest <= dtype(alpha))) for alpha in alphas]
    quantiles = np.quantile(found.own, QUANTILES).tolist()
    return {
        "alphas": alphas,
        "without_reference": uncovered,
        "self_probability": {"quantiles": list(QUANTILES), "values": quantiles},
    }


@dataclass(frozen=True)
class Block:
    """Rows of some pairs, to be compared with one intersection."""

    intersection: Literal["gumbel", "hard"]
    pairs: Rows


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """Ranges of log P of a block of pairs or of all pairs.

    Attributes:
        low, high: smallest and largest log P over U_p x U_h, [F, A, pairs], in the dtype of the
            embeddings.
        sentences: rows of the pairs' distinct sentences.
        members: |U|, [sentences, F, A].
        largest: largest coverage by a reference, [sentences]; 0 if none exceeds the smallest alpha.
        own: P(b | b), [sentences].
    """

    low: Floats
    high: Floats
    sentences: Rows
    members: NDArray[np.int32]
    largest: Floats
    own: Floats


@dataclass(frozen=True, kw_only=True)
class RangeFinder:
    """Callable that returns the ranges of a block of pairs for all n and all pairs of alphas.

    It computes in the dtype of the embeddings. The relative error of a coverage in float32 is about
    1e-6, which moves about one reference in a million across an alpha; float64 takes twice as long.

    Attributes:
        boxes: geometry of the embeddings.
        sentences, references: packed embeddings, [S, D] and [R, D].
        premises, hypotheses: rows of ``sentences``, [N].
        sizes: number of references of each n, [F], increasing.
        grids: grids of ``AXES`` and ``beta``; an empty grid of ``beta`` finds the exact optimum.
    """

    boxes: Boxes
    sentences: Tensor
    references: Tensor
    premises: Rows
    hypotheses: Rows
    sizes: tuple[int, ...]
    grids: Mapping[str, Grid]

    @cached_property
    def allowed(self) -> list[tuple[int, int]]:
        return allowed_alphas(self.grids)

    @cached_property
    def alphas(self) -> list[tuple[float, float]]:
        low, high = self.grids["alpha_1"], self.grids["alpha_2"]
        return [(float(low[i]), float(high[j])) for i, j in self.allowed]

    @cached_property
    def cells(self) -> Cells:
        return Cells([alpha for both in self.alphas for alpha in both])

    @cached_property
    def groups(self) -> Groups:
        return Groups(self.cells.count, len(self.sizes))

    def blocks(self, intersection: Literal["gumbel", "hard"]) -> list[Block]:
        """Return blocks of all pairs, sorted by premise to share work on equal premises."""
        order = np.lexsort((self.hypotheses, self.premises))
        by_kept = KEPT // (2 * max(1, len(self.references)))
        by_table = TABLE // self.groups.count**2
        step = max(1, min(by_kept, by_table, LARGEST_BLOCK))
        starts = range(0, len(order), step)
        return [Block(intersection, order[start : start + step]) for start in starts]

    @torch.no_grad()
    def __call__(self, block: Block) -> Ranges:
        boxes = replace(self.boxes, intersection=block.intersection)
        sides = self.premises[block.pairs], self.hypotheses[block.pairs]
        used, places = np.unique(np.stack(sides), return_inverse=True)
        some = self.sentences[torch.from_numpy(used).to(self.sentences.device)]
        kept = list(covered(boxes, some, self.references, float(self.cells.edges[0])))
        corners = boxes.corners(some)
        found = Interpretations.of(
            corners, boxes.corners(self.references), kept, self._group, self.groups.own
        )
        premises, hypotheses = torch.from_numpy(places.reshape(2, -1)).to(some.device)
        low, high = extremes(boxes, found, premises, hypotheses, self.groups)
        first, last = self._spans
        members = self.groups.sizes(found.sizes(self.groups.count))[..., first, last]
        low = self._of_sets(low, members, premises, hypotheses)
        high = -self._of_sets(-high, members, premises, hypotheses)
        largest = [float(k.coverage.max()) if len(k.coverage) else 0.0 for k in kept]
        return Ranges(
            low=low.cpu().numpy(),
            high=high.cpu().numpy(),
            sentences=used,
            members=members.cpu().numpy().astype(np.int32),
            largest=np.array(largest),
            own=boxes.entails(some, some).cpu().numpy(),
        )

    def _group(self, kept: Kept) -> Tensor:
        cell = torch.from_numpy(self.cells.of(kept.coverage.cpu().numpy())).to(kept.rows.device)
        sizes = torch.tensor(self.sizes, device=kept.rows.device)
        return self.groups.of(cell, torch.bucketize(kept.rows, sizes, right=True))

    @cached_property
    def _spans(self) -> tuple[list[int], list[int]]:
        """Return the first and the last cell of each pair of alphas, [A] each."""
        spans = [self.cells.between(*both) for both in self.alphas]
        return [span.start for span in spans], [span.stop - 1 for span in spans]

    def _of_sets(
        self, table: Tensor, members: Tensor, premises: Tensor, hypotheses: Tensor
    ) -> Tensor:
        """Return the minima over U_p x U_h, [F, A, pairs], of a table by groups, [pairs, G, G].

        For an empty set, the sentence's own box is used.
        """
        first, last = self._spans
        minima = self.groups.minima(table)[..., first, last]
        empty = (members == 0).long()
        pair = torch.arange(len(table), device=table.device)[:, None, None]
        prefix, alpha = (torch.arange(n, device=table.device) for n in members.shape[1:])
        sides = empty[premises], empty[hypotheses]
        return minima[pair, *sides, prefix[:, None], alpha].movedim(0, -1)
