"""The contrastive loss of SimCSE, GaussCSE and GumbelCSE, with a weight for each term.

Let e(x, y) be the degree to which x entails y, s_i an anchor, s_i+ its positive and s_i- its hard
negative:

    V_E  = sum_j exp(e(s_i, s_j+) / tau)     GumbelCSE Eq. 2, 8; GaussCSE Eq. 4
    V_C  = sum_j exp(e(s_i, s_j-) / tau)     GumbelCSE Eq. 2, 9; GaussCSE Eq. 4
    V_R  = sum_j exp(e(s_i+, s_j) / tau)     GaussCSE Eq. 4, over premises
    V_R1 = sum_j exp(e(s_j+, s_i) / tau)     GumbelCSE Eq. 6, 10, over hypotheses
    V_R2 = sum_j exp(e(s_j-, s_i) / tau)     GumbelCSE Eq. 11

    loss_i = -log exp(e(s_i, s_i+) / tau) / (weighted sum of the V)

The sums over j run over the global batch: candidates are gathered from all workers, and gradients
flow back to them. Legend: n = local anchors, B = global batch, D = packed width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.geometry.base import Geometry, full_precision


@dataclass(frozen=True, kw_only=True)
class TermWeights:
    """Weights of the sums V; a term of weight 0 is not computed.

    Attributes:
        entailment: weight of V_E.
        contradiction: weight of V_C.
        reverse: weight of V_R or V_R1, depending on ``reverse_orientation``.
        reverse_contradiction: weight of V_R2.
        reverse_orientation: ``premises`` sums the reverse term over the batch's premises
            (GaussCSE Eq. 4), ``hypotheses`` over its hypotheses (GumbelCSE Eq. 6 and 10). Their
            gradients differ by 42 % on random data.
    """

    entailment: float = 1.0
    contradiction: float = 1.0
    reverse: float = 0.0
    reverse_contradiction: float = 0.0
    reverse_orientation: Literal["premises", "hypotheses"] = "premises"

    def __post_init__(self) -> None:
        names = ("entailment", "contradiction", "reverse", "reverse_contradiction")
        for name in names:
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise InvalidValue(name, value, "a weight must be 0 or a positive finite number")
        if not any(getattr(self, name) for name in names):
            raise InvalidValue("weights", 0, f"one of {', '.join(names)} must be above 0")
        if self.reverse_orientation not in ("premises", "hypotheses"):
            allowed = "it must be 'premises' or 'hypotheses'"
            raise InvalidValue("reverse_orientation", self.reverse_orientation, allowed)


def local_only(candidates: Tensor) -> Tensor:
    """Return the candidates unchanged: the ``gather`` of a single worker."""
    return candidates


@full_precision
def contrastive_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor | None,
    *,
    geometry: Geometry,
    weights: TermWeights,
    temperature: float,
    gather: Callable[[Tensor], Tensor] = local_only,
    offset: int = 0,
) -> Tensor:
    """Return the sum (not the mean) of loss_i over the local anchors, a scalar.

    Under data parallelism each worker multiplies the sum by world_size / B, because averaging the
    gradients divides by world_size.

    Args:
        anchor, positive, negative: [n, D] packed embeddings; row i of each belongs to one local
            example. Without hard negatives (``None``, as for pairs) V_C and V_R2 are 0.
        temperature: tau.
        gather: function from [n, D] local rows to [B, D] rows of all workers, which passes
            gradients back to the workers.
        offset: index of the first local anchor among the B gathered anchors.

    Raises:
        InvalidValue: the temperature is not positive, or no term remains in the denominator.
    """
    if not temperature > 0:
        raise InvalidValue("temperature", temperature, "it must be above 0")
    over_premises = weights.reverse_orientation == "premises"
    over_hypotheses = 0.0 if over_premises else weights.reverse
    tables: list[tuple[Tensor, float]] = []
    if weights.entailment or over_hypotheses:
        forward, reverse = weights.entailment, over_hypotheses
        tables += _tables(geometry, anchor, gather(positive), forward, reverse)
    if negative is not None and (weights.contradiction or weights.reverse_contradiction):
        forward, reverse = weights.contradiction, weights.reverse_contradiction
        tables += _tables(geometry, anchor, gather(negative), forward, reverse)
    if weights.reverse and over_premises:
        tables.append((geometry.entails_table(positive, gather(anchor)), weights.reverse))
    if not tables:
        fix = "without hard negatives, the weight of entailment or reverse must be above 0"
        raise InvalidValue("weights", weights, fix)
    # e(s_i, s_i+) is on a diagonal of the table of V_E, which is the first
    first = tables[0][0]
    own = first.diagonal(offset) if weights.entailment else geometry.entails(anchor, positive)
    logits = [table / temperature + math.log(weight) for table, weight in tables]
    return (torch.logsumexp(torch.cat(logits, dim=1), dim=1) - own / temperature).sum()


def _tables(
    geometry: Geometry, anchor: Tensor, candidates: Tensor, forward: float, reverse: float
) -> list[tuple[Tensor, float]]:
    """Return [n, B] tables of e(s_i, c_j) and e(c_j, s_i), each if its weight is not 0."""
    if not reverse:
        return [(geometry.entails_table(anchor, candidates), forward)]
    if not forward:
        return [(geometry.entails_table(candidates, anchor).T, reverse)]
    entails, entailed = geometry.entails_tables(anchor, candidates)
    return [(entails, forward), (entailed, reverse)]
