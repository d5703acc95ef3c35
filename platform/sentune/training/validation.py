"""Validation of a method as it stands, on all development corpora."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sentune.beats import beat
from sentune.corpora.schema import Corpus
from sentune.encoders import Tokenizer, length_sorted_chunks
from sentune.readouts.grid import Grids
from sentune.tasks import Result, evaluate, tasks_for
from sentune.tasks.references import References
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.settings import TrainingSettings


class Validator:
    """Embeds the sentences of the development corpora and runs their tasks.

    Each distinct sentence is tokenised once, at the first validation.

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
        self._tokens: dict[str, np.ndarray] = {}

    def validate(self, method: Any) -> Result:
        """Return metrics, best readouts and tables; the method is left in training mode."""
        method.eval()
        try:
            return self._evaluate(method)
        finally:
            method.train()

    def _evaluate(self, method: Any) -> Result:
        return evaluate(self._tasks, partial(self.embed, method), method.geometry)

    @torch.inference_mode()
    def embed(self, method: Any, sentences: Sequence[str]) -> Tensor:
        """S sentences -> [S, D] in their order; those of like length go together."""
        rows, device = self._tokenise(sentences), self._device
        chunks, restore = length_sorted_chunks(
            rows, sentences_at_a_time(device), self._tokenizer.pad_id
        )
        parts = []
        with autocast(self._settings.precision, device):
            for done, chunk in enumerate(chunks):
                beat("validating", done=done, total=len(chunks))
                parts.append(method.embed(*chunk.to(device)))
        return torch.cat(parts)[restore.to(device)]

    def _tokenise(self, sentences: Sequence[str]) -> list[np.ndarray]:
        if fresh := [s for s in dict.fromkeys(sentences) if s not in self._tokens]:
            beat("tokenising", total=len(fresh))
            encoded = self._tokenizer.encode(fresh, self._settings.max_length)
            self._tokens.update(zip(fresh, encoded, strict=True))
        return [self._tokens[s] for s in sentences]
