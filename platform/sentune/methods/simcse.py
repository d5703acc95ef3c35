"""SimCSE: points compared by their cosine.

Gao, Yao, Chen: SimCSE, 2021; the supervised loss as GumbelCSE's paper writes it (Eq. 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from sentune.corpora.schema import Kind
from sentune.encoders import TextEncoder
from sentune.geometry.contrastive import TermWeights, contrastive_loss
from sentune.geometry.points import Points
from sentune.methods.base import Gather, MethodSettings, SentenceMethod


class SimcseSettings(MethodSettings):
    """Supervised SimCSE, without the projection layer of its published code."""

    contradiction_weight: float = Field(1.0, ge=0.0)
    """Weight of the hard negatives' sum in Eq. 2; 1 in the paper."""


class Simcse(SentenceMethod):
    """Anchors, positives and hard negatives; every other row of the batch is a negative."""

    name: ClassVar[str] = "simcse"
    title: ClassVar[str] = "SimCSE"
    settings_type: ClassVar[type[MethodSettings]] = SimcseSettings
    objective: ClassVar[str] = "rte/auc"
    settings: SimcseSettings

    @property
    def geometry(self) -> Points:
        """Cosine."""
        return Points()

    def head(self, vectors: Tensor) -> Tensor:
        """The encoder's vectors as they are."""
        return vectors

    def loss(self, embeddings: Mapping[str, Tensor], gather: Gather, offset: int = 0) -> Tensor:
        """GumbelCSE Eq. 2, summed over the local anchors."""
        return contrastive_loss(
            embeddings["anchor"],
            embeddings["positive"],
            embeddings["negative"],
            geometry=self.geometry,
            weights=TermWeights(contradiction=self.settings.contradiction_weight),
            temperature=self.settings.temperature,
            gather=gather,
            offset=offset,
        )


class UnsupervisedSimcseSettings(MethodSettings):
    """Unsupervised SimCSE."""

    dropout: float = Field(0.1, gt=0.0, lt=1.0)
    """Rate of every dropout layer of the encoder: the only difference between the two views."""


class UnsupervisedSimcse(Simcse):
    """Each sentence is embedded twice; its second view under other dropout is the positive."""

    name: ClassVar[str] = "simcse-unsupervised"
    title: ClassVar[str] = "Unsupervised SimCSE"
    settings_type: ClassVar[type[MethodSettings]] = UnsupervisedSimcseSettings
    kind: ClassVar[Kind] = Kind.SENTENCES
    roles: ClassVar[Mapping[str, str]] = {"anchor": "text", "positive": "text"}
    settings: UnsupervisedSimcseSettings  # type: ignore[assignment]

    def __init__(self, encoder: TextEncoder, settings: UnsupervisedSimcseSettings) -> None:
        super().__init__(encoder, settings)
        encoder.set_dropout(settings.dropout)

    def loss(self, embeddings: Mapping[str, Tensor], gather: Gather, offset: int = 0) -> Tensor:
        """Gao et al. Eq. 4, summed over the local sentences."""
        return contrastive_loss(
            embeddings["anchor"],
            embeddings["positive"],
            None,
            geometry=self.geometry,
            weights=TermWeights(),
            temperature=self.settings.temperature,
            gather=gather,
            offset=offset,
        )
