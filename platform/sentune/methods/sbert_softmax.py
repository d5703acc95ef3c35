"""SBERT trained on labelled pairs by a classifier over both sentence vectors.

Reimers, Gurevych: Sentence-BERT, 2019, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sentune.corpora.schema import LABELS, Kind
from sentune.encoders import Pooling, TextEncoder
from sentune.geometry.points import Points
from sentune.methods.base import Gather, MethodSettings, SentenceMethod, Settings

Concatenation = Literal["u;v", "|u-v|", "u*v", "|u-v|;u*v", "u;v;u*v", "u;v;|u-v|", "u;v;|u-v|;u*v"]
"""What Table 6 compares; the last one is InferSent's."""


class SbertSoftmaxSettings(Settings):
    """Settings of the classification objective."""

    pooling: Pooling = "mean"
    """Sentence vector: the last hidden state of [CLS], or the mean or the maxima over tokens."""
    concatenation: Concatenation = "u;v;|u-v|"
    """What the classifier sees of the premise's vector u and the hypothesis's v."""
    classifier_width: int | None = Field(None, ge=1)
    """Hidden units (tanh) of the classifier; none: it is linear."""


class SbertSoftmax(SentenceMethod):
    """Points, trained by the label that a classifier reads off a pair of them.

    The classifier is left out when sentences are embedded: they are compared by their cosine.
    """

    name: ClassVar[str] = "sbert-softmax"
    title: ClassVar[str] = "SBERT, softmax classifier"
    settings_type: ClassVar[type[MethodSettings]] = SbertSoftmaxSettings  # type: ignore[assignment]
    objective: ClassVar[str] = "rte/auc"
    kind: ClassVar[Kind] = Kind.LABELLED_PAIRS
    roles: ClassVar[Mapping[str, str]] = {"premise": "premise", "hypothesis": "hypothesis"}
    codes: ClassVar[tuple[str, ...]] = ("label",)
    loss_modules: ClassVar[tuple[str, ...]] = ("classifier",)
    training_defaults: ClassVar[Mapping[str, Any]] = {
        "batch_size": 16,
        "learning_rate": 2e-5,
        "warmup": 0.1,
    }
    settings: SbertSoftmaxSettings  # type: ignore[assignment]

    def __init__(
        self, encoder: TextEncoder, settings: SbertSoftmaxSettings, width: int | None = None
    ) -> None:
        """Take sentence vectors of ``width`` numbers; None: as wide as the encoder."""
        super().__init__(encoder, settings)  # type: ignore[arg-type]
        inputs = (width or encoder.width) * len(settings.concatenation.split(";"))
        hidden = settings.classifier_width
        self.classifier: nn.Module = nn.Linear(hidden or inputs, len(LABELS))
        if hidden:
            self.classifier = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), self.classifier)

    @property
    def geometry(self) -> Points:
        """Cosine."""
        return Points()

    def head(self, vectors: Tensor) -> Tensor:
        """Return the encoder's vectors as they are."""
        return vectors

    def loss(self, embeddings: Mapping[str, Tensor], gather: Gather, offset: int = 0) -> Tensor:
        """Cross entropy of ``softmax(W (u, v, |u - v|))`` and the labels, summed over the local
        pairs."""
        del gather, offset
        u, v = embeddings["premise"], embeddings["hypothesis"]
        parts = {"u": u, "v": v, "|u-v|": (u - v).abs(), "u*v": u * v}
        seen = torch.cat([parts[name] for name in self.settings.concatenation.split(";")], dim=-1)
        return cross_entropy(self.classifier(seen), embeddings["label"], reduction="sum")
