"""Choose a few interpretations of one sentence that differ as much as possible.

The interpretations that GumbelCSE Eq. 13 admits are many and similar. The first choice is the
intersection with the reference that covers most of the sentence, its most common reading. Each
further choice is the interpretation whose largest similarity (Eq. 16) to those already chosen is
smallest (farthest-first traversal).

Legend: R = references, D = packed width, d = D/2, C = candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners
from sentune.geometry.interpretations.coverage import covered
from sentune.geometry.interpretations.nearest import log_similarity_table

# If more references lie between the alphas, only those with the largest coverage are compared.
CANDIDATES = 4096
# References considered per requested interpretation if there is no alpha_1. Among 6,000 SNLI
# sentences, the best 15 for "A man is playing a guitar." are about music and instruments; the least
# similar of the best 100 are unrelated.
POOL = 3


@dataclass(frozen=True, kw_only=True)
class ChosenReference:
    """A reference that was chosen for its interpretation of a sentence.

    Attributes:
        row: row of the reference.
        coverage: Vol(b_s and b_t) / Vol(b_s).
        similarity: largest similarity to another chosen interpretation, in [0, 1]; NaN if there is
            no other.
    """

    row: int
    coverage: float
    similarity: float


@dataclass(frozen=True, kw_only=True)
class Distinct:
    """The chosen interpretations of a sentence and the bounds that were used.

    Attributes:
        chosen: interpretations in the order of their choice; the first has the largest coverage.
        alpha_1, alpha_2: bounds of the coverage that were used.
        between: number of references whose coverage lies between the bounds.
        largest: largest coverage below alpha_2; any alpha_1 below it leaves an interpretation.
            None if no coverage is below alpha_2.
    """

    chosen: tuple[ChosenReference, ...]
    alpha_1: float
    alpha_2: float
    between: int
    largest: float | None


@torch.no_grad()
def most_distinct(
    boxes: Boxes,
    sentence: Tensor,
    references: Tensor,
    k: int,
    alpha_1: float | None,
    alpha_2: float,
) -> Distinct:
    """Return up to ``k`` distinct interpretations with alpha_1 < coverage < alpha_2.

    Args:
        sentence: [D] packed embedding.
        references: [R, D] packed embeddings.
        alpha_1: lower bound; None takes the next coverage below the 3 k largest.

    Raises:
        InvalidValue: k is below 1, or alpha_1 is not below alpha_2.
    """
    if k < 1:
        raise InvalidValue("k", k, "it must be at least 1")
    if alpha_1 is not None and not alpha_1 < alpha_2:
        raise InvalidValue("alpha_1", alpha_1, f"it must be below alpha_2, which is {alpha_2}")
    (kept,) = covered(boxes, sentence[None], references, -1.0)
    values, rows = kept.coverage.sort(descending=True, stable=True)
    below = values < alpha_2
    values, rows = values[below], rows[below]
    low = _lower_bound(values, POOL * k) if alpha_1 is None else alpha_1
    between = int((values > low).sum())
    some = rows[: min(between, CANDIDATES)]
    own, others = (boxes.corners(t.double()) for t in (sentence[None], references[some]))
    chosen = _farthest_first(boxes, boxes.intersect(own, others), k)
    return Distinct(
        chosen=tuple(
            ChosenReference(row=int(some[at]), coverage=float(values[at]), similarity=similarity)
            for at, similarity in chosen
        ),
        alpha_1=low,
        alpha_2=alpha_2,
        between=between,
        largest=float(values[0]) if len(values) else None,
    )


def _lower_bound(values: Tensor, count: int) -> float:
    """Return the largest value below the ``count`` largest of falling values; 0 if none."""
    if len(values) <= count:
        return 0.0
    lower = values[values < values[count - 1]]
    return float(lower[0]) if len(lower) else 0.0


def _farthest_first(boxes: Boxes, candidates: Corners, k: int) -> list[tuple[int, float]]:
    """Return the places of k of [C, d] interpretations, and their similarity to the others chosen.

    Ties go to the first candidate.
    """
    places: list[int] = []
    rows: list[Tensor] = []
    nearest = candidates.lower.new_full((len(candidates.lower),), -math.inf)
    while len(places) < min(k, len(nearest)):
        nearest[places] = math.inf
        places.append(int(nearest.argmin()))
        rows.append(log_similarity_table(boxes, candidates.take(places[-1:]), candidates)[0])
        nearest = torch.maximum(nearest, rows[-1])
    if len(places) < 2:
        return [(place, math.nan) for place in places]
    table = torch.stack([row[places] for row in rows]).fill_diagonal_(-math.inf)
    return list(zip(places, table.amax(0).exp().tolist(), strict=True))
