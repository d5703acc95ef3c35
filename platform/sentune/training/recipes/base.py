"""What the training loop asks of a family of methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sentune.corpora.schema import Corpus, Kind
from sentune.corpora.stratified import stratified_part
from sentune.methods.base import GradientMethod
from sentune.readouts.grid import Grids
from sentune.records import PART
from sentune.tasks import ModelTask, References, Result, Task, tasks_for
from sentune.tasks.references import coarse
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
        dev = spec.dev.open()
        whole = tasks_for(*dev, references=references, grids=spec.readouts)
        self._final = self._rung = Judged(whole)
        if spec.rung_rows:
            self._rung = at_rung(dev, references, spec.readouts, spec.rung_rows) or self._final
        self._settings, self._device = settings, device

    def validate(self, method: Any, *, rung: bool = False) -> Result:
        """Return metrics, best readouts and tables; the method is left in training mode.

        Args:
            rung: judge on a part of ``spec.rung_rows`` of each corpus, and with coarser sweeps of
                interpretations; then the metrics have ``PART``. Where no corpus is larger and
                nothing is swept, the part is the whole.
        """
        judged = self._rung if rung else self._final
        method.eval()
        try:
            found = self._evaluate(method, judged.tasks)
        finally:
            method.train()
        if judged.part:
            found.metrics[PART] = float(judged.part)
        return found

    @abstractmethod
    def _evaluate(self, method: Any, tasks: Tasks) -> Result: ...


Tasks: TypeAlias = Sequence[Task | ModelTask]


class Judged(NamedTuple):
    """What a validation asks, and the rows of the largest part; 0: all of dev."""

    tasks: Tasks
    part: int = 0


INTERPRETED = 250
"""Pairs at most whose interpretations are swept at a rung."""


def at_rung(
    dev: Sequence[Corpus], references: References | None, grids: Grids, rows: int
) -> Judged | None:
    """Return what a rung asks; None where that is what the end asks.

    Interpretations are of at most ``INTERPRETED`` pairs, with the references and readouts of
    ``coarse``: at the first rungs all boxes overlap, and a pair costs the square of the references.
    The cap is on numbers, not on seconds, so that a trial is the same on any machine.
    """
    swept = {Kind.SEVERAL_LABELS, Kind.CONDITIONED_PAIRS} if references is not None else set()
    parts = [
        stratified_part(one, min(rows, INTERPRETED) if one.kind in swept else rows) for one in dev
    ]
    if references is not None and any(one.kind in swept for one in dev):
        references, grids = coarse(references, grids)
    elif all(part is one for part, one in zip(parts, dev, strict=True)):
        return None
    part = max(part.table.num_rows for part in parts)
    return Judged(tasks_for(*parts, references=references, grids=grids), part)


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
