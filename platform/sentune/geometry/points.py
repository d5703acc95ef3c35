"""Sentences as points: cosine similarity, as in SimCSE."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from sentune.geometry.base import full_precision


@dataclass(frozen=True)
class Points:
    """Packed embedding: the vector itself. Cosine lies in [-1, 1] and knows no direction."""

    symmetric: bool = True

    @full_precision
    def entails_table(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """[N, D], [M, D] -> [N, M] cosines (GumbelCSE Eq. 2's sim)."""
        table = F.normalize(premises, dim=-1) @ F.normalize(hypotheses, dim=-1).T
        return table.clamp(-1, 1)

    def entails_tables(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Both orientations, which are one table here."""
        table = self.entails_table(first, second)
        return table, table

    @full_precision
    def entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N] cosines."""
        cosine = (F.normalize(premises, dim=-1) * F.normalize(hypotheses, dim=-1)).sum(-1)
        return cosine.clamp(-1, 1)

    def direction(self, first: Tensor, second: Tensor) -> Tensor:
        """Zero: a symmetric similarity cannot tell."""
        return torch.zeros(len(first), dtype=first.dtype, device=first.device)

    def extent(self, embeddings: Tensor) -> Tensor:
        """Zero: a point has no extent."""
        return torch.zeros(len(embeddings), dtype=embeddings.dtype, device=embeddings.device)

    def entailing_is_larger(self) -> bool:
        return False
