"""A method with its encoder, ready to train or to load weights into."""

from __future__ import annotations

import torch

from sentune.encoders import load
from sentune.errors import InvalidValue
from sentune.methods import MethodSettings, SentenceMethod
from sentune.training.settings import TrainingSettings


def build_method(
    kind: type[SentenceMethod],
    settings: MethodSettings,
    training: TrainingSettings,
    encoder: str,
    seed: int,
) -> SentenceMethod:
    """The method on the CPU, its new weights drawn from ``seed`` and in the training's precision.

    Raises:
        InvalidValue: the encoder cannot take sentences of ``max_length`` tokens.
    """
    torch.manual_seed(seed)
    text_encoder = load(encoder)
    if training.max_length > text_encoder.max_length:
        fix = f"the encoder takes at most {text_encoder.max_length} tokens"
        raise InvalidValue("max_length", training.max_length, fix)
    method = kind(text_encoder, settings)
    return method.double() if training.precision == "float64" else method
