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
    terms = _Terms(anchor, geometry, weights)
    if weights.entailment or over_hypotheses:
        terms.add(gather(positive), weights.entailment, over_hypotheses)
    if negative is not None and (weights.contradiction or weights.reverse_contradiction):
        terms.add(gather(negative), weights.contradiction, weights.reverse_contradiction)
    if weights.reverse and over_premises:
        terms.append(geometry.entails_table(positive, gather(anchor)), weights.reverse)
    own = terms.diagonal(offset) if weights.entailment else geometry.entails(anchor, positive)
    return (terms.log_sum(temperature) - own / temperature).sum()


class _Terms:
    """The weighted [n, B] tables whose exponentials form the denominator."""

    def __init__(self, anchor: Tensor, geometry: Geometry, weights: TermWeights) -> None:
        self.anchor, self.geometry, self.weights = anchor, geometry, weights
        self.tables: list[tuple[Tensor, float]] = []

    def append(self, table: Tensor, weight: float) -> None:
        self.tables.append((table, weight))

    def add(self, candidates: Tensor, forward: float, reverse: float) -> None:
        """Append e(s_i, c_j) and e(c_j, s_i), each if its weight is not 0."""
        if not reverse:
            self.append(self.geometry.entails_table(self.anchor, candidates), forward)
        elif not forward:
            self.append(self.geometry.entails_table(candidates, self.anchor).T, reverse)
        else:
            entails, entailed = self.geometry.entails_tables(self.anchor, candidates)
            self.append(entails, forward)
            self.append(entailed, reverse)

    def diagonal(self, offset: int) -> Tensor:
        """Return e(s_i, s_i+), shape [n], from the table of V_E, which is the first."""
        return self.tables[0][0].diagonal(offset)

    def log_sum(self, temperature: float) -> Tensor:
        """Return the logarithm of the weighted sum of the V, shape [n]."""
        if not self.tables:
            fix = "without hard negatives, the weight of entailment or reverse must be above 0"
            raise InvalidValue("weights", self.weights, fix)
        logits = [table / temperature + math.log(weight) for table, weight in self.tables]
        return torch.logsumexp(torch.cat(logits, dim=1), dim=1)
