"""Sentences to embeddings with a trained method.

Legend: N = sentences, D = packed width of the method's geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from sentune.embedder.references import StoredReferences
from sentune.encoders import Tokenizer, length_sorted_chunks
from sentune.errors import InvalidValue
from sentune.methods.base import SentenceMethod

Embeddings = NDArray[np.float32]
Sentences = str | Sequence[str] | Embeddings

BATCHES_PER_BLOCK = 64  # sentences are sorted by length within a block, which bounds memory
LONG = 20  # batches; encoding more than that shows a progress bar on a terminal


class Encoding:
    """The part of an ``Embedder`` that encodes; attributes are explained there."""

    method: SentenceMethod
    tokenizer: Tokenizer
    references: StoredReferences | None
    device: torch.device
    max_length: int

    @property
    def name(self) -> str:
        """Key of the method in ``sentune.methods``."""
        return self.method.name

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int = 64,
        show_progress: bool | None = None,
    ) -> Embeddings:
        """Return [N, D] float32 packed embeddings of N sentences; [D] of a single string.

        Args:
            sentences: none is fine and gives [0, D]; too long ones are cut to ``max_length``.
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
        sentences: Sequence[str],
        *,
        batch_size: int = 64,
        show_progress: bool | None = None,
    ) -> Tensor:
        """Return what ``encode`` does as a tensor on the model's device."""
        if batch_size < 1:
            raise InvalidValue("batch_size", batch_size, "it must be at least 1")
        for at, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise InvalidValue(f"sentences[{at}]", sentence, "every sentence must be a string")
        if not len(sentences):
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

    def _rows(self, sentences: Sentences) -> Tensor:
        """Return [N, D] on the model's device."""
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
    return all(
        side.ndim == 1 if isinstance(side, np.ndarray) else isinstance(side, str) for side in sides
    )
