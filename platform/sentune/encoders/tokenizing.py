"""Tokenise sentences and batch their ids with little padding; decode ids to sentences.

Legend: N = sentences, L = tokens of the longest sentence of a chunk.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.lazy_import import transformers

OVERHEAD = {"cpu": 64, "cuda": 4096}
"""Type of device -> fixed cost of an encoder call, in padded tokens.

The CPU's was measured with MiniLM. On a GPU the launch of kernels dominates: forward and backward
of bert-base with 1,500 tokens take 20 ms on an H200, of which matrix products need 1 ms.
"""


class _HuggingFaceTokenizer:
    """A Hugging Face tokenizer of a local folder; ``size`` is its number of token ids."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        self.size: int = len(self._tokenizer)

    def save(self, folder: Path, max_length: int | None = None) -> None:
        """Write the tokenizer's files; ``max_length`` replaces their maximum number of tokens."""
        if max_length is not None:
            self._tokenizer.model_max_length = max_length
        self._tokenizer.save_pretrained(os.fspath(folder))


class Tokenizer(_HuggingFaceTokenizer):
    """A Hugging Face tokenizer for sentence encoders; it must have a padding token."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        if self._tokenizer.pad_token_id is None:
            fix = "name an encoder whose tokenizer has a padding token"
            raise InvalidValue("--encoder", path, fix)
        self.pad_id: int = self._tokenizer.pad_token_id

    def check_pooling(self, pooling: str) -> None:
        """Raise ``InvalidValue`` for ``cls`` if sentences do not begin with [CLS] (T5, GPT-2)."""
        if pooling == "cls" and not begins_with_cls(self._tokenizer):
            fix = f"the tokenizer of {self.path} puts no [CLS] before a sentence; use mean"
            raise InvalidValue("pooling", pooling, fix)

    def encode(
        self, texts: Sequence[str], max_length: int, *, special: bool = True
    ) -> list[np.ndarray]:
        """Return the truncated token ids of each text; ``special`` adds tokens such as [CLS]."""
        if not texts:
            return []
        encoded = self._tokenizer(
            list(texts), truncation=True, max_length=max_length, add_special_tokens=special
        )
        return [np.asarray(ids, dtype=np.int32) for ids in encoded["input_ids"]]


def begins_with_cls(tokenizer: Any) -> bool:
    """Return whether a Hugging Face tokenizer puts its [CLS] token before a sentence."""
    first: int | None = tokenizer.cls_token_id
    return first is not None and tokenizer("")["input_ids"][:1] == [first]


class DecoderTokenizer(_HuggingFaceTokenizer):
    """A Hugging Face tokenizer for decoders; it must have an end-of-sentence token.

    Attributes:
        pad_id: id of the padding token, or of the end token if there is none.
        start_id: id of the first special token ([CLS], <s>); None if there is none (T5).
        end_id: id of the token that ends a sentence.
        leads: whether the tokenizer puts ``start_id`` before a sentence.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        t = self._tokenizer
        end = t.eos_token_id if t.eos_token_id is not None else t.sep_token_id
        if end is None:
            fix = "name a decoder whose tokenizer has an end-of-sentence token"
            raise InvalidValue("--decoder", path, fix)
        self.end_id: int = end
        self.pad_id: int = t.pad_token_id if t.pad_token_id is not None else end
        start = t.bos_token_id if t.bos_token_id is not None else t.cls_token_id
        self.start_id: int | None = start
        self.leads: bool = start is not None and t("")["input_ids"][:1] == [start]

    def texts(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Decode lists of ids, without special tokens and repeated spaces."""
        if not len(ids):
            return []
        found = self._tokenizer.batch_decode([list(row) for row in ids], skip_special_tokens=True)
        return [" ".join(text.split()) for text in found]


class Chunk(NamedTuple):
    """A batch of sentences: ids [N, L], padded on the right, and a mask [N, L] with 1 on tokens."""

    input_ids: Tensor
    attention_mask: Tensor

    def to(self, device: torch.device) -> Chunk:
        """Return the same chunk on another device."""
        return Chunk(self.input_ids.to(device), self.attention_mask.to(device))


def pad(rows: Sequence[np.ndarray], pad_id: int) -> Chunk:
    """Pad lists of token ids to one chunk, which has L of at least 1."""
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    mask = np.arange(max(1, lengths.max()))[None, :] < lengths[:, None]
    ids = np.full(mask.shape, pad_id, dtype=np.int64)
    ids[mask] = np.concatenate(rows)
    return Chunk(torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64)))


def length_sorted_chunks(
    rows: Sequence[np.ndarray], size: int, pad_id: int, device: str = "cpu"
) -> tuple[list[Chunk], Tensor]:
    """Return chunks of sentences of similar length, and the indices that restore the order.

    ``torch.cat(outputs)[restore]`` is in the order of ``rows``.

    Args:
        rows: token ids of each sentence.
        size: maximum number of sentences of a chunk.
        device: type of the encoding device, as in ``OVERHEAD``.
    """
    overhead = OVERHEAD.get(device, OVERHEAD["cuda"])
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    # longest first, so that running out of memory happens at the start
    order = np.argsort(-lengths, kind="stable")
    parts = [
        part
        for start, end in _spans(lengths[order], size, overhead)
        for part in np.array_split(order[start:end], -(-(end - start) // size))
    ]
    chunks = [pad([rows[i] for i in part], pad_id) for part in parts]
    return chunks, torch.from_numpy(np.argsort(order, kind="stable"))


def even_shares(rows: Sequence[np.ndarray], count: int) -> tuple[NDArray[np.int64], list[int]]:
    """Divide sentences into ``count`` shares of similar lengths and about equal numbers of tokens.

    ``rows`` are the token ids of at least ``count`` sentences.

    Returns:
        The indices of the rows, longest first, and the number of rows of each share, at least 1.
    """
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    order = np.argsort(-lengths, kind="stable")
    tokens, share = lengths[order].cumsum(), np.arange(1, count)
    ends = np.searchsorted(tokens, tokens[-1] * share / count)
    ends = np.maximum.accumulate(np.maximum(ends - share, 0)) + share
    ends = np.minimum(ends, len(rows) - count + share)
    return order, np.diff(ends, prepend=0, append=len(rows)).tolist()


def _spans(lengths: NDArray[np.int64], size: int, overhead: int) -> list[tuple[int, int]]:
    """Return the spans (start, end) of descending lengths that minimise the cost of encoding.

    The cost is the number of padded tokens, plus ``overhead`` for each chunk of ``size`` sentences.
    Cuts are only between different lengths, and are found by dynamic programming.
    """
    places = np.flatnonzero(np.diff(lengths, prepend=-1, append=-1))
    least, before = np.zeros(len(places)), np.zeros(len(places), np.int64)
    for at in range(1, len(places)):
        counts = places[at] - places[:at]
        cost = least[:at] + lengths[places[:at]] * counts - overhead * (-counts // size)
        before[at] = cost.argmin()
        least[at] = cost[before[at]]
    spans, at = [], len(places) - 1
    while at > 0:
        spans.append((int(places[before[at]]), int(places[at])))
        at = before[at]
    return spans[::-1]
