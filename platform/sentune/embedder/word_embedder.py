"""Embedding with a method on word vectors; used like any other model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sentune.embedder.embedder import Embedder
from sentune.geometry.base import Geometry
from sentune.geometry.points import Points
from sentune.methods.closed_form import ClosedForm


class WordEmbedder(Embedder):
    """A fitted method at one value of its readout; its embeddings are points.

    Attributes:
        fitted: the method.
        value: of its readout (components removed, units).
    """

    def __init__(
        self,
        fitted: ClosedForm,
        value: int,
        *,
        settings: Mapping[str, Any],
        readouts: Mapping[str, Any],
        card: str = "",
    ) -> None:
        self.fitted, self.value = fitted, value
        self.device = torch.device("cpu")
        self.settings, self.readouts, self.card = dict(settings), dict(readouts), card
        self.references = None

    @property
    def name(self) -> str:
        """Key of the method."""
        return self.fitted.name

    @property
    def geometry(self) -> Geometry:
        """Cosine of points."""
        return Points()

    def _embed_block(
        self, sentences: Sequence[str], batch_size: int, advance: Callable[[int], None]
    ) -> Tensor:
        found = torch.from_numpy(self.fitted.embed(sentences, self.value))
        advance(len(sentences))
        return found
