"""One contrastive loss with weighted terms for SimCSE, GaussCSE and GumbelCSE.

With e(x, y) the degree to which x entails y, anchor s_i, positive s_i+, hard negative s_i-:

    V_E  = sum_j exp(e(s_i, s_j+) / tau)     GumbelCSE Eq. 2, 8; GaussCSE Eq. 4
    V_C  = sum_j exp(e(s_i, s_j-) / tau)     GumbelCSE Eq. 2, 9; GaussCSE Eq. 4
    V_R  = sum_j exp(e(s_i+, s_j) / tau)     GaussCSE Eq. 4: over premises
    V_R1 = sum_j exp(e(s_j+, s_i) / tau)     GumbelCSE Eq. 6, 10: over hypotheses
    V_R2 = sum_j exp(e(s_j-, s_i) / tau)     GumbelCSE Eq. 11

    loss_i = -log exp(e(s_i, s_i+) / tau) / (weighted sum of the V)

Local anchors meet candidates gathered from all workers with autograd; the sums over j run over
the global batch. Legend: n = local anchors, B = global batch, D = packed width.
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
    """What each sum V is multiplied with; a term of weight 0 is left out and not computed.

    Attributes:
        entailment: of V_E.
        contradiction: of V_C.
        reverse: of V_R or V_R1, as ``reverse_orientation`` says.
        reverse_contradiction: of V_R2.
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
                raise InvalidValue(name, value, "a term's weight must be 0 or a positive number")
        if not any(getattr(self, name) for name in names):
            raise InvalidValue("weights", 0, "at least one term must have a weight above 0")
        if self.reverse_orientation not in ("premises", "hypotheses"):
            allowed = "it must be 'premises' or 'hypotheses'"
            raise InvalidValue("reverse_orientation", self.reverse_orientation, allowed)


def local_only(candidates: Tensor) -> Tensor:
    """Return the gather of a single worker: what is here is all there is."""
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
    """Sum of loss_i over the local anchors (not their mean), a scalar.

    Under data parallelism each worker multiplies it by world_size / B, since the average that
    follows divides by world_size again.

    Args:
        anchor, positive, negative: [n, D] packed embeddings of the local rows, row i of each
            belonging together. Without hard negatives (``None``: pairs, unsupervised SimCSE)
            V_C and V_R2 have no summands.
        temperature: tau.
        gather: from [n, D] to [B, D], passing gradients back to where the rows came from.
        offset: index of the first local anchor among the B gathered ones.

    Raises:
        InvalidValue: temperature is not positive, or no term is left to sum.
    """
    if not temperature > 0:
        raise InvalidValue("temperature", temperature, "it must be above 0")
    terms = _Terms(anchor, geometry, weights)
    if weights.entailment or _reverse_over_hypotheses(weights):
        reverse = weights.reverse if _reverse_over_hypotheses(weights) else 0.0
        terms.add(gather(positive), weights.entailment, reverse)
    if negative is not None and (weights.contradiction or weights.reverse_contradiction):
        terms.add(gather(negative), weights.contradiction, weights.reverse_contradiction)
    if weights.reverse and weights.reverse_orientation == "premises":
        terms.append(geometry.entails_table(positive, gather(anchor)), weights.reverse)
    own = terms.diagonal(offset) if weights.entailment else geometry.entails(anchor, positive)
    return (terms.log_sum(temperature) - own / temperature).sum()


def _reverse_over_hypotheses(weights: TermWeights) -> bool:
    return weights.reverse > 0 and weights.reverse_orientation == "hypotheses"


class _Terms:
    """Tables [n, B] of the denominator with their weights."""

    def __init__(self, anchor: Tensor, geometry: Geometry, weights: TermWeights) -> None:
        self.anchor, self.geometry, self.weights = anchor, geometry, weights
        self.tables: list[tuple[Tensor, float]] = []

    def append(self, table: Tensor, weight: float) -> None:
        self.tables.append((table, weight))

    def add(self, candidates: Tensor, forward: float, reverse: float) -> None:
        """e(s_i, c_j) and e(c_j, s_i), each where its weight is not 0, sharing their work."""
        if not reverse:
            self.append(self.geometry.entails_table(self.anchor, candidates), forward)
        elif not forward:
            self.append(self.geometry.entails_table(candidates, self.anchor).T, reverse)
        else:
            there, back = self.geometry.entails_tables(self.anchor, candidates)
            self.append(there, forward)
            self.append(back, reverse)

    def diagonal(self, offset: int) -> Tensor:
        """[n]: e(s_i, s_i+), from the table of V_E, which comes first."""
        return self.tables[0][0].diagonal(offset)

    def log_sum(self, temperature: float) -> Tensor:
        """[n]: log of the weighted sum of the V."""
        if not self.tables:
            fix = "without hard negatives, entailment or reverse must have a weight above 0"
            raise InvalidValue("weights", self.weights, fix)
        logits = [table / temperature + math.log(weight) for table, weight in self.tables]
        return torch.logsumexp(torch.cat(logits, dim=1), dim=1)
