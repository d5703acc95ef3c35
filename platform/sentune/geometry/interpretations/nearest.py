"""Find the interpretation of a sentence that is most similar to a condition (GumbelCSE Eq. 15, 16).

An interpretation is an intersection and has no packed embedding, so boxes are given by corners.
Legend: N, M = boxes, K = conditions, R = references, m = references of the sentence, G = groups,
d = dimensions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners

# Similarities whose logarithms agree to this many decimals are a tie. Equal boxes, which are common
# with hard intersections, differ by 1e-13 at different places of a table.
DECIMALS = 9


@torch.no_grad()
def nearest(
    boxes: Boxes,
    sentence: Corners,
    references: Corners,
    conditions: Corners,
    rows: Tensor,
    of: Tensor,
    count: int,
) -> tuple[Tensor, Tensor]:
    """Return each group's interpretation that is most similar to each condition.

    Args:
        sentence: [1, d] corners in float64, like all corners here.
        references: [R, d] corners.
        conditions: [K, d] corners.
        rows: [m] increasing rows of the references to consider.
        of: [m] int64 group of each row, from 0 to ``count`` - 1.
        count: G.

    Returns:
        [K, G] rounded logarithms of Eq. 16, -inf if a group is empty, and [K, G] int64 rows of the
        references, the first of a tie, -1 if a group is empty.
    """
    overlaps = boxes.intersect(sentence, references.take(rows))
    table = log_similarity_table(boxes, conditions, overlaps)
    table, of = table.round(decimals=DECIMALS), of.expand(len(table), -1)
    best = table.new_full((len(table), count), -math.inf)
    best.scatter_reduce_(1, of, table, "amax")
    nowhere = len(references.lower)
    tied = torch.where(table == best.gather(1, of), rows, nowhere)
    first = torch.full_like(best, nowhere, dtype=torch.int64)
    first.scatter_reduce_(1, of, tied, "amin")
    return best, first.masked_fill(first == nowhere, -1)


def log_similarity(boxes: Boxes, first: Corners, second: Corners) -> Tensor:
    """Return log((P(x | y) + P(y | x)) / 2), at most 0, without underflow, shape [N]."""
    overlap = boxes.log_overlap(first, second)
    return _log_mean(overlap, boxes.log_volume(first), boxes.log_volume(second))


def log_similarity_table(boxes: Boxes, first: Corners, second: Corners) -> Tensor:
    """Return ``log_similarity`` of each of N boxes with each of M, shape [N, M]."""
    overlap = boxes.log_overlap_table(first, second)
    return _log_mean(overlap, boxes.log_volume(first)[:, None], boxes.log_volume(second))


def _log_mean(overlap: Tensor, first: Tensor, second: Tensor) -> Tensor:
    one, other = ((overlap - volume).clamp(max=0) for volume in (first, second))
    return torch.logaddexp(one, other) - math.log(2)
