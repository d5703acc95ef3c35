"""Validation of InterSent as it stands: operations decoded to sentences, and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from sentune.corpora.schema import OPERATIONS
from sentune.methods.intersent import Intersent
from sentune.tasks import Result, evaluate
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.validation import Validator


class IntersentValidator(Validator):
    """Carries out the operations of the development corpora, and poses their other tasks."""

    def _evaluate(self, method: Intersent) -> Result:
        embed, generate = partial(self.embed, method), partial(self.generate, method)
        return evaluate(self._tasks, embed, method.geometry, generate=generate)

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
