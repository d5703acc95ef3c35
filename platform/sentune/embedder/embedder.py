"""``Embedder``: a trained model that encodes and compares sentences.

Legend: N = sentences, F = features of a sentence for a classifier.
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
    """A trained model with its tokenizer, readouts and reference sentences.

    Example::

        embedder = Embedder.load("studies/gumbel/model")
        embedder.entails("A poodle runs.", "A dog runs.").decision
        embedder.direction("A poodle runs.", "A dog runs.").entailing  # "first"

    Attributes:
        method: the trained method.
        settings: settings of its training.
        readouts: ``task/readout`` -> value chosen on the development set.
        card: text of the model card, or empty.
        references: reference sentences of interpretations, or None.
        tokenizer: tokenizer of the method's encoder.
        device: device of the model.
        max_length: largest number of tokens of a sentence; longer ones are truncated.
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
        """Load a model from its folder, the registry or the hub.

        Args:
            source: ``model/`` folder of a study or its URI, ``models:/NAME@champion``, or a
                pretrained encoder, see ``load_pretrained``.
            device: device to compute on; None: the first GPU if there is one, else the CPU.

        Raises:
            InvalidValue: there is no model, or a file differs from the manifest; the message names
                the file.
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
        """Return the most distinct interpretations of a sentence.

        GumbelCSE section 3.2, Eq. 13: the overlap of a sentence's box with that of a reference
        sentence is an interpretation if its coverage lies between alpha_1 and alpha_2.

        Args:
            k: largest number of interpretations.
            references: reference sentences instead of those stored with the model.
            alpha_1, alpha_2: smallest and largest coverage instead of the model's readouts.

        Raises:
            InvalidValue: the model has no boxes, or there are no references.
        """
        return interpret(self, sentence, k, references, alpha_1, alpha_2).interpretations

    def search(
        self, queries: Sequence[str], index: str | Path, *, k: int = 5, by: str = "similarity"
    ) -> list[list[Found]]:
        """Return the k best sentences of an index for each query, the best first.

        Args:
            index: folder that ``sentune index`` wrote with this model.
            by: score: ``similarity``; ``entailed``, the entailment of the sentence by the query; or
                ``entailing``, the entailment of the query by the sentence.

        Raises:
            InvalidValue: there is no such index or score, or another model made the index.
        """
        from sentune.embedder.index import SentenceIndex

        return SentenceIndex(index).search(self, queries, k=k, by=by)

    def features(self, sentences: Sequence[str], *, batch_size: int = 64) -> Tensor:
        """Return features for a linear classifier, [N, F]; by default the embeddings."""
        return self.embed(sentences, batch_size=batch_size, show_progress=False)

    def require_component(
        self, component_from: ComponentFrom, option: str = "component_from"
    ) -> None:
        """Check that the model supports a value of ``component_from``.

        Raises:
            InvalidValue: the value is not ``corpus`` and the model has no invertible decoder.
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
        """Return the metrics of tasks; tasks that the model cannot do are skipped with a reason.

        Args:
            readouts: values to apply, such as ``self.readouts``; None: choose them on these tasks.
            component_from: for models with an invertible decoder only, see
                ``InvertibleEmbedder.represent``.
            batch_size: sentences per batch.

        Raises:
            InvalidValue: the model does not support ``component_from``.
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
    """Return the device of a name; of None the first GPU if there is one, else the CPU.

    Raises:
        InvalidValue: there is no such device.
    """
    if asked is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA raises the latter
        fix = f"use cpu or an available device ({str(error).splitlines()[0]})"
        raise InvalidValue("device", str(asked), fix) from error
    return torch.device(asked)
