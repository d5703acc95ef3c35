"""Validation of a method as it stands, on all development corpora."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from sentune.tasks import ModelTask, Result, Task, evaluate, tasks_for
from sentune.tasks.references import References
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.settings import TrainingSettings


class Validator(ABC):
    """Judges a method as it stands by the tasks of the development corpora."""

    def __init__(
        self, tasks: list[Task | ModelTask], settings: TrainingSettings, device: torch.device
    ) -> None:
        self._tasks, self._settings, self._device = tasks, settings, device

    def validate(self, method: Any) -> Result:
        """Return metrics, best readouts and tables; the method is left in training mode."""
        method.eval()
        try:
            return self._evaluate(method)
        finally:
            method.train()

    @abstractmethod
    def _evaluate(self, method: Any) -> Result: ...


class SentenceValidator(Validator):
    """Embeds the sentences of the development corpora; tokenises each distinct one once.

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
        tasks = tasks_for(*corpora, references=references, grids=grids)
        super().__init__(tasks, settings, device)
        self._tokenizer = tokenizer
        self._tokens: dict[str, np.ndarray] = {}

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
