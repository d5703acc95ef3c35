"""GumbelCSE: a sentence is a Gumbel box; the entailing one gets the smaller volume.

Representing Sentence Interpretations with Overlapping Box Embeddings, section 3.1.4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import Tensor, nn

from sentune.encoders import TextEncoder
from sentune.geometry.boxes import Boxes
from sentune.geometry.contrastive import TermWeights, contrastive_loss
from sentune.methods.base import Gather, MethodSettings, SentenceMethod
from sentune.readouts.grid import INTERPRETATION, Readout


class GumbelcseSettings(MethodSettings):
    """Settings of GumbelCSE, with the defaults of section 4.1.

    The paper does not state its Gumbel temperatures.
    """

    dimension: int = Field(16, ge=1)
    """Dimensions of a box; the linear layer has twice as many outputs."""
    intersection_temperature: float = Field(0.1, gt=0.0)
    """T of the Gumbel distributions of the corners; boxes become hard as it tends to 0."""
    volume_temperature: float | None = Field(None, gt=0.0)
    """T of the smoothed volume; none: that of the intersection, as in theory."""
    entailment_weight: float = Field(1.0, gt=0.0)
    """Weight of V_E, Eq. 8: P(positive | anchor) over the batch."""
    contradiction_weight: float = Field(1.0, ge=0.0)
    """Weight of V_C, Eq. 9: P(hard negative | anchor) over the batch."""
    reverse_weight: float = Field(1.0, ge=0.0)
    """Weight of V_R1, Eq. 10: P(anchor | positive) over the batch."""
    reverse_contradiction_weight: float = Field(1.0, ge=0.0)
    """Weight of V_R2, Eq. 11: P(anchor | hard negative) over the batch."""


class Gumbelcse(SentenceMethod):
    """One linear layer on the sentence vector gives the center and offset of a box."""

    name: ClassVar[str] = "gumbel"
    title: ClassVar[str] = "GumbelCSE"
    settings_type: ClassVar[type[MethodSettings]] = GumbelcseSettings
    readouts: ClassVar[tuple[Readout, ...]] = INTERPRETATION
    settings: GumbelcseSettings

    def __init__(self, encoder: TextEncoder, settings: GumbelcseSettings) -> None:
        super().__init__(encoder, settings)
        self.box = nn.Linear(encoder.width, 2 * settings.dimension)

    @property
    def geometry(self) -> Boxes:
        """Gumbel boxes compared by their overlap."""
        return Boxes(
            intersection_temperature=self.settings.intersection_temperature,
            volume_temperature=self.settings.volume_temperature,
        )

    @property
    def weights(self) -> TermWeights:
        """The weights of the four sums of the loss."""
        return TermWeights(
            entailment=self.settings.entailment_weight,
            contradiction=self.settings.contradiction_weight,
            reverse=self.settings.reverse_weight,
            reverse_contradiction=self.settings.reverse_contradiction_weight,
            reverse_orientation="hypotheses",
        )

    def head(self, vectors: Tensor) -> Tensor:
        """Return centers and offsets, packed, [N, H] -> [N, 2 * dimension]."""
        packed: Tensor = self.box(vectors)
        return packed

    def loss(self, embeddings: Mapping[str, Tensor], gather: Gather, offset: int = 0) -> Tensor:
        """Return Eq. 12, summed over the local anchors."""
        return contrastive_loss(
            embeddings["anchor"],
            embeddings["positive"],
            embeddings["negative"],
            geometry=self.geometry,
            weights=self.weights,
            temperature=self.settings.temperature,
            gather=gather,
            offset=offset,
        )

    def collapsed(self, loss: float, anchors: int) -> bool:
        """Return whether the loss is ln(B sum of weights), its value if no two boxes overlap.

        Every P is then 0. The loss uses P, not log P, so P and its gradient underflow (for example
        in 16 dimensions with T = 0.1 and gaps of 0.5).
        """
        w = self.weights
        terms = w.entailment + w.contradiction + w.reverse + w.reverse_contradiction
        return abs(loss - math.log(terms * anchors)) < 1e-4
