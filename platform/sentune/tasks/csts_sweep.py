"""Sweep of the readouts of interpretations under conditions (GumbelCSE Eq. 15).

A reference belongs to a cell by its coverage of the sentence, and to a prefix by the smallest n
that contains it. The best reference of each cell and prefix is stored, so the best one for each
(alpha_1, alpha_2, n) is a maximum over a block of cells and prefixes, after one pass over the data.

Legend: N = pairs, V = views, that is distinct (sentence, condition), U = distinct sentences,
C = cells, P = prefixes, K = combinations of alphas and n, R = references, D = packed width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.beats import beat
from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners
from sentune.geometry.interpretations.coverage import covered
from sentune.geometry.interpretations.nearest import DECIMALS, log_similarity, nearest
from sentune.readouts.cells import Cells
from sentune.readouts.grid import Grid
from sentune.readouts.sweep import Sweep
from sentune.tasks.pairs import CHUNK
from sentune.tasks.references import AXES, allowed_alphas
from sentune.tasks.sts import correlations

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def sweep(
    metric: str,
    grids: Mapping[str, Grid],
    *,
    boxes: Boxes,
    embeddings: Tensor,
    references: Tensor,
    sizes: Sequence[int],
    views: Views,
    scores: Floats,
) -> tuple[Sweep, Floats, dict[str, Any]]:
    """Return the Spearman correlation of every combination with alpha_1 below alpha_2.

    Args:
        metric: name of the metric in the sweep.
        grids: grids of ``AXES``; that of ``references`` is increasing.
        boxes, embeddings, references, sizes, views: as in ``choices``.
        scores: human scores, [N].

    Returns:
        The sweep; the similarities of its best combination, [N]; and its counts: distinct
        sentences, references, mean number of interpretations of a sentence, and share of sentences
        without an interpretation.

    Raises:
        InvalidValue: no alpha_1 is below an alpha_2.
    """
    alphas = allowed_alphas(grids)
    places = [(n, i, j) for n in range(len(sizes)) for i, j in alphas]
    low, high = (tuple(map(float, grids[axis])) for axis in ("alpha_1", "alpha_2"))
    cells = Cells([*low, *high])
    blocks = [(cells.between(low[i], high[j]), n) for n, i, j in places]
    values = np.full([len(grids[axis]) for axis in AXES], np.nan)
    measured: list[tuple[Choices, Floats]] = []
    intersections: tuple[Any, ...] = grids["intersection"]
    for at, intersection in enumerate(intersections):
        used = replace(boxes, intersection=intersection)
        found = choices(used, embeddings, references, views, cells, sizes)
        chosen = np.stack([found.of(*block) for block in blocks])
        alike = similarities(used, embeddings, references, views, chosen)
        measured.append((found, alike))
        # an undefined correlation counts as 0; NaN means that a combination is not allowed
        spearman = np.nan_to_num(correlations(alike, scores, "spearman"), nan=0.0)
        values[(at, *np.array(places).T)] = spearman
    result = Sweep(metric=metric, axes={axis: grids[axis] for axis in AXES}, values=values)
    way, n, i, j = result.place
    best, (found, alike) = places.index((n, i, j)), measured[way]
    interpretations = found.interpretations(*blocks[best])
    counts = {
        "sentences": len(interpretations),
        "references": sizes[n],
        "interpretations": float(interpretations.mean()),
        "without_interpretation": float((interpretations == 0).mean()),
    }
    return result, alike[best], counts


class Views:
    """The distinct (sentence, condition) of N conditioned pairs, as rows of embeddings.

    Attributes:
        first, second: rows of the pairs' sentences, [N].
        sentence, condition: rows of the views, [V], sorted by sentence.
        of: views of the first and second sentences, [2, N].
    """

    def __init__(self, first: Integers, second: Integers, conditions: Integers) -> None:
        self.first, self.second = first, second
        both = np.stack((np.concatenate((first, second)), np.tile(conditions, 2)))
        (self.sentence, self.condition), of = np.unique(both, axis=1, return_inverse=True)
        self.of: Integers = of.reshape(2, len(first))


@dataclass(frozen=True)
class Choices:
    """The best reference of each view by cell and prefix.

    Attributes:
        log_similarity: log similarity of its overlap to the condition, [V, C, P]; -inf without one.
        rows: row of the reference, [V, C, P]; -1 without one.
        kept: number of references of a sentence, [U, C, P].
    """

    log_similarity: Floats
    rows: Integers
    kept: Integers

    def of(self, cells: slice, prefix: int) -> Integers:
        """Return each view's best reference in a block of cells up to a prefix, [V].

        Of equal references it is the first one; -1 if there is none.
        """
        values, rows = (
            table[:, cells, : prefix + 1].reshape(len(table), -1)
            for table in (self.log_similarity, self.rows)
        )
        tied = (values == values.max(axis=1, keepdims=True)) & (rows >= 0)
        first: Integers = np.where(tied, rows, np.iinfo(np.int64).max).min(axis=1)
        return np.where(tied.any(axis=1), first, -1)

    def interpretations(self, cells: slice, prefix: int) -> Integers:
        """Return each sentence's number of interpretations in a block of cells, [U]."""
        counts: Integers = self.kept[:, cells, : prefix + 1].sum(axis=(1, 2))
        return counts


