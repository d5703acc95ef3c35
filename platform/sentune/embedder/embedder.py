"""The product of a study: load a model, encode sentences, compare them, decide.

Legend: N = sentences, F = numbers that a classifier sees of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sentune.embedder.encode import Comparing
from sentune.embedder.interpret import Interpretation, interpret
from sentune.embedder.operations import Operations
from sentune.embedder.references import StoredReferences
from sentune.encoders import Tokenizer, WordTokenizer
from sentune.errors import InvalidValue
from sentune.methods.base import SentenceMethod
from sentune.tasks.base import ModelTask, Result, Task, evaluate

if TYPE_CHECKING:
    from sentune.embedder.index import Found
    from sentune.methods.invertible import ComponentFrom


class Embedder(Comparing, Operations):
    """A trained model with everything it needs to be used.

    Example::

        embedder = Embedder.load("studies/gumbel/model")
        embedder.entails("A poodle runs.", "A dog runs.").decision
        embedder.direction("A poodle runs.", "A dog runs.").entailing  # "first"

    Attributes:
        method: the trained method.
        settings: what it was trained with.
        readouts: ``task/readout`` -> value chosen on the development set.
        card: the model card's text; empty if there is none.
        references: sentences that interpretations are taken against; None if it has none.
        tokenizer: of the method's encoder.
        device: where it computes.
        max_length: most tokens of a sentence.
    """

    def __init__(
        self,
        method: SentenceMethod,
        tokenizer: Tokenizer | WordTokenizer,
        *,
        settings: Mapping[str, Any],
        readouts: Mapping[str, Any],
        card: str = "",
        references: StoredReferences | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.references = references
        self.device = device_of(device)
        self.method = method.to(self.device).eval()
        self.tokenizer = tokenizer
        self.settings, self.readouts, self.card = dict(settings), dict(readouts), card
        asked = self.settings.get("max_length") or method.encoder.max_length
        self.max_length = min(int(asked), method.encoder.max_length)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} on {self.device}>"

    @staticmethod
    def load(source: str | Path, device: str | torch.device | None = None) -> Embedder:
        """Return a model from its folder, or from the registry.

        Args:
            source: a ``model/`` folder that a study left, its URI, or ``models:/NAME@champion``.
            device: where to compute; the first GPU if there is one.

        Raises:
            InvalidValue: there is no model, or a file is not the one of its manifest; the message
                says which.
        """
        from sentune.embedder.load import load

        return load(source, device)

    def interpretations(
        self,
        sentence: str,
        k: int = 5,
        *,
        references: Sequence[str] | None = None,
        alpha_1: float | None = None,
        alpha_2: float | None = None,
    ) -> list[Interpretation]:
        """Return the reference sentences whose overlaps make the most distinct interpretations.

        GumbelCSE section 3.2, Eq. 13: the overlap of two boxes is an interpretation of a sentence
        where its coverage lies between alpha_1 and alpha_2.

        Args:
            k: how many at most.
            references: instead of those that are stored with the model.
            alpha_1, alpha_2: least and largest coverage, instead of the model's own.

        Raises:
            InvalidValue: the model has no boxes, or there are no references.
        """
        return interpret(self, sentence, k, references, alpha_1, alpha_2).interpretations

    def search(
        self, queries: Sequence[str], index: str | Path, *, k: int = 5, by: str = "similarity"
    ) -> list[list[Found]]:
        """Return for each query the k best sentences of an index, the best first.

        Args:
            index: folder that ``sentune index`` wrote with this model.
            by: ``similarity``; ``entailed``, how far the query entails the sentence found; or
                ``entailing``, how far that entails the query.

        Raises:
            InvalidValue: no such index or score, or the index was made by another model.
        """
        from sentune.embedder.index import SentenceIndex

        return SentenceIndex(index).search(self, queries, k=k, by=by)

    def features(self, sentences: Sequence[str], *, batch_size: int = 64) -> Tensor:
        """Return [N, F] for a linear classifier; the embeddings, unless a model has better."""
        return self.embed(sentences, batch_size=batch_size, show_progress=False)

    def require_component(
        self, component_from: ComponentFrom, option: str = "component_from"
    ) -> None:
        """Refuse another component than that of the corpus for a model without invertible decoders.

        Raises:
            InvalidValue: it has none, under the name of ``option``.
        """
        if component_from != "corpus" and self.name != "invertible":
            fix = f"{self.name} has no component of its own to remove; leave it out"
            raise InvalidValue(option, component_from, fix)

    def evaluate(
        self,
        tasks: Sequence[Task | ModelTask],
        readouts: Mapping[str, Any] | None = None,
        *,
        component_from: ComponentFrom = "corpus",
        batch_size: int = 64,
    ) -> Result:
        """Return metrics of tasks, and which of them the model cannot do and why.

        Args:
            readouts: the values to apply, such as ``self.readouts``; None to choose them here.
            component_from: of models with invertible decoders alone.
        """
        self.require_component(component_from)

        def embed(sentences: list[str]) -> Tensor:
            return self.embed_known(sentences, batch_size=batch_size)

        return evaluate(
            tasks,
            embed,
            self.geometry,
            readouts,
            features=lambda sentences: self.features(sentences, batch_size=batch_size),
            generate=self.generate if self.decodes else None,
        )


def device_of(asked: str | torch.device | None) -> torch.device:
    """Return the device that is asked for; of None the first GPU if there is one, else the CPU."""
    if asked is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA raises the latter
        fix = f"use cpu or a device that is there ({str(error).splitlines()[0]})"
        raise InvalidValue("device", str(asked), fix) from error
    return torch.device(asked)
