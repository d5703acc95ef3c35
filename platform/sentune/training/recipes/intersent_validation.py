"""Validation of InterSent as it stands: operations decoded to sentences, and comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sentune.corpora.schema import OPERATIONS, Corpus
from sentune.encoders import Tokenizer
from sentune.methods.intersent import Intersent
from sentune.tasks import Result, evaluate, tasks_for
from sentune.training.precision import autocast, embed_rows, sentences_at_a_time
from sentune.training.settings import TrainingSettings


class IntersentValidator:
    """Carries out the operations of the development corpora, and poses their other tasks.

    Each distinct sentence is tokenised once, at the first validation.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        tokenizer: Tokenizer,
        settings: TrainingSettings,
        device: torch.device,
    ) -> None:
        self._tasks = tasks_for(*corpora)
        self._tokenizer, self._settings, self._device = tokenizer, settings, device
        self._tokens: dict[str, np.ndarray] = {}

    def validate(self, method: Intersent) -> Result:
        """Metrics, best readouts and tables; the method is left in training mode."""
        method.eval()
        try:
            return evaluate(
                self._tasks,
                lambda sentences: self.embed(method, sentences),
                method.geometry,
                generate=lambda operation, first, second: self.generate(
                    method, operation, first, second
                ),
            )
        finally:
            method.train()

    @torch.inference_mode()
    def embed(self, method: Intersent, sentences: Sequence[str]) -> Tensor:
        """S sentences -> [S, D]."""
        return embed_rows(
            method.embed,
            self._tokenise(sentences),
            pad_id=self._tokenizer.pad_id,
            precision=self._settings.precision,
            device=self._device,
        )

    @torch.inference_mode()
    def generate(
        self,
        method: Intersent,
        operation: str,
        first: Sequence[str],
        second: Sequence[str] | None,
    ) -> list[str]:
        """Greedily decoded results; sentences of like length are decoded together."""
        if not first:
            return []
        embeddings = self.embed(method, first)
        others = embeddings[:0] if second is None else self.embed(method, second)
        codes = torch.full((len(first),), OPERATIONS.index(operation), device=self._device)
        outputs = method.operate(codes, embeddings, others)
        rows = self._tokenise(first)
        order = np.argsort([-len(row) for row in rows], kind="stable")
        texts: list[str] = [""] * len(order)
        for at in range(0, len(order), sentences_at_a_time(self._device)):
            places = order[at : at + sentences_at_a_time(self._device)]
            for place, text in zip(places, self._decode(method, outputs[places]), strict=True):
                texts[place] = text
        return texts

    def _decode(self, method: Intersent, embeddings: Tensor) -> list[str]:
        with autocast(self._settings.precision, self._device):
            ids = method.decode(embeddings, max_length=self._settings.max_length)
        return method.decoder.texts(ids)

    def _tokenise(self, sentences: Sequence[str]) -> list[np.ndarray]:
        fresh = [s for s in dict.fromkeys(sentences) if s not in self._tokens]
        encoded = self._tokenizer.encode(fresh, self._settings.max_length)
        self._tokens.update(zip(fresh, encoded, strict=True))
        return [self._tokens[s] for s in sentences]
