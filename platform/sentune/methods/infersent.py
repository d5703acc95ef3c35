"""InferSent: max pooling over the states of a bidirectional LSTM on fixed word vectors.

Conneau, Kiela, Schwenk, Barrault, Bordes: Supervised Learning of Universal Sentence
Representations from Natural Language Inference Data, 2017, sections 2 and 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from sentune.encoders import TextEncoder
from sentune.encoders.transformer import pool
from sentune.encoders.words.random import recurrent_states
from sentune.methods.base import MethodSettings
from sentune.methods.sbert_softmax import Concatenation, SbertSoftmax, SbertSoftmaxSettings


class InfersentSettings(SbertSoftmaxSettings):
    """Settings of InferSent, with the defaults of sections 2.2 and 3.3."""

    pooling: Literal["max", "mean"] = "max"
    """Sentence vector: the maximum or the mean over the states of the LSTM."""
    concatenation: Concatenation = "u;v;|u-v|;u*v"
    """Input of the classifier, from the vectors u of the premise and v of the hypothesis."""
    classifier_width: int | None = Field(512, ge=1)
    """Hidden units (tanh) of the classifier; none: a linear classifier."""
    hidden_size: int = Field(2048, ge=1)
    """Units of each direction of the LSTM; a sentence vector is twice as wide."""


class Infersent(SbertSoftmax):
    """The classification objective of ``SbertSoftmax`` on a bidirectional LSTM.

    A sentence without known words is treated as one word with a zero vector. The paper trains by
    SGD with a learning rate of 0.1, multiplied by 0.99 each epoch and by 0.2 after an epoch without
    improvement; here AdamW is used, as for all methods.
    """

    name: ClassVar[str] = "infersent"
    title: ClassVar[str] = "InferSent"
    settings_type: ClassVar[type[MethodSettings]] = InfersentSettings  # type: ignore[assignment]
    on_words: ClassVar[bool] = True
    training_defaults: ClassVar[Mapping[str, Any]] = {"batch_size": 64, "learning_rate": 1e-3}
    settings: InfersentSettings

    def __init__(self, encoder: TextEncoder, settings: InfersentSettings) -> None:
        super().__init__(encoder, settings, 2 * settings.hidden_size)
        size = settings.hidden_size
        self.lstm = nn.LSTM(encoder.width, size, batch_first=True, bidirectional=True)

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return sentence vectors of word ids and mask, [N, L] each -> [N, 2 hidden_size]."""
        states = self.encoder.states(input_ids, attention_mask)
        mask = attention_mask.clone()
        mask[:, 0] = 1
        with torch.autocast(states.device.type, enabled=False):
            found = recurrent_states(self.lstm, states.to(self.encoder.dtype), mask.sum(1))
        return self.head(pool(found, mask, self.settings.pooling))
