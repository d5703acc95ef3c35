"""Methods with invertible decoders: trained on adjacent sentences as rows of a word table.

They are judged as they stand: components first, then every representation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from sentune.corpora.batches import BatchSource
from sentune.corpora.encode import WordEncoder
from sentune.corpora.schema import Corpus
from sentune.encoders.words import WordTable
from sentune.encoders.words.fixed import FixedVectors
from sentune.encoders.words.whole import load_whole, read_counts, save_whole
from sentune.methods.invertible import Invertible
from sentune.methods.invertible_representations import Representations
from sentune.readouts.grid import Grids, grid_of
from sentune.readouts.representation import REPRESENTATION
from sentune.tasks import Result, tasks_for
from sentune.tasks.variants import evaluate_representations
from sentune.training.group import Group
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.recipes.invertible_backward import InvertibleBackward
from sentune.training.recipes.sentences import head_state, load_head, require
from sentune.training.settings import TrainingSettings
from sentune.training.trial import Opens, TrialSpec

WEIGHTS_FILE, WORDS = "weights.safetensors", "words"

SAMPLE_SEED = 0
"""Of the sample that components are fitted on: the same for every trial of a study."""


class InvertibleRecipe:
    """See ``sentune.training.recipes.base.Recipe``; the folder is one of ``training_folder``.

    A model folder has ``weights.safetensors`` (encoder, decoder and the removed components) and
    ``words/``, the whole word table.
    """

    def table_encoder(self, folder: str, max_length: int) -> WordEncoder:
        return WordEncoder(WordTable.load(folder), max_length)

    def build(
        self, make: Callable[..., Invertible], training: TrainingSettings, folder: str
    ) -> Invertible:
        return make(FixedVectors(WordTable.load(folder)))

    def backward(
        self, method: Invertible, training: TrainingSettings, group: Group, folder: str
    ) -> InvertibleBackward:
        return InvertibleBackward(method, training, group, read_counts(folder))

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> InvertibleValidator:
        return InvertibleValidator(spec.dev.open(), spec.corpus, training, device, spec.readouts)

    def write(
        self, method: Invertible, source: str, folder: Path, training: TrainingSettings
    ) -> None:
        save_file(head_state(method, ()), folder / WEIGHTS_FILE)
        save_whole(method.vectors.table, folder / WORDS)

    def read(self, make: Callable[..., Invertible], folder: Path) -> Invertible:
        require(folder, WEIGHTS_FILE)
        method = make(FixedVectors(load_whole(folder / WORDS)))
        load_head(method, folder / WEIGHTS_FILE, ())
        return method


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
        size = sentences_at_a_time(self._device)
        method.eval()
        try:
            represent = Representations(method, max_length=self._settings.max_length, size=size)
            with torch.no_grad(), autocast(self._settings.precision, self._device):
                represent.fit(self._sample)
                found = evaluate_representations(
                    self._tasks, represent, features=represent.features, grid=self._grid
                )
        finally:
            method.train()
        found.metrics["train/deviation"] = method.decoder.deviation()
        return found


def sample(source: BatchSource, wanted: int) -> list[np.ndarray]:
    """At most ``wanted`` sentences with known words, from the first epoch's shuffled batches."""
    size = min(512, source.num_rows)
    found: list[np.ndarray] = []
    for batch in source.batches(size, SAMPLE_SEED):
        if batch.epoch or len(found) >= wanted:
            break
        found += [row for row in batch.columns["text"] if len(row)]
    return found[:wanted]
