"""Base classes of ``Embedder``: encoding, similarity, entailment and its direction.

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

BATCHES_PER_BLOCK = 64  # sentences are sorted by length within a block, which limits memory
LONG = 20  # batches above which encoding shows a progress bar on a terminal


def listed(sentences: Iterable[str], name: str = "sentences") -> list[str]:
    """Return sentences as a list.

    Raises:
        InvalidValue: ``sentences`` is a single string, which would iterate over letters, or a
            table, which would iterate over column names; or an item is not a string or has a lone
            surrogate.
    """
    if isinstance(sentences, str):
        raise InvalidValue(name, sentences, "give a list of strings")
    if isinstance(sentences, Mapping) or hasattr(sentences, "columns"):
        fix = "give one of its columns, as in table['sentence']"
        raise InvalidValue(name, type(sentences).__name__, fix)
    try:
        found = list(sentences)
    except TypeError:  # not iterable
        raise InvalidValue(name, sentences, "give a list of strings") from None
    for at, sentence in enumerate(found):
        if not isinstance(sentence, str):
            raise InvalidValue(f"{name}[{at}]", sentence, "every sentence must be a string")
        try:
            sentence.encode()
        except UnicodeEncodeError as error:
            fix = f"it is not valid Unicode ({error.reason}); decode its file as UTF-8"
            raise InvalidValue(f"{name}[{at}]", sentence, fix) from None
    return found


def paired(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return two sides of N rows each; a single row is paired with all rows of the other side.

    Raises:
        InvalidValue: the numbers of rows differ and neither is 1.
    """
    counts = len(first), len(second)
    if counts[0] != counts[1] and 1 not in counts:
        fix = "give equal numbers of sentences on both sides, or a single one on one side"
        raise InvalidValue("sentences", f"{counts[0]} and {counts[1]}", fix)
    count = 0 if 0 in counts else max(counts)
    return first.expand(count, -1), second.expand(count, -1)


def as_array(rows: Tensor, *, one: bool = False) -> Embeddings:
    """Return rows as a float32 array, [N, D]; with ``one`` the first row, [D]."""
    found: Embeddings = rows.float().cpu().numpy()
    return found[0] if one else found


def single(*sides: Sentences) -> bool:
    """Return whether each side is a single string or embedding."""
    return all(side.ndim == 1 if _are_numbers(side) else isinstance(side, str) for side in sides)


def _are_numbers(side: Sentences) -> TypeGuard[Embeddings | Tensor]:
    """Return whether a side is embeddings, not sentences (which may also be an array)."""
    return isinstance(side, np.ndarray | Tensor) and getattr(side.dtype, "kind", "f") not in "UO"


@dataclass(frozen=True)
class Entailment:
    """Entailment score of a premise and a hypothesis.

    Attributes:
        score: P(hypothesis | premise) for boxes, sim(hypothesis || premise) in (0, 1] for
            Gaussians, the cosine in [-1, 1] for points.
        threshold: score above which the premise entails the hypothesis; None if the model has
            none.
    """

    score: float
    threshold: float | None

    @property
    def decision(self) -> bool:
        """Return whether the premise entails the hypothesis.

        Raises:
            InvalidValue: there is no threshold, because the model was tuned without labelled pairs.
        """
        if self.threshold is None:
            fix = "the model has none; give entails() a threshold"
            raise InvalidValue("rte/threshold", self.threshold, fix)
        return self.score > self.threshold


@dataclass(frozen=True)
class Direction:
    """Direction of entailment of two sentences.

    Attributes:
        entailing: ``first``, ``second``, or ``neither`` if the margin is exactly 0 or not a number.
        margin: positive if the first entails the second. By similarity, log similarity in one
            direction minus that in the other; by extent, the difference of log-volumes or of summed
            log sigma.
    """

    entailing: Literal["first", "second", "neither"]
    margin: float

    @classmethod
    def of(cls, margin: float) -> Direction:
        """Return the direction of a margin."""
        if margin > 0:
            return cls("first", margin)
        return cls("second" if margin < 0 else "neither", margin)


