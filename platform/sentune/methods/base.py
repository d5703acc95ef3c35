"""What a method is: an encoder, a geometry, a loss, and settings with the paper's defaults.

Legend: B = local anchors, N = sentences, L = tokens, D = packed width of the geometry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from sentune.corpora.schema import Kind
from sentune.encoders import Pooling, TextEncoder
from sentune.geometry.base import Geometry
from sentune.readouts.grid import Readout

Gather = Callable[[Tensor], Tensor]


class Settings(BaseModel):
    """Settings with checked values, described by the text under each."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class MethodSettings(Settings):
    """Settings that every method has; a method adds its own."""

    pooling: Pooling = "cls"
    """Sentence vector: the last hidden state of [CLS], or the mean or the maxima over tokens."""
    temperature: float = Field(0.05, gt=0.0)
    """tau of the contrastive loss; 0.05 in SimCSE, GaussCSE and GumbelCSE."""


class GradientMethod(nn.Module, ABC):
    """A model that is trained by gradient, whatever its batches hold.

    Attributes:
        name: key among ``sentune.methods``.
        title: what the method is called in a text.
        recipe: key in ``sentune.training.recipes``: how it is built, stepped, judged and kept.
        kind: kind of corpus that it trains on.
        objective: metric that its best checkpoint is chosen by, unless another is named.
        readouts: what is swept on the trained model, each with the paper's grid.
        training_defaults: defaults of the training's settings that are the paper's own.
        on_words: whether it is built from word vectors instead of an encoder.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    settings_type: ClassVar[type[Settings]]
    recipe: ClassVar[str]
    kind: ClassVar[Kind]
    objective: ClassVar[str]
    readouts: ClassVar[tuple[Readout, ...]] = ()
    training_defaults: ClassVar[Mapping[str, Any]] = {}
    on_words: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def columns(cls) -> tuple[str, ...]:
        """Columns of a batch that it trains on."""

    @property
    @abstractmethod
    def geometry(self) -> Geometry:
        """How two embeddings of this method are compared."""

    def rated_parameters(self, learning_rate: float) -> list[tuple[list[nn.Parameter], float]]:
        """Return groups of parameters with their highest learning rates: here one, at the run's
        ``learning_rate``."""
        return [([p for p in self.parameters() if p.requires_grad], learning_rate)]

    def after_step(self) -> None:
        """What is done to the weights after each update; nothing, unless a method says so."""

    def collapsed(self, loss: float, anchors: int) -> bool:
        """Return whether the mean loss over a step's anchors, those of all workers, is what a model
        that cannot learn any more has."""
        return False


class SentenceMethod(GradientMethod):
    """One paper: sentences to packed embeddings, and the loss that trains them.

    Attributes:
        roles: role in the loss -> column of the corpus it is embedded from.
        codes: columns of the corpus that hold a code in each row, such as ``label``.
        loss_modules: modules that only the loss uses; a model folder does not have them.
    """

    recipe: ClassVar[str] = "sentences"
    settings_type: ClassVar[type[MethodSettings]]
    objective: ClassVar[str] = "direction/accuracy"
    kind: ClassVar[Kind] = Kind.TRIPLETS
    roles: ClassVar[Mapping[str, str]] = {
        "anchor": "anchor",
        "positive": "positive",
        "negative": "negative",
    }

    codes: ClassVar[tuple[str, ...]] = ()
    loss_modules: ClassVar[tuple[str, ...]] = ()

    def __init__(self, encoder: TextEncoder, settings: MethodSettings) -> None:
        super().__init__()
        self.encoder = encoder
        self.settings = settings

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the columns that the roles are embedded from, and those of codes."""
        return tuple(dict.fromkeys((*cls.roles.values(), *cls.codes)))

    @abstractmethod
    def head(self, vectors: Tensor) -> Tensor:
        """[N, H] vectors of the encoder -> [N, D] packed embeddings."""

    @abstractmethod
    def loss(self, embeddings: Mapping[str, Tensor], gather: Gather, offset: int = 0) -> Tensor:
        """Sum of the local anchors' losses.

        Args:
            embeddings: role -> [B, D]; column of ``codes`` -> [B].
            gather: local rows -> rows of all workers, with gradients.
            offset: place of the first local anchor among the gathered rows.
        """

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[N, L], [N, L] -> [N, D]. The head computes in full precision under autocast."""
        vectors = self.encoder(input_ids, attention_mask, self.settings.pooling)
        with torch.autocast(vectors.device.type, enabled=False):
            return self.head(vectors)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """As ``embed``: DistributedDataParallel sees only what goes through forward."""
        return self.embed(input_ids, attention_mask)
