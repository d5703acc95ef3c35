"""GaussCSE: a sentence is a diagonal Gaussian; the entailing one gets the larger variance.

Yoda, Tsukagoshi, Sasano, Takeda: Sentence Representations via Gaussian Embedding, section 2.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from sentune.encoders import TextEncoder
from sentune.geometry.contrastive import TermWeights, contrastive_loss
from sentune.geometry.gaussians import Gaussians
from sentune.methods.base import Gather, MethodSettings, SentenceMethod


class GausscseSettings(MethodSettings):
    """Settings of GaussCSE, with the defaults of appendix A.

    Zero weights give the four losses of the paper's tables.
    """

    dimension: int = Field(768, ge=1)
    """Dimensions of a Gaussian."""
    entailment_weight: float = Field(1.0, gt=0.0)
    """Weight of V_E, the sum over the batch's entailed hypotheses."""
    contradiction_weight: float = Field(1.0, ge=0.0)
    """Weight of V_C, the sum over the batch's contradicted hypotheses (0 in "ent", "ent+rev")."""
    reverse_weight: float = Field(1.0, ge=0.0)
    """Weight of V_R, the sum over reversed entailments (0 in "ent", "ent+con")."""
    reverse_orientation: Literal["premises", "hypotheses"] = "premises"
    """Whether V_R of an anchor sums over the batch's premises (GaussCSE Eq. 4) or hypotheses
    (GumbelCSE Eq. 6)."""
    similarity: Literal["sum", "mean"] = "sum"
    """sum: 1 / (1 + KL) with the KL summed over dimensions (Eq. 3). mean: the mean over dimensions
    of 1 / (1 + KL_d), as in the published code."""


class Gausscse(SentenceMethod):
    """Two linear layers on the sentence vector: mean and log standard deviation."""

    name: ClassVar[str] = "gauss"
    title: ClassVar[str] = "GaussCSE"
    settings_type: ClassVar[type[MethodSettings]] = GausscseSettings
    settings: GausscseSettings

    def __init__(self, encoder: TextEncoder, settings: GausscseSettings) -> None:
        super().__init__(encoder, settings)
        self.mean = nn.Linear(encoder.width, settings.dimension)
        self.log_sigma = nn.Linear(encoder.width, settings.dimension)
        # variances start near 1, because the KL of large variance ratios has no useful gradient
        nn.init.normal_(self.log_sigma.weight, std=0.02)
        nn.init.zeros_(self.log_sigma.bias)

    @property
    def geometry(self) -> Gaussians:
        """Gaussians compared by KL divergence."""
        return Gaussians(form=self.settings.similarity)

    def head(self, vectors: Tensor) -> Tensor:
        """Return mean and log sigma, packed, [N, H] -> [N, 2 * dimension]."""
        return torch.cat([self.mean(vectors), self.log_sigma(vectors)], dim=-1)

    def loss(self, embeddings: Mapping[str, Tensor], gather: Gather, offset: int = 0) -> Tensor:
        """Return Eq. 4, summed over the local anchors."""
        weights = TermWeights(
            entailment=self.settings.entailment_weight,
            contradiction=self.settings.contradiction_weight,
            reverse=self.settings.reverse_weight,
            reverse_orientation=self.settings.reverse_orientation,
        )
        return contrastive_loss(
            embeddings["anchor"],
            embeddings["positive"],
            embeddings["negative"],
            geometry=self.geometry,
            weights=weights,
            temperature=self.settings.temperature,
            gather=gather,
            offset=offset,
        )