class Encoding:
    """Base class of ``Embedder`` that encodes and compares sentences; see there for attributes."""

    method: SentenceMethod
    tokenizer: Tokenizer | WordTokenizer
    readouts: dict[str, Any]
    references: StoredReferences | None
    device: torch.device
    max_length: int

    @property
    def name(self) -> str:
        """Key of the method in ``sentune.methods``."""
        return self.method.name

    @property
    def geometry(self) -> Geometry:
        """Return the geometry that compares embeddings."""
        return self.method.geometry

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        batch_size: int = 64,
        show_progress: bool | None = None,
    ) -> Embeddings:
        """Return float32 packed embeddings of N sentences, [N, D], or of a single string, [D].

        Args:
            sentences: sentences to encode. Long ones are truncated to ``max_length``; repeated ones
                within 64 batches are encoded once; no sentences give [0, D].
            batch_size: sentences per batch; those of a batch have similar lengths.
            show_progress: whether to show a progress bar; None: for more than 20 batches, on a
                terminal or in a notebook with ipywidgets.

        Raises:
            InvalidValue: ``sentences`` is not an iterable of strings, or ``batch_size`` is below 1.
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
        """Return the embeddings as ``encode`` does, as a tensor on the model's device, [N, D]."""
        if batch_size < 1:
            raise InvalidValue("batch_size", batch_size, "it must be at least 1")
        sentences = listed(sentences)
        if not sentences:
            # only the method knows its width, so embed one sentence and drop it
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
        """Return the embeddings as ``embed`` does, without encoding stored references again."""
        if self.references is None:
            return self.embed(sentences, batch_size=batch_size)
        stored = self.references.sentences
        row = {text: i for i, text in enumerate(dict.fromkeys((*stored, *sentences)))}
        table = self.references.embeddings.to(self.device)
        if fresh := list(row)[len(stored) :]:
            table = torch.cat([table, self.embed(fresh, batch_size=batch_size)])
        rows = [row[sentence] for sentence in sentences]
        return table[torch.tensor(rows, dtype=torch.long, device=self.device)]

    @overload
    def similarity(self, a: str, b: str) -> float: ...  # type: ignore[overload-overlap]

    @overload
    def similarity(self, a: Strings, b: Strings) -> Embeddings: ...

    @overload
    def similarity(self, a: Sentences, b: Sentences) -> Any: ...

    def similarity(self, a: Sentences, b: Sentences) -> float | Embeddings:
        """Return the symmetric similarity of pairs, the mean of both directions.

        Args:
            a, b: sentences or embeddings, N and N, or N and one.

        Returns:
            [N]; a number for two single ones.

        Raises:
            InvalidValue: the numbers of sentences do not match.
        """
        numbers = as_array(self._compare(a, b, symmetric_similarity(self.geometry)))
        return float(numbers[0]) if single(a, b) else numbers

    def similarity_table(self, a: Sentences, b: Sentences) -> Embeddings:
        """Return the symmetric similarities of N sentences or embeddings with M others, [N, M]."""
        first, second = self._rows(a), self._rows(b)
        with torch.no_grad():
            there, back = self.geometry.entails_tables(first, second)
        return as_array((there + back) / 2)

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
        """Return the entailment score and decision of pairs.

        Args:
            premise, hypothesis: sentences or embeddings, N and N, or N and one.
            threshold: threshold of the decision; None: the readout ``rte/threshold``.

        Returns:
            N entailments; a single one for two single sentences.
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
        """Return which sentence of entailing pairs entails the other.

        The readout ``direction/by`` decides by similarity (the default) or by extent.

        Args:
            a, b: sentences or embeddings, N and N, or N and one.

        Returns:
            N directions; a single one for two single sentences.

        Raises:
            InvalidValue: the method's similarity is symmetric, so there is no direction.
        """
        if self.geometry.symmetric:
            fix = "its similarity is the same both ways; use a model of Gaussians or boxes"
            raise InvalidValue("method", self.name, fix)
        by_extent = self.readouts.get("direction/by") == "extent"
        compare = extent_direction(self.geometry) if by_extent else self.geometry.direction
        found = [Direction.of(float(margin)) for margin in self._compare(a, b, compare).double()]
        return found[0] if single(a, b) else found

    @cached_property
    def _width(self) -> int:
        return self.embed([]).shape[1]

    def _rows(self, sentences: Sentences) -> Tensor:
        """Return embeddings of sentences, or given ones, on the model's device, [N, D].

        Raises:
            InvalidValue: given embeddings do not have the model's width.
        """
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

    def _compare(self, a: Sentences, b: Sentences, compare: Compare) -> Tensor:
        """Return ``compare`` of paired sentences or embeddings, [N]."""
        with torch.no_grad():
            return compare(*paired(self._rows(a), self._rows(b)))
