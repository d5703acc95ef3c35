"""Validation of an invertible model as it stands: components first, then every representation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sentune.corpora.batches import BatchSource
from sentune.corpora.schema import Corpus
from sentune.methods.invertible import Invertible
from sentune.methods.invertible_representations import Representations
from sentune.readouts.grid import Grids, grid_of
from sentune.readouts.representation import REPRESENTATION
from sentune.tasks import Result, tasks_for
from sentune.tasks.representations import evaluate_representations
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.settings import TrainingSettings
from sentune.training.trial import Opens

SAMPLE_SEED = 0
"""Of the sample that components are fitted on: the same for every trial of a study."""


class InvertibleValidator:
    """Fits the components on a sample of the training corpus, then judges all representations.

    Args:
        corpora: development corpora.
        training: opens to the batches that the method trains on.
        grids: of readouts, where they differ from the method's.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        training: Opens,
        settings: TrainingSettings,
        device: torch.device,
        grids: Grids | None = None,
    ) -> None:
        self._tasks = tasks_for(*corpora, grids=grids)
        self._grid = grid_of(REPRESENTATION, grids or {})
        self._training, self._settings, self._device = training, settings, device
        self._sample: list[np.ndarray] | None = None

    def validate(self, method: Invertible) -> Result:
        """Metrics, best readouts and tables; the method is left in training mode.

        The method keeps the components. ``train/deviation`` is the Frobenius norm of
        ``W W^T - I``.
        """
        if self._sample is None:
            wanted = method.settings.component_sentences
            self._sample = sample(self._training.open(), wanted)
        method.eval()
        try:
            found = self._judge(method, self._sample)
        finally:
            method.train()
        found.metrics["train/deviation"] = method.decoder.deviation()
        return found

    def _judge(self, method: Invertible, sentences: Sequence[np.ndarray]) -> Result:
        represent = Representations(
            method, max_length=self._settings.max_length, size=sentences_at_a_time(self._device)
        )
        with torch.no_grad(), autocast(self._settings.precision, self._device):
            represent.fit(sentences)
            return evaluate_representations(
                self._tasks, represent, features=represent.features, grid=self._grid
            )


def sample(source: BatchSource, wanted: int) -> list[np.ndarray]:
    """At most ``wanted`` sentences with known words, from the first epoch's shuffled batches."""
    size = min(512, source.num_rows)
    found: list[np.ndarray] = []
    for batch in source.batches(size, SAMPLE_SEED):
        if batch.epoch or len(found) >= wanted:
            break
        found += [row for row in batch.columns["text"] if len(row)]
    return found[:wanted]
