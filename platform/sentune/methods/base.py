"""Base classes of methods: an encoder, a geometry, a loss, and settings with the paper's defaults.

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
from sentune.errors import InvalidValue
from sentune.geometry.base import Geometry
from sentune.readouts.grid import Readout

Gather = Callable[[Tensor], Tensor]

TRAINED_ON = (
    Kind.TRIPLETS, Kind.SENTENCE_PAIRS, Kind.LABELLED_PAIRS, Kind.ADJACENT_SENTENCES,
    Kind.SENTENCES,
)  # fmt: skip
"""Kinds of corpora that a ``SentenceMethod`` can train on."""


class Settings(BaseModel):
    """Base class of settings with validated values; the string under a field is its help text."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class MethodSettings(Settings):
    """Settings common to all methods that embed sentences; subclasses add their own."""

    pooling: Pooling = "cls"
    """Sentence vector: the last hidden state of [CLS], or the mean or maximum over the tokens."""
    temperature: float = Field(0.05, gt=0.0)
    """tau of the contrastive loss; 0.05 in SimCSE, GaussCSE and GumbelCSE."""


class GradientMethod(nn.Module, ABC):
    """Base class of all methods that are trained by gradient.

    Attributes:
        name: key of the method in ``sentune.methods``.
        title: name of the method in texts.
        settings_type: class of its settings.
        recipe: key in ``sentune.training.recipes``, which build, train, validate and save methods.
        kind: kind of corpus that it trains on.
        objective: default metric by which the best checkpoint is chosen.
        readouts: readouts to sweep on the trained model, each with the paper's grid.
        training_defaults: the paper's defaults of training settings.
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
        """Return the columns of the corpus that it trains on."""

    @property
    @abstractmethod
    def geometry(self) -> Geometry:
        """The geometry that compares two embeddings of this method."""

    def rated_parameters(self, learning_rate: float) -> list[tuple[list[nn.Parameter], float]]:
        """Return groups of trainable parameters with their highest learning rates.

        By default there is one group, with the ``learning_rate`` of the training settings.
        """
        return [([p for p in self.parameters() if p.requires_grad], learning_rate)]

    def after_step(self) -> None:
        """Change the weights after each update; the default does nothing."""

    def collapsed(self, loss: float, anchors: int) -> bool:
        """Return whether a mean loss is the one of a model that can no longer learn.

        Args:
            loss: mean over the anchors of a step.
            anchors: number of anchors of the step on all workers.
        """
        return False


class SentenceMethod(GradientMethod):
    """Base class of methods that embed sentences and train the embeddings by a loss.

    Attributes:
        roles: role in the loss -> column of the corpus that is embedded for it.
        codes: columns of the corpus with one code per row, such as ``label``.
        loss_modules: modules that only the loss uses and that a model folder omits.
    """

    recipe: ClassVar[str] = "sentences"
    settings_type: ClassVar[type[MethodSettings]]
    objective: ClassVar[str] = "direction/accuracy"
    kind: ClassVar[Kind] = Kind.TRIPLETS
    roles: ClassVar[Mapping[str, str]] = {r: r for r in ("anchor", "positive", "negative")}
    codes: ClassVar[tuple[str, ...]] = ()
    loss_modules: ClassVar[tuple[str, ...]] = ()

    def __init__(self, encoder: TextEncoder, settings: MethodSettings) -> None:
        super().__init__()
        self.encoder = encoder
        self.settings = settings

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the columns of the roles and of the codes."""
        return tuple(dict.fromkeys((*cls.roles.values(), *cls.codes)))

    @abstractmethod
    def head(self, vectors: Tensor) -> Tensor:
        """Return packed embeddings from vectors of the encoder, [N, H] -> [N, D]."""

    @abstractmethod
    def loss(self, embeddings: Mapping[str, Tensor], gather: Gather, offset: int = 0) -> Tensor:
        """Return the sum of the losses of the local anchors, a scalar.

        Args:
            embeddings: role -> [B, D]; column of ``codes`` -> [B].
            gather: function from local rows to the rows of all workers, with gradients.
            offset: index of the first local anchor among the gathered rows.
        """

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return packed embeddings of token ids and mask, [N, L] each -> [N, D].

        The head computes in full precision also under autocast.
        """
        vectors = self.encoder(input_ids, attention_mask, self.settings.pooling)
        with torch.autocast(vectors.device.type, enabled=False):
            return self.head(vectors)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return ``embed``; DistributedDataParallel requires calls to go through ``forward``."""
        return self.embed(input_ids, attention_mask)


def checked(kind: type[Any]) -> type[SentenceMethod]:
    """Return a user's class if it is a complete ``SentenceMethod``.

    Raises:
        InvalidValue: it is not a subclass, or lacks an attribute or a method.
    """
    if not isinstance(kind, type) or not issubclass(kind, SentenceMethod):
        raise InvalidValue("method", kind, "give a class derived from sentune.SentenceMethod")
    missing = [name for name in ("title", "settings_type") if not hasattr(kind, name)]
    if missing := [*missing, *sorted(kind.__abstractmethods__)]:
        raise InvalidValue("method", kind.__qualname__, f"define {', '.join(missing)} in it")
    own = kind.settings_type
    if not (isinstance(own, type) and issubclass(own, Settings) and "pooling" in own.model_fields):
        fix = "give a class derived from sentune.MethodSettings"
        raise InvalidValue(f"settings_type of {kind.__qualname__}", own, fix)
    if kind.kind not in TRAINED_ON:
        fix = f"choose one of {', '.join(TRAINED_ON)}"
        raise InvalidValue(f"kind of {kind.__qualname__}", kind.kind, fix)
    kind.kind = Kind(kind.kind)
    return kind
