"""Validation of a method as it stands, on all development corpora."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sentune.corpora.schema import Corpus
from sentune.encoders import Tokenizer
from sentune.methods import SentenceMethod
from sentune.readouts.grid import Grids
from sentune.tasks import Result, evaluate, tasks_for
from sentune.tasks.references import References
from sentune.training.precision import embed_rows
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
        return embed_rows(
            method.embed,
            self._tokenise(sentences),
            pad_id=self._tokenizer.pad_id,
            precision=self._settings.precision,
            device=self._device,
        )

    def _tokenise(self, sentences: list[str]) -> list[np.ndarray]:
        if self._tokens[0] != sentences:
            rows = self._tokenizer.encode(sentences, self._settings.max_length)
            self._tokens = (sentences, rows)
        return self._tokens[1]