def choices(
    boxes: Boxes,
    embeddings: Tensor,
    references: Tensor,
    views: Views,
    cells: Cells,
    sizes: Sequence[int],
) -> Choices:
    """Return the best references by cell and prefix, from one pass over those of each sentence.

    Args:
        embeddings: packed embeddings that the views' rows index, [*, D].
        references: packed embeddings in the order in which they were drawn, [R, D].
        sizes: number of references of each n, [P], increasing, the last one R.
    """
    sentences, starts = np.unique(views.sentence, return_index=True)
    conditions = np.split(views.condition, starts[1:])  # of each sentence
    own, others = boxes.corners(embeddings.double()), boxes.corners(references.double())
    order = torch.arange(len(references), device=references.device)
    prefixes = torch.bucketize(order, order.new_tensor(sizes), right=True)
    shape = (cells.count, len(sizes))
    count = math.prod(shape)
    parts = []
    all_kept = covered(boxes, embeddings[sentences], references, float(cells.edges[0]))
    for sentence, asked, kept in zip(sentences, conditions, all_kept, strict=True):
        cell = torch.from_numpy(cells.of(kept.coverage.cpu().numpy())).to(kept.rows)
        one, of = own.take([int(sentence)]), cell * len(sizes) + prefixes[kept.rows]
        found = nearest(boxes, one, others, own.take(asked), kept.rows, of, count)
        parts.append((*found, of.bincount(minlength=count)[None]))
    columns = (torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True))
    return Choices(*(column.reshape(-1, *shape) for column in columns))


@torch.no_grad()
def similarities(
    boxes: Boxes, embeddings: Tensor, references: Tensor, views: Views, chosen: Integers
) -> Floats:
    """Return the similarities of pairs for each combination (Eq. 16), [K, N].

    Each distinct choice of references of a pair is compared once.

    Args:
        chosen: each view's reference, [K, V]; -1: the sentence's own box.
    """
    width = len(references) + 1
    pair = np.arange(len(views.first)) * width
    keys = (pair + chosen[:, views.of[0]] + 1) * width + chosen[:, views.of[1]] + 1
    distinct, inverse = np.unique(keys, return_inverse=True)
    pairs, first = np.divmod(distinct // width, width)
    own, others = boxes.corners(embeddings.double()), boxes.corners(references.double())

    def interpretations(sentences: Integers, chosen: Integers) -> Corners:
        whole = own.take(sentences)
        both = boxes.intersect(whole, others.take(chosen.clip(0)))
        alone = torch.from_numpy(chosen < 0)[:, None].to(embeddings.device)
        return Corners(*(torch.where(alone, a, b) for a, b in zip(whole, both, strict=True)))

    parts = []
    for start in range(0, len(distinct), CHUNK):
        beat()
        part = slice(start, start + CHUNK)
        one = interpretations(views.first[pairs[part]], first[part] - 1)
        other = interpretations(views.second[pairs[part]], distinct[part] % width - 1)
        # rounded, so that pairs of equal boxes are tied in the ranking
        logarithms = log_similarity(boxes, one, other).round(decimals=DECIMALS)
        parts.append(logarithms.exp().cpu().numpy())
    return np.concatenate(parts)[inverse].reshape(keys.shape)
