"""A few interpretations of one sentence that differ most from each other.

The overlaps that GumbelCSE Eq. 13 admits are many and much alike. Here the first is that of the
reference that covers most of the sentence, which is its commonest reading; each next one is the
overlap that is least similar (Eq. 16) to the one among the chosen that it is most similar to
(farthest-first traversal).

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

# Of more references between the alphas, the ones that cover most are compared with each other.
CANDIDATES = 4096
# Without an alpha_1, this many references for each interpretation that is asked for. Of 6,000 SNLI
# sentences the best 15 for "A man is playing a guitar." are of music and instruments; the least
# similar of the best 100 have nothing to do with it.
POOL = 3


@dataclass(frozen=True, kw_only=True)
class ChosenReference:
    """One interpretation.

    Attributes:
        row: of the reference.
        coverage: Vol(b_s and b_t) / Vol(b_s).
        similarity: to the most similar of the other chosen ones, in [0, 1]; NaN for a single one.
    """

    row: int
    coverage: float
    similarity: float


@dataclass(frozen=True, kw_only=True)
class Distinct:
    """The interpretations of a sentence, and what they were chosen from.

    Attributes:
        chosen: the first covers most of the sentence; the others in the order of being chosen.
        alpha_1, alpha_2: the bounds that were taken.
        between: how many references have a coverage between them.
        largest: the largest coverage below alpha_2: with an alpha_1 below it there is an
            interpretation. None where no coverage is below alpha_2.
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
    """The ``k`` most distinct interpretations with alpha_1 < coverage < alpha_2, or all if fewer.

    Args:
        sentence: [D] packed embedding.
        references: [R, D] packed embeddings.
        alpha_1: None takes the coverage just below that of the 3 k references that cover most.

    Raises:
        InvalidValue: k below 1, or alpha_1 not below alpha_2.
    """
    if k < 1:
        raise InvalidValue("k", k, "ask for at least one interpretation")
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
            ChosenReference(
                row=int(some[place]), coverage=float(values[place]), similarity=similarity
            )
            for place, similarity in chosen
        ),
        alpha_1=low,
        alpha_2=alpha_2,
        between=between,
        largest=float(values[0]) if len(values) else None,
    )


def _lower_bound(values: Tensor, count: int) -> float:
    """The largest coverage below the ``count`` largest, which are in falling order; 0 if none."""
    if len(values) <= count:
        return 0.0
    lower = values[values < values[count - 1]]
    return float(lower[0]) if len(lower) else 0.0


def _farthest_first(boxes: Boxes, candidates: Corners, k: int) -> list[tuple[int, float]]:
    """[C, d] interpretations, best first -> the places of k, with their similarity to the others.

    Of equally distinct ones the first is taken.
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
