"""The interface between the training loop and a family of methods."""

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
"""Function from column -> lists of ids of all rows of a global batch to this worker's part of the
mean loss, detached and multiplied by the world size. It sets ``.grad`` of the parameters to the
gradient of the mean loss of the global batch, equal on all workers."""


class Validator(ABC):
    """Evaluates a method on the tasks of the development corpora."""

    def __init__(self, spec: TrialSpec, settings: TrainingSettings, device: torch.device) -> None:
        references = spec.references.open() if spec.references is not None else None
        dev = spec.dev.open()
        whole = tasks_for(*dev, references=references, grids=spec.readouts)
        self._final = self._rung = Judged(whole)
        if spec.rung_rows:
            self._rung = at_rung(dev, references, spec.readouts, spec.rung_rows) or self._final
        self._spec, self._settings, self._device = spec, settings, device

    def validate(self, method: Any, *, rung: bool = False) -> Result:
        """Return metrics, best readouts and tables; the method is in training mode afterwards.

        Args:
            rung: whether to use at most ``spec.rung_rows`` rows of each corpus and coarser sweeps
                of interpretations. The metrics then include ``PART``, unless no corpus is larger
                and no interpretations are swept.
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
    """The tasks of a validation, and the rows of its largest corpus if it uses parts, else 0."""

    tasks: Tasks
    part: int = 0


INTERPRETED = 250
"""Maximum pairs whose interpretations are swept at a rung."""


def at_rung(
    dev: Sequence[Corpus], references: References | None, grids: Grids, rows: int
) -> Judged | None:
    """Return the tasks of a rung, or None if they are those of the final validation.

    Interpretations are swept for at most ``INTERPRETED`` pairs, with the references and readouts of
    ``coarse``. At the first rungs all boxes overlap, and a pair takes time quadratic in the number
    of references. The limit is not in seconds, so that a trial is the same on any machine.
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
    """Builds, trains, validates and saves the methods of one family.

    ``folder`` is the folder in ``TrialSpec.encoder`` with everything from which a method is built:
    an encoder with its tokenizer, an encoder and a decoder, or word vectors.
    """

    def build(
        self, make: Callable[..., Any], training: TrainingSettings, folder: str
    ) -> GradientMethod:
        """Return the method on the CPU in float32, initialised by torch's global generator.

        Args:
            make: class of the method with its settings bound; called with its parts.

        Raises:
            InvalidValue: ``folder`` is incomplete, or the settings do not fit its contents.
        """

    def backward(
        self, method: Any, training: TrainingSettings, group: Group, folder: str
    ) -> Backward:
        """Return the function that computes loss and gradient of a batch.

        With several workers, this first broadcasts the weights of rank 0.
        """

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> Validator:
        """Return the validator on ``spec.dev``."""

    def write(self, method: Any, source: str, folder: Path, training: TrainingSettings) -> None:
        """Write what is needed to use a method (on the CPU in float32) into a model folder.

        ``source`` is the folder from which it was built, for tokenizers and words.
        """

    def read(self, make: Callable[..., Any], folder: Path) -> GradientMethod:
        """Return the method of a model folder, on the CPU in float32; for ``make`` see ``build``.

        Raises:
            InvalidValue: a file or weight is missing or does not fit. (No weight may stay random.)
        """
