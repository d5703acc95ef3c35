"""A method, ready to train or to load weights into."""

from __future__ import annotations

from typing import Any

import torch

from sentune.methods.base import GradientMethod
from sentune.training.recipes import recipe_of
from sentune.training.settings import TrainingSettings


def build_method(
    kind: type[Any], settings: Any, training: TrainingSettings, encoder: str, seed: int
) -> GradientMethod:
    """The method on the CPU, its new weights drawn from ``seed`` and in the training's precision.

    Raises:
        InvalidValue: as ``Recipe.build``.
    """
    torch.manual_seed(seed)
    method = recipe_of(kind).build(kind, settings, training, encoder)
    return method.double() if training.precision == "float64" else method
