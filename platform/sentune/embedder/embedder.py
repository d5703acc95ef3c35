"""``Embedder``: a trained model that encodes and compares sentences, and its variants.

Legend: N = sentences, F = features of a sentence for a classifier, D = width of an embedding,
d_z = width of a sentence vector, n = width of a word vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sentune.embedder.encode import listed
from sentune.embedder.interpret import Interpretation, interpret
from sentune.embedder.load import read_model
from sentune.embedder.operations import Operations
from sentune.embedder.pretrained import PREFIXES, Encode, pretrained_encoder
from sentune.embedder.references import StoredReferences
from sentune.encoders import Tokenizer, WordTokenizer
from sentune.errors import InvalidValue
from sentune.geometry.points import Points
from sentune.methods.base import SentenceMethod
from sentune.methods.closed_form import ClosedForm
from sentune.methods.invertible import ComponentFrom, Invertible
from sentune.methods.invertible_representations import Representations
from sentune.readouts.grid import REPRESENTATION
from sentune.tasks.base import ModelTask, Result, Task, evaluate
from sentune.tasks.variants import SHIPPED, evaluate_representations

if TYPE_CHECKING:
    from sentune.embedder.index import Found


class Embedder(Operations):
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
                pretrained encoder, see ``pretrained_encoder``.
            device: device to compute on; None: the first GPU if there is one, else the CPU.

        Raises:
            InvalidValue: there is no model, or a file differs from the manifest; the message names
                the file.
        """
        if str(source).startswith(PREFIXES):
            place = device_of(device)
            return PointEmbedder(str(source), pretrained_encoder(str(source), place), place)
        (method, tokenizer, settings, readouts), folder, card = read_model(source)
        stored: Any = {"settings": settings, "readouts": readouts, "card": card}
        if isinstance(method, ClosedForm):
            embed = partial(_fitted_rows, method, int(readouts[method.axis.name]))
            return PointEmbedder(method.name, embed, torch.device("cpu"), **stored)
        if tokenizer is None:
            return InvertibleEmbedder(method, device_of(device), **stored)
        references = StoredReferences.load(folder)
        return Embedder(method, tokenizer, references=references, device=device, **stored)

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
        embed = partial(self.embed_known, batch_size=batch_size)
        features = partial(self.features, batch_size=batch_size)
        generate = self.generate if self.decodes else None
        return evaluate(tasks, embed, self.geometry, readouts, features=features, generate=generate)


class PointEmbedder(Embedder):
    """An ``Embedder`` of points, compared by their cosine, without reference sentences.

    Args:
        name: name of the method, or source of a pretrained or random encoder.
        embed: function of sentences and a batch size, see ``Encode``.
        device: device of the model.
        settings, readouts, card: as in ``Embedder``.
    """

    method: SentenceMethod | None  # type: ignore[assignment]
    max_length: int | None  # type: ignore[assignment]

    def __init__(
        self,
        name: str,
        embed: Encode,
        device: torch.device,
        *,
        settings: Mapping[str, Any] | None = None,
        readouts: Mapping[str, Any] | None = None,
        card: str = "",
    ) -> None:
        self.device, self.references, self.card = device, None, card
        self.settings, self.readouts = dict(settings or {"encoder": name}), dict(readouts or {})
        self.method = self.max_length = None
        self._name, self._embed = name, embed

    @property
    def name(self) -> str:
        return self._name

    @property
    def geometry(self) -> Points:
        return Points()

    def _embed_block(
        self, sentences: Sequence[str], batch_size: int, advance: Callable[[int], None]
    ) -> Tensor:
        found = self._embed(list(sentences), batch_size)
        advance(len(sentences))
        return found


class InvertibleEmbedder(PointEmbedder):
    """A trained model with an invertible decoder, which has several representations.

    Attributes:
        representation: representation that ``embed`` and ``encode`` return: ``ensemble``, ``z_en``,
            ``z_de`` or another of ``Postprocessing.forward``. The default is the readout
            ``representation``, else ``sts/representation``, else ``ensemble``.
    """

    method: Invertible  # type: ignore[assignment]
    max_length: int

    def __init__(self, method: Invertible, device: torch.device, **stored: Any) -> None:
        super().__init__(method.name, self._represented, device, **stored)
        self.method = method.to(self.device).eval()
        self.max_length = int(self.settings["max_length"])
        name = REPRESENTATION.name
        found = self.readouts.get(name) or self.readouts.get(f"sts/{name}")
        self.representation = str(found or SHIPPED)

    def represent(
        self,
        sentences: Sequence[str],
        component_from: ComponentFrom = "corpus",
        *,
        batch_size: int = 64,
    ) -> dict[str, Tensor]:
        """Return name -> representation of N sentences, [N, d_z] or [N, n].

        Args:
            component_from: principal components to remove: ``corpus``, those stored with the model,
                or ``task``, those of these sentences, as in the papers' evaluations.
            batch_size: sentences per batch.
        """
        with torch.no_grad():
            return self._representations(batch_size)(listed(sentences), component_from)

    def features(self, sentences: Sequence[str], *, batch_size: int = 64) -> Tensor:
        """Return maxima, minima and means of both encoders for a linear classifier, [N, 6 d_z]."""
        return self._representations(batch_size).features(listed(sentences))

    def evaluate(
        self,
        tasks: Sequence[Task | ModelTask],
        readouts: Mapping[str, Any] | None = None,
        *,
        component_from: ComponentFrom = "corpus",
        batch_size: int = 64,
    ) -> Result:
        """As in the base class; STS tasks evaluate every representation.

        ``component_from`` is as in ``represent``; ``task`` uses the sentences of each STS task.
        """
        represent = partial(self.represent, component_from=component_from, batch_size=batch_size)
        own = self._representations(batch_size).features
        return evaluate_representations(tasks, represent, features=own, readouts=readouts)

    def _representations(self, size: int) -> Representations:
        return Representations(self.method, max_length=self.max_length, size=size)

    @cached_property
    def _widths(self) -> dict[str, int]:
        return {name: rows.shape[1] for name, rows in self.represent([""]).items()}

    @property
    def _width(self) -> int:
        return self._widths.get(self.representation) or self.embed([]).shape[1]

    def _represented(self, sentences: list[str], batch_size: int) -> Tensor:
        found = self.represent(sentences, batch_size=batch_size)
        if self.representation not in found:
            fix = f"choose among {', '.join(found)}"
            raise InvalidValue("representation", self.representation, fix)
        return found[self.representation]


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


def _fitted_rows(method: ClosedForm, value: int, sentences: list[str], _: int) -> Tensor:
    return torch.from_numpy(method.embed(sentences, value))
