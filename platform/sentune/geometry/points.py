"""Sentences as points: cosine similarity, as in SimCSE."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from sentune.geometry.base import full_precision


@dataclass(frozen=True)
class Points:
    """Points, compared by their cosine in [-1, 1]; a packed embedding is the vector itself."""

    symmetric: bool = True

    @full_precision
    def entails_table(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Return the cosines (sim in GumbelCSE Eq. 2), [N, D], [M, D] -> [N, M]."""
        table = F.normalize(premises, dim=-1) @ F.normalize(hypotheses, dim=-1).T
        return table.clamp(-1, 1)

    def entails_tables(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return the [N, M] table of cosines twice, because it is the same in both directions."""
        table = self.entails_table(first, second)
        return table, table

    @full_precision
    def entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Return the cosines of the rows, [N, D], [N, D] -> [N]."""
        cosine = (F.normalize(premises, dim=-1) * F.normalize(hypotheses, dim=-1)).sum(-1)
        return cosine.clamp(-1, 1)

    def direction(self, first: Tensor, second: Tensor) -> Tensor:
        """Return zeros, [N], because the cosine is symmetric."""
        return torch.zeros(len(first), dtype=first.dtype, device=first.device)

    def extent(self, embeddings: Tensor) -> Tensor:
        """Return zeros, [N], because a point has no extent."""
        return torch.zeros(len(embeddings), dtype=embeddings.dtype, device=embeddings.device)

    def entailing_is_larger(self) -> bool:
        return False
