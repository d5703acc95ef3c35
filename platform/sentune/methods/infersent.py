"""InferSent: maxima over the states of a bidirectional LSTM on fixed word vectors.

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
    """Defaults of sections 2.2 and 3.3."""

    pooling: Literal["max", "mean"] = "max"
    """Sentence vector: the maxima or the mean over the LSTM's states."""
    concatenation: Concatenation = "u;v;|u-v|;u*v"
    """What the classifier sees of the premise's vector u and the hypothesis's v."""
    classifier_width: int | None = Field(512, ge=1)
    """Hidden units (tanh) of the classifier; none: it is linear."""
    hidden_size: int = Field(2048, ge=1)
    """Units of a direction of the LSTM; a sentence vector has twice as many numbers."""


class Infersent(SbertSoftmax):
    """SBERT's predecessor: the same objective, another encoder.

    A sentence without a known word is one word with a vector of zeros. The paper takes SGD at 0.1,
    times 0.99 each epoch and a fifth after one without gain; here it is AdamW of all methods.
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
        """[N, L], [N, L] -> [N, 2 hidden_size]."""
        states = self.encoder.states(input_ids, attention_mask)
        mask = attention_mask.clone()
        mask[:, 0] = 1
        with torch.autocast(states.device.type, enabled=False):
            found = recurrent_states(self.lstm, states.to(self.encoder.dtype), mask.sum(1))
        return self.head(pool(found, mask, self.settings.pooling))
