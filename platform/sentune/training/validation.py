"""Validation of a method as it stands, on all development corpora."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sentune.corpora.schema import Corpus
from sentune.encoders import Tokenizer, length_sorted_chunks
from sentune.methods import SentenceMethod
from sentune.readouts.grid import Grids
from sentune.tasks import Result, evaluate, tasks_for
from sentune.tasks.references import References
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.settings import TrainingSettings


class Validator:
    """Embeds the sentences of the development corpora and runs their tasks.

    The sentences are tokenised once, at the first validation.

    Args:
        references: sentences that interpretations are taken against.
        grids: of readouts, where they differ from the method's.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        tokenizer: Tokenizer,
        settings: TrainingSettings,
        device: torch.device,
        references: References | None = None,
        grids: Grids | None = None,
    ) -> None:
        self._tasks = tasks_for(*corpora, references=references, grids=grids)
        self._tokenizer, self._settings, self._device = tokenizer, settings, device
        self._tokens: tuple[list[str], list[np.ndarray]] = ([], [])

    def validate(self, method: SentenceMethod) -> Result:
        """Metrics, best readouts and tables; the method is left in training mode."""
        method.eval()
        try:
            return evaluate(self._tasks, lambda s: self._embed(method, s), method.geometry)
        finally:
            method.train()

    @torch.inference_mode()
    def _embed(self, method: SentenceMethod, sentences: list[str]) -> Tensor:
        rows, size = self._tokenise(sentences), sentences_at_a_time(self._device)
        chunks, restore = length_sorted_chunks(rows, size, self._tokenizer.pad_id)
        with autocast(self._settings.precision, self._device):
            parts = [method.embed(*chunk.to(self._device)) for chunk in chunks]
        return torch.cat(parts)[restore.to(self._device)]

    def _tokenise(self, sentences: list[str]) -> list[np.ndarray]:
        if self._tokens[0] != sentences:
            rows = self._tokenizer.encode(sentences, self._settings.max_length)
            self._tokens = (sentences, rows)
        return self._tokens[1]
