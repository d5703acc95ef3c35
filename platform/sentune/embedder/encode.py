"""Sentences to embeddings with a trained method; their similarity, entailment and its direction.

Legend: N, M = sentences or pairs, D = packed width of the method's geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any, Literal, TypeGuard, overload

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from sentune.embedder.references import StoredReferences
from sentune.encoders import Tokenizer, WordTokenizer, length_sorted_chunks
from sentune.errors import InvalidValue
from sentune.geometry.base import Geometry
from sentune.methods.base import SentenceMethod
from sentune.tasks.pairs import Compare, extent_direction, symmetric_similarity

Embeddings = NDArray[np.float32]
Strings = str | list[str] | tuple[str, ...]
Sentences = str | Sequence[str] | Embeddings | Tensor

BATCHES_PER_BLOCK = 64  # sentences are sorted by length within a block, which bounds memory
LONG = 20  # batches; encoding more than that shows a progress bar on a terminal


class Encoding:
    """The part of an ``Embedder`` that encodes; attributes are explained there."""

    method: SentenceMethod
    tokenizer: Tokenizer | WordTokenizer
    references: StoredReferences | None
    device: torch.device
    max_length: int

    @property
    def name(self) -> str:
        """Key of the method in ``sentune.methods``."""
        return self.method.name

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        batch_size: int = 64,
        show_progress: bool | None = None,
    ) -> Embeddings:
        """Return [N, D] float32 packed embeddings of N sentences; [D] of a single string.

        Args:
            sentences: none is fine and gives [0, D]; too long ones are cut to ``max_length``; one
                that comes twice within 64 batches is encoded once.
            batch_size: sentences in a batch; batches are made of sentences of like length.
            show_progress: a bar; by default for more than 20 batches, on a terminal, and in a
                notebook that has ipywidgets.
        """
        one = isinstance(sentences, str)
        several = [sentences] if isinstance(sentences, str) else sentences
        rows = self.embed(several, batch_size=batch_size, show_progress=show_progress)
        return as_array(rows, one=one)

    def embed(
        self,
        sentences: Iterable[str],
        *,
        batch_size: int = 64,
        show_progress: bool | None = None,
    ) -> Tensor:
        """Return what ``encode`` does of several sentences, a tensor on the model's device."""
        if batch_size < 1:
            raise InvalidValue("batch_size", batch_size, "it must be at least 1")
        sentences = listed(sentences)
        if not sentences:
            # only the method knows its width: embed one sentence and keep none of it
            return self._embed_block([""], 1, lambda done: None)[:0]
        console = Console(stderr=True)
        if show_progress is None:
            widgets = console.is_jupyter and find_spec("ipywidgets") is not None
            watched = console.is_terminal or widgets
            show_progress = watched and len(sentences) > LONG * batch_size
        step = batch_size * BATCHES_PER_BLOCK
        parts = [sentences[at : at + step] for at in range(0, len(sentences), step)]
        with Progress(console=console, disable=not show_progress) as progress:
            bar = progress.add_task("Encoding", total=len(sentences))
            advance = partial(progress.advance, bar)
            return torch.cat([self._embed_block(part, batch_size, advance) for part in parts])

    def embed_known(self, sentences: Sequence[str], *, batch_size: int = 64) -> Tensor:
        """Return what ``embed`` does; stored references are not encoded again."""
        if self.references is None:
            return self.embed(sentences, batch_size=batch_size)
        stored = self.references.sentences
        row = {text: i for i, text in enumerate(dict.fromkeys((*stored, *sentences)))}
        table = self.references.embeddings.to(self.device)
        if fresh := list(row)[len(stored) :]:
            table = torch.cat([table, self.embed(fresh, batch_size=batch_size)])
        rows = [row[sentence] for sentence in sentences]
        return table[torch.tensor(rows, dtype=torch.long, device=self.device)]

    @cached_property
    def _width(self) -> int:
        return self.embed([]).shape[1]

    def _rows(self, sentences: Sentences) -> Tensor:
        """Return [N, D] on the model's device; embeddings must have the model's width."""
        if not _are_numbers(sentences):
            return self.embed([sentences] if isinstance(sentences, str) else sentences)
        width = self._width
        if sentences.ndim not in (1, 2) or sentences.shape[-1] != width:
            fix = f"this model's embeddings have {width} numbers each"
            raise InvalidValue("embeddings", f"an array of shape {(*sentences.shape,)}", fix)
        if isinstance(sentences, np.ndarray):
            sentences = torch.from_numpy(np.array(sentences, np.float32))
        return sentences.detach().to(self.device, torch.float32).reshape(-1, width)

    def _embed_block(
        self, sentences: Sequence[str], batch_size: int, advance: Callable[[int], None]
    ) -> Tensor:
        row = {sentence: i for i, sentence in enumerate(dict.fromkeys(sentences))}
        tokens = self.tokenizer.encode(list(row), self.max_length)
        chunks, restore = length_sorted_chunks(
            tokens, batch_size, self.tokenizer.pad_id, self.device.type
        )
        parts = []
        with torch.no_grad():
            for chunk in chunks:
                here = chunk.to(self.device)
                parts.append(self.method.embed(here.input_ids, here.attention_mask))
                advance(len(here.input_ids))
        advance(len(sentences) - len(row))
        places = restore[[row[sentence] for sentence in sentences]]
        return torch.cat(parts)[places.to(self.device)]


