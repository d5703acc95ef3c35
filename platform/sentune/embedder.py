"""The product of a study: load a model, encode sentences, compare them, decide.

Legend: N = sentences or pairs, D = packed width of the method's geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from sentune import operations
from sentune.answers import Direction, Entailment
from sentune.encoders import Tokenizer, length_sorted_chunks
from sentune.errors import InvalidValue
from sentune.geometry.base import Geometry
from sentune.interpretations import Interpretation, interpretations
from sentune.methods import CLOSED_FORM
from sentune.methods.base import SentenceMethod
from sentune.model_folder import folder_of, load_trained, method_in
from sentune.stored_references import StoredReferences
from sentune.tasks.base import ModelTask, Result, Task
from sentune.tasks.evaluate import evaluate
from sentune.tasks.pairs import Compare, extent_direction, symmetric_similarity

Embeddings = NDArray[np.float32]
Sentences = str | Sequence[str] | Embeddings

BATCHES_PER_BLOCK = 64  # sentences are sorted by length within a block, which bounds memory
LONG = 20  # batches; encoding more than that shows a progress bar on a terminal


class Embedder:
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
            source: a ``model/`` folder that a study left, or ``models:/NAME@champion``.
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
            from sentune.invertible_embedder import InvertibleEmbedder

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

    @property
    def name(self) -> str:
        """Key of the method in ``sentune.methods``."""
        return self.method.name

    @property
    def geometry(self) -> Geometry:
        """How two embeddings are compared."""
        return self.method.geometry

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int = 64,
        show_progress: bool | None = None,
    ) -> Embeddings:
        """N sentences -> [N, D] float32 packed embeddings; a single string -> [D].

        Args:
            sentences: none is fine and gives [0, D]; too long ones are cut to ``max_length``.
            batch_size: sentences in a batch; batches are made of sentences of like length.
            show_progress: a bar; by default on a terminal, for more than 20 batches.
        """
        if isinstance(sentences, str):
            return self.encode([sentences], batch_size=batch_size)[0]
        embeddings = self.embed(sentences, batch_size=batch_size, show_progress=show_progress)
        return embeddings.float().cpu().numpy()

    def embed(
        self,
        sentences: Sequence[str],
        *,
        batch_size: int = 64,
        show_progress: bool | None = None,
    ) -> Tensor:
        """``encode`` as a tensor on the model's device, as ``sentune.tasks.evaluate`` takes it."""
        _check(sentences, batch_size)
        if not len(sentences):
            # only the method knows its width: embed one sentence and keep none of it
            return self._embed_block([""], 1, _ignore)[:0]
        console = Console(stderr=True)
        if show_progress is None:
            watched = console.is_terminal or console.is_jupyter
            show_progress = watched and len(sentences) > LONG * batch_size
        with Progress(console=console, disable=not show_progress) as progress:
            bar = progress.add_task("Encoding", total=len(sentences))
            step = batch_size * BATCHES_PER_BLOCK
            blocks = [
                self._embed_block(
                    sentences[at : at + step], batch_size, lambda done: progress.advance(bar, done)
                )
                for at in range(0, len(sentences), step)
            ]
        return torch.cat(blocks)

    def embed_known(self, sentences: Sequence[str], *, batch_size: int = 64) -> Tensor:
        """``embed``, where stored references are not encoded again."""
        if self.references is None:
            return self.embed(sentences, batch_size=batch_size)
        stored = {text: row for row, text in enumerate(self.references.sentences)}
        fresh = list(dict.fromkeys(s for s in sentences if s not in stored))
        table = self.references.embeddings.to(self.device)
        if fresh:
            table = torch.cat([table, self.embed(fresh, batch_size=batch_size)])
        row = {**stored, **{text: len(stored) + i for i, text in enumerate(fresh)}}
        return table[
            torch.tensor([row[s] for s in sentences], dtype=torch.long, device=self.device)
        ]

    @overload
    def similarity(self, a: str, b: str) -> float: ...

    @overload
    def similarity(self, a: Sentences, b: Sentences) -> float | Embeddings: ...

    def similarity(self, a: Sentences, b: Sentences) -> float | Embeddings:
        """[N] similarities of pairs, the same both ways: the mean of both directions.

        Args:
            a, b: sentences or their embeddings, N and N, or N and one. Two single ones give a
                number.
        """
        values = self._compare(a, b, symmetric_similarity(self.geometry))
        return values.float().cpu().numpy() if _many(a, b) else float(values[0])

    def similarity_table(self, a: Sentences, b: Sentences) -> Embeddings:
        """[N, M] similarities of each of N sentences with each of M, the same both ways."""
        first, second = self._rows(a), self._rows(b)
        with torch.no_grad():
            table = self.geometry.entails_table(first, second)
            if not self.geometry.symmetric:
                table = (table + self.geometry.entails_table(second, first).T) / 2
        return table.float().cpu().numpy()

    @overload
    def entails(
        self, premise: str, hypothesis: str, *, threshold: float | None = None
    ) -> Entailment: ...

    @overload
    def entails(
        self, premise: Sentences, hypothesis: Sentences, *, threshold: float | None = None
    ) -> Entailment | list[Entailment]: ...

    def entails(
        self, premise: Sentences, hypothesis: Sentences, *, threshold: float | None = None
    ) -> Entailment | list[Entailment]:
        """How far the premise entails the hypothesis; a list for lists, as in ``similarity``.

        Args:
            premise, hypothesis: sentences or their embeddings.
            threshold: instead of the model's own.
        """
        limit = self.readouts.get("rte/threshold") if threshold is None else threshold
        scores = self._compare(premise, hypothesis, self.geometry.entails)
        found = [Entailment(float(score), limit) for score in scores.double()]
        return found if _many(premise, hypothesis) else found[0]

    @overload
    def direction(self, a: str, b: str) -> Direction: ...

    @overload
    def direction(self, a: Sentences, b: Sentences) -> Direction | list[Direction]: ...

    def direction(self, a: Sentences, b: Sentences) -> Direction | list[Direction]:
        """Which of two entailing sentences entails the other; a list for lists.

        Decided as the readout ``direction/by`` says, by similarity if there is none.

        Raises:
            InvalidValue: the method's similarity is the same both ways, so it cannot tell.
        """
        if self.geometry.symmetric:
            fix = "its similarity is the same both ways; use a model of Gaussians or boxes"
            raise InvalidValue("method", self.name, fix)
        by_extent = self.readouts.get("direction/by") == "extent"
        compare = extent_direction(self.geometry) if by_extent else self.geometry.direction
        found = [Direction.of(float(margin)) for margin in self._compare(a, b, compare).double()]
        return found if _many(a, b) else found[0]

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

    def fuse(self, a: Sentences, b: Sentences) -> Embeddings:
        """Embeddings of the fusion of paired sentences (InterSent section 2.1).

        Args:
            a, b: sentences or embeddings, N and N; operations compose:
                ``fuse(fuse(a, b), c)``.

        Returns:
            [N, D]; [D] for single ones.

        Raises:
            InvalidValue: the model has no operators.
        """
        return operations.fuse(self, a, b)

    def difference(self, a: Sentences, b: Sentences) -> Embeddings:
        """Embeddings of what ``a`` says and ``b`` does not; see ``fuse``."""
        return operations.difference(self, a, b)

    def compress(self, a: Sentences) -> Embeddings:
        """Embeddings of the compressed sentences; see ``fuse``."""
        return operations.compress(self, a)

    def decode(
        self, embeddings: Sentences, *, beams: int = 1, max_length: int | None = None
    ) -> Any:
        """Sentences from embeddings: one string for [D], a list of N for [N, D].

        Args:
            embeddings: embeddings, or sentences, which are encoded first.
            beams: of the search; 1 is greedy.
            max_length: most tokens; the model's own where None.

        Raises:
            InvalidValue: the model has no decoder.
        """
        return operations.decode(self, embeddings, beams=beams, max_length=max_length)

    def generate(
        self, operation: str, first: Sequence[str], second: Sequence[str] | None = None
    ) -> list[str]:
        """What comes of an operation of ``sentune.corpora.schema.OPERATIONS`` on N sentences."""
        return operations.generate(self, operation, first, second)

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

    def _compare(self, a: Sentences, b: Sentences, compare: Compare) -> Tensor:
        """[N] comparisons of paired rows; one row is paired with all of the other side."""
        first, second = self._rows(a), self._rows(b)
        if len(first) != len(second) and 1 not in (len(first), len(second)):
            fix = "give as many on both sides, or one on one of them"
            raise InvalidValue("sentences", f"{len(first)} and {len(second)}", fix)
        count = 0 if 0 in (len(first), len(second)) else max(len(first), len(second))
        with torch.no_grad():
            return compare(first.expand(count, -1), second.expand(count, -1))

    def _rows(self, sentences: Sentences) -> Tensor:
        if isinstance(sentences, np.ndarray):
            return torch.from_numpy(np.atleast_2d(sentences)).to(self.device)
        return self.embed([sentences] if isinstance(sentences, str) else sentences)

    def _embed_block(
        self, sentences: Sequence[str], batch_size: int, advance: Callable[[int], None]
    ) -> Tensor:
        tokens = self.tokenizer.encode(sentences, self.max_length)
        chunks, restore = length_sorted_chunks(tokens, batch_size, self.tokenizer.pad_id)
        parts = []
        with torch.no_grad():
            for chunk in chunks:
                here = chunk.to(self.device)
                parts.append(self.method.embed(here.input_ids, here.attention_mask))
                advance(len(here.input_ids))
        return torch.cat(parts)[restore.to(self.device)]


def _ignore(done: int) -> None:
    """Nobody watches the progress."""


def _check(sentences: Sequence[str], batch_size: int) -> None:
    if batch_size < 1:
        raise InvalidValue("batch_size", batch_size, "it must be at least 1")
    for at, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise InvalidValue(f"sentences[{at}]", sentence, "every sentence must be a string")


def _many(*sides: Sentences) -> bool:
    """Whether a side is more than one string or one row."""
    return any(
        side.ndim > 1 if isinstance(side, np.ndarray) else not isinstance(side, str)
        for side in sides
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
    from sentune.training.closed_form_model import load_closed_form
    from sentune.word_embedder import WordEmbedder

    model = load_closed_form(folder)
    return WordEmbedder(
        model.method, model.value, settings=model.settings, readouts=model.readouts, card=card
    )
