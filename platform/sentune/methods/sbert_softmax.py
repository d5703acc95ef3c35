"""SBERT: sentence vectors trained on labelled pairs by a classifier on both vectors of a pair.

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
"""The inputs of the classifier that Table 6 compares; the last is InferSent's."""


class SbertSoftmaxSettings(Settings):
    """Settings of the classification objective."""

    pooling: Pooling = "mean"
    """Sentence vector: the last hidden state of [CLS], or the mean or maximum over the tokens."""
    concatenation: Concatenation = "u;v;|u-v|"
    """Input of the classifier, from the vectors u of the premise and v of the hypothesis."""
    classifier_width: int | None = Field(None, ge=1)
    """Hidden units (tanh) of the classifier; none: a linear classifier."""


class SbertSoftmax(SentenceMethod):
    """Points trained by a classifier that predicts the label of a pair.

    The classifier is used in training only; embeddings are compared by their cosine.
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
        """Create the classifier for sentence vectors of ``width`` (None: that of the encoder)."""
        super().__init__(encoder, settings)  # type: ignore[arg-type]
        inputs = (width or encoder.width) * len(settings.concatenation.split(";"))
        hidden = settings.classifier_width
        self.classifier: nn.Module = nn.Linear(hidden or inputs, len(LABELS))
        if hidden:
            self.classifier = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), self.classifier)

    @property
    def geometry(self) -> Points:
        """Points compared by their cosine."""
        return Points()

    def head(self, vectors: Tensor) -> Tensor:
        """Return the vectors of the encoder unchanged."""
        return vectors

    def loss(self, embeddings: Mapping[str, Tensor], gather: Gather, offset: int = 0) -> Tensor:
        """Return the cross-entropy of the classifier's labels, summed over the local pairs.

        With the default settings the classifier is ``softmax(W (u, v, |u - v|))`` (section 3).
        """
        del gather, offset
        u, v = embeddings["premise"], embeddings["hypothesis"]
        parts = {"u": u, "v": v, "|u-v|": (u - v).abs(), "u*v": u * v}
        inputs = torch.cat([parts[name] for name in self.settings.concatenation.split(";")], dim=-1)
        return cross_entropy(self.classifier(inputs), embeddings["label"], reduction="sum")