def listed(sentences: Iterable[str], name: str = "sentences") -> list[str]:
    """Return sentences as a list.

    Raises:
        InvalidValue: a single string, of which each letter would be one; a table, of which the
            name of each column would; or one of them is no string, or no text.
    """
    if isinstance(sentences, str):
        raise InvalidValue(name, sentences, "give a list of strings")
    if isinstance(sentences, Mapping) or hasattr(sentences, "columns"):
        fix = "give one of its columns, as in table['sentence']"
        raise InvalidValue(name, type(sentences).__name__, fix)
    found = list(sentences)
    for at, sentence in enumerate(found):
        if not isinstance(sentence, str):
            raise InvalidValue(f"{name}[{at}]", sentence, "every sentence must be a string")
        try:
            sentence.encode()
        except UnicodeEncodeError as error:
            fix = f"it has half a character ({error.reason}); decode its file as UTF-8"
            raise InvalidValue(f"{name}[{at}]", sentence, fix) from None
    return found


def paired(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return two sides of N rows each; a single row is paired with all of the other side.

    Raises:
        InvalidValue: the numbers of rows do not fit.
    """
    counts = len(first), len(second)
    if counts[0] != counts[1] and 1 not in counts:
        fix = "give as many on both sides, or one on one of them"
        raise InvalidValue("sentences", f"{counts[0]} and {counts[1]}", fix)
    count = 0 if 0 in counts else max(counts)
    return first.expand(count, -1), second.expand(count, -1)


def as_array(rows: Tensor, *, one: bool) -> Embeddings:
    """Return rows as float32 numbers; the first alone where it is the only one."""
    found: Embeddings = rows.float().cpu().numpy()
    return found[0] if one else found


def single(*sides: Sentences) -> bool:
    """Return whether each side is one string or one row."""
    return all(side.ndim == 1 if _are_numbers(side) else isinstance(side, str) for side in sides)


def _are_numbers(side: Sentences) -> TypeGuard[Embeddings | Tensor]:
    """Return whether they are embeddings; an array may hold strings."""
    return isinstance(side, np.ndarray | Tensor) and getattr(side.dtype, "kind", "f") not in "UO"


@dataclass(frozen=True)
class Entailment:
    """How far a premise entails a hypothesis.

    Attributes:
        score: P(hypothesis | premise) for boxes, sim(hypothesis || premise) in (0, 1] for
            Gaussians, the cosine in [-1, 1] for points.
        threshold: the readout that decides; None if the model has none.
    """

    score: float
    threshold: float | None

    @property
    def decision(self) -> bool:
        """Whether it is an entailment.

        Raises:
            InvalidValue: the model was tuned without labelled pairs, so it has no threshold.
        """
        if self.threshold is None:
            fix = "the model has none; give entails() a threshold"
            raise InvalidValue("rte/threshold", self.threshold, fix)
        return self.score > self.threshold


@dataclass(frozen=True)
class Direction:
    """Which of two sentences entails the other.

    Attributes:
        entailing: ``first``, ``second``, or ``neither`` where the margin is exactly 0.
        margin: positive for the first: log similarity one way minus the other, or, by extent,
            the difference of log-volumes or of summed log sigma.
    """

    entailing: Literal["first", "second", "neither"]
    margin: float

    @classmethod
    def of(cls, margin: float) -> Direction:
        """Return the direction that a margin stands for."""
        if margin == 0:
            return cls("neither", margin)
        return cls("first" if margin > 0 else "second", margin)


class Comparing(Encoding):
    """The part of an ``Embedder`` that compares two sides: sentences, or their embeddings."""

    readouts: dict[str, Any]

    @property
    def geometry(self) -> Geometry:
        """How two embeddings are compared."""
        return self.method.geometry

    @overload
    def similarity(self, a: str, b: str) -> float: ...  # type: ignore[overload-overlap]

    @overload
    def similarity(self, a: Strings, b: Strings) -> Embeddings: ...

    @overload
    def similarity(self, a: Sentences, b: Sentences) -> Any: ...

    def similarity(self, a: Sentences, b: Sentences) -> float | Embeddings:
        """Return [N] similarities of pairs, the same both ways: the mean of both directions.

        Args:
            a, b: sentences or their embeddings, N and N, or N and one; of two single ones a number.
        """
        numbers = as_array(self._compare(a, b, symmetric_similarity(self.geometry)), one=False)
        return float(numbers[0]) if single(a, b) else numbers

    def similarity_table(self, a: Sentences, b: Sentences) -> Embeddings:
        """Return [N, M] similarities of N sentences with M others, the same both ways."""
        first, second = self._rows(a), self._rows(b)
        with torch.no_grad():
            there, back = self.geometry.entails_tables(first, second)
        return as_array((there + back) / 2, one=False)

    @overload
    def entails(  # type: ignore[overload-overlap]
        self, premise: str, hypothesis: str, *, threshold: float | None = None
    ) -> Entailment: ...

    @overload
    def entails(
        self, premise: Strings, hypothesis: Strings, *, threshold: float | None = None
    ) -> list[Entailment]: ...

    @overload
    def entails(
        self, premise: Sentences, hypothesis: Sentences, *, threshold: float | None = None
    ) -> Any: ...

    def entails(
        self, premise: Sentences, hypothesis: Sentences, *, threshold: float | None = None
    ) -> Entailment | list[Entailment]:
        """Return how far the premise entails the hypothesis; a list for lists, as ``similarity``.

        Args:
            premise, hypothesis: sentences or their embeddings.
            threshold: instead of the model's own.
        """
        limit = self.readouts.get("rte/threshold") if threshold is None else threshold
        scores = self._compare(premise, hypothesis, self.geometry.entails)
        found = [Entailment(float(score), limit) for score in scores.double()]
        return found[0] if single(premise, hypothesis) else found

    @overload
    def direction(self, a: str, b: str) -> Direction: ...  # type: ignore[overload-overlap]

    @overload
    def direction(self, a: Strings, b: Strings) -> list[Direction]: ...

    @overload
    def direction(self, a: Sentences, b: Sentences) -> Any: ...

    def direction(self, a: Sentences, b: Sentences) -> Direction | list[Direction]:
        """Return which of two entailing sentences entails the other; a list for lists.

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
        return found[0] if single(a, b) else found

    def _compare(self, a: Sentences, b: Sentences, compare: Compare) -> Tensor:
        """Return [N] comparisons of paired rows."""
        with torch.no_grad():
            return compare(*paired(self._rows(a), self._rows(b)))
