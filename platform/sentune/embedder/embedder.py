"""The product of a study: load a model, encode sentences, compare them, decide.

Legend: N = sentences, F = numbers that a classifier sees of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sentune.embedder import operations
from sentune.embedder.compare import Comparing
from sentune.embedder.interpret import Interpretation, interpretations
from sentune.embedder.load import folder_of, load_trained, method_in
from sentune.embedder.operating import Operating
from sentune.embedder.references import StoredReferences
from sentune.encoders import Tokenizer
from sentune.errors import InvalidValue
from sentune.methods import CLOSED_FORM
from sentune.methods.base import SentenceMethod
from sentune.tasks.base import ModelTask, Result, Task
from sentune.tasks.evaluate import evaluate


class Embedder(Comparing, Operating):
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
    """

    def __init__(
        self,
        method: SentenceMethod,
        tokenizer: Tokenizer,
        *,
        settings: Mapping[str, Any],
        readouts: Mapping[str, Any],
        card: str = "",
        references: StoredReferences | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.references = references
        self.device = _device(device)
        self.method = method.to(self.device).eval()
        self.tokenizer = tokenizer
        self.settings, self.readouts, self.card = dict(settings), dict(readouts), card
        asked = self.settings.get("max_length") or method.encoder.max_length
        self.max_length = min(int(asked), method.encoder.max_length)

    @classmethod
    def load(cls, source: str | Path, device: str | torch.device | None = None) -> Embedder:
        """A model from its folder, or from the registry.

        Args:
            source: a ``model/`` folder that a study left, its URI, or ``models:/NAME@champion``.
            device: where to compute; the first GPU if there is one.

        Raises:
            InvalidValue: there is no model; the message says what is missing.
        """
        folder = folder_of(source)
        card = folder / "README.md"
        text = card.read_text(encoding="utf-8") if card.is_file() else ""
        name = method_in(folder)
        if name in CLOSED_FORM:
            return _word_embedder(folder, text)
        if name == "invertible":
            from sentune.embedder.invertible_embedder import InvertibleEmbedder

            return InvertibleEmbedder.load(folder, device)
        model = load_trained(folder)
        return cls(
            model.method,
            model.tokenizer,
            settings=model.settings,
            readouts=model.readouts,
            card=text,
            references=StoredReferences.load(folder),
            device=device,
        )

    def interpretations(
        self,
        sentence: str,
        k: int = 5,
        *,
        references: Sequence[str] | None = None,
        alpha_1: float | None = None,
        alpha_2: float | None = None,
    ) -> list[Interpretation]:
        """The reference sentences whose overlaps make the most distinct interpretations.

        GumbelCSE section 3.2, Eq. 13: the overlap of two boxes is an interpretation of a sentence
        where its coverage lies between alpha_1 and alpha_2.

        Args:
            sentence: to interpret.
            k: how many at most.
            references: instead of those that are stored with the model.
            alpha_1, alpha_2: instead of the model's own.

        Raises:
            InvalidValue: the model has no boxes, or there are no references.
        """
        return interpretations(self, sentence, k, references, alpha_1, alpha_2)

    def features(self, sentences: Sequence[str], *, batch_size: int = 64) -> Tensor:
        """[N, F] what a linear classifier is put on; the embeddings, unless a model has better."""
        return self.embed(sentences, batch_size=batch_size, show_progress=False)

    def evaluate(
        self,
        tasks: Sequence[Task | ModelTask],
        readouts: Mapping[str, Any] | None = None,
        *,
        batch_size: int = 64,
    ) -> Result:
        """Metrics of tasks, and which of them the model cannot do and why.

        Args:
            readouts: the values to apply, such as ``self.readouts``; None to choose them here.
        """

        def embed(sentences: list[str]) -> Tensor:
            return self.embed_known(sentences, batch_size=batch_size)

        return evaluate(
            tasks,
            embed,
            self.geometry,
            readouts,
            features=lambda sentences: self.features(sentences, batch_size=batch_size),
            generate=self.generate if operations.decodes(self) else None,
        )


def _device(asked: str | torch.device | None) -> torch.device:
    if asked is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA raises the latter
        fix = f"use cpu or a device that is there ({str(error).splitlines()[0]})"
        raise InvalidValue("device", str(asked), fix) from error
    return torch.device(asked)


def _word_embedder(folder: Path, card: str) -> Embedder:
    from sentune.embedder.word_embedder import WordEmbedder
    from sentune.training.closed_form_model import load_closed_form

    model = load_closed_form(folder)
    return WordEmbedder(
        model.method, model.value, settings=model.settings, readouts=model.readouts, card=card
    )
