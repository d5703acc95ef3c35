"""SimCSE: points compared by their cosine.

Gao, Yao, Chen: SimCSE, 2021. The supervised loss follows GumbelCSE Eq. 2.
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
    """Supervised SimCSE on triplets; the other rows of the batch are negatives, too."""

    name: ClassVar[str] = "simcse"
    title: ClassVar[str] = "SimCSE"
    settings_type: ClassVar[type[MethodSettings]] = SimcseSettings
    objective: ClassVar[str] = "rte/auc"
    settings: SimcseSettings

    @property
    def geometry(self) -> Points:
        """Points compared by their cosine."""
        return Points()

    def head(self, vectors: Tensor) -> Tensor:
        """Return the vectors of the encoder unchanged."""
        return vectors

    @property
    def weights(self) -> TermWeights:
        """The weights of the sums over positives and over hard negatives."""
        return TermWeights(contradiction=self.settings.contradiction_weight)

    def loss(self, embeddings: Mapping[str, Tensor], gather: Gather, offset: int = 0) -> Tensor:
        """Return GumbelCSE Eq. 2, summed over the local anchors.

        Without hard negatives this is InterSent Eq. 1 and Gao et al. Eq. 4.
        """
        return contrastive_loss(
            embeddings["anchor"],
            embeddings["positive"],
            embeddings.get("negative"),
            geometry=self.geometry,
            weights=self.weights,
            temperature=self.settings.temperature,
            gather=gather,
            offset=offset,
        )


class PairSimcse(Simcse):
    """SimCSE on pairs without hard negatives, InterSent's contrastive baseline (section 3.3)."""

    name: ClassVar[str] = "simcse-pairs"
    title: ClassVar[str] = "SimCSE on pairs"
    settings_type: ClassVar[type[MethodSettings]] = MethodSettings
    objective: ClassVar[str] = "sts/spearman"
    kind: ClassVar[Kind] = Kind.SENTENCE_PAIRS
    roles: ClassVar[Mapping[str, str]] = {"anchor": "anchor", "positive": "positive"}
    settings: MethodSettings  # type: ignore[assignment]

    @property
    def weights(self) -> TermWeights:
        """The weight of the sum over positives, the only one without hard negatives."""
        return TermWeights()


class UnsupervisedSimcseSettings(MethodSettings):
    """Settings of unsupervised SimCSE."""

    dropout: float = Field(0.1, gt=0.0, lt=1.0)
    """Rate of every dropout layer of the encoder, the only difference between the two views."""


class UnsupervisedSimcse(PairSimcse):
    """SimCSE whose positive is the same sentence under another dropout mask (Gao et al. section 3).

    The published code adds an MLP on [CLS] for training only; it is omitted here.
    """

    name: ClassVar[str] = "simcse-unsupervised"
    title: ClassVar[str] = "Unsupervised SimCSE"
    objective: ClassVar[str] = "rte/auc"
    settings_type: ClassVar[type[MethodSettings]] = UnsupervisedSimcseSettings
    kind: ClassVar[Kind] = Kind.SENTENCES
    roles: ClassVar[Mapping[str, str]] = {"anchor": "text", "positive": "text"}
    settings: UnsupervisedSimcseSettings

    def __init__(self, encoder: TextEncoder, settings: UnsupervisedSimcseSettings) -> None:
        super().__init__(encoder, settings)
        encoder.set_dropout(settings.dropout)
