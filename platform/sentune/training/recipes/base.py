"""What the training loop asks of a family of methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sentune.methods.base import GradientMethod
from sentune.tasks import Result, tasks_for
from sentune.training.group import Group
from sentune.training.settings import TrainingSettings
from sentune.training.trial import TrialSpec

Rows = Sequence[np.ndarray]
Backward = Callable[[Mapping[str, Rows]], Tensor]
"""Column -> lists of ids of all rows of a global batch -> this worker's part of the loss, detached,
times the world size that averaging divides by. Leaves in ``.grad`` of every parameter the gradient
of the global batch's mean loss, the same on every worker."""


class Validator(ABC):
    """Judges a method as it stands by the tasks of the development corpora."""

    def __init__(self, spec: TrialSpec, settings: TrainingSettings, device: torch.device) -> None:
        references = spec.references.open() if spec.references is not None else None
        self._tasks = tasks_for(*spec.dev.open(), references=references, grids=spec.readouts)
        self._settings, self._device = settings, device

    def validate(self, method: Any) -> Result:
        """Return metrics, best readouts and tables; the method is left in training mode."""
        method.eval()
        try:
            return self._evaluate(method)
        finally:
            method.train()

    @abstractmethod
    def _evaluate(self, method: Any) -> Result: ...


class Recipe(Protocol):
    """How the methods of one family are built, trained, judged and kept.

    ``folder`` is what ``TrialSpec.encoder`` names: everything that a method is built from (an
    encoder with its tokenizer; an encoder and a decoder; word vectors).
    """

    def build(
        self, make: Callable[..., Any], training: TrainingSettings, folder: str
    ) -> GradientMethod:
        """Return the method on the CPU in float32, new weights drawn from torch's global generator.

        Args:
            make: the method's class with its settings; called with its parts.

        Raises:
            InvalidValue: ``folder`` does not hold what is needed, or the settings do not fit it.
        """

    def backward(
        self, method: Any, training: TrainingSettings, group: Group, folder: str
    ) -> Backward:
        """Loss and gradient of a batch; with several workers it first sends rank 0's weights."""

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> Validator:
        """Return the validator on ``spec.dev``, as the product will be judged."""

    def write(self, method: Any, source: str, folder: Path, training: TrainingSettings) -> None:
        """Put what is needed to use the method, on the CPU in float32, into a model folder.

        ``source`` is the folder that it was built from, for tokenizers and words.
        """

    def read(self, make: Callable[..., Any], folder: Path) -> GradientMethod:
        """Return the method of a model folder, on the CPU in float32; ``make`` as in ``build``.

        Raises:
            InvalidValue: what is missing or does not fit; weights that are absent must never
                become random ones.
        """
