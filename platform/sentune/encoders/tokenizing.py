"""Sentences to token ids, and back; padded tensors of them, with as little padding as possible.

Legend: N = sentences, L = tokens of the longest sentence of a chunk.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.lazy_import import LazyModule

if TYPE_CHECKING:
    import transformers
else:
    transformers = LazyModule("transformers")

OVERHEAD = {"cpu": 64, "cuda": 4096}
"""Kind of device -> padded tokens for whose time an encoder can be called once more.

That of a CPU is MiniLM's. A GPU waits for a call's kernels to be launched: forward and backward of
bert-base took an H200 20 ms for 1,500 tokens, and 1 ms is what its matrix products need.
"""


class _HuggingFaceTokenizer:
    """A tokenizer in a local folder; ``size`` is the number of its token ids."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        self.size: int = len(self._tokenizer)

    def save(self, folder: Path, max_length: int | None = None) -> None:
        """Write the tokenizer's files, as Hugging Face reads them.

        Args:
            max_length: most tokens of a sentence that they name; None: as they were.
        """
        if max_length is not None:
            self._tokenizer.model_max_length = max_length
        self._tokenizer.save_pretrained(os.fspath(folder))


class Tokenizer(_HuggingFaceTokenizer):
    """A Hugging Face tokenizer, reduced to what sentence encoders need."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        if self._tokenizer.pad_token_id is None:
            fix = "name an encoder whose tokenizer has a padding token"
            raise InvalidValue("--encoder", path, fix)
        self.pad_id: int = self._tokenizer.pad_token_id

    def check_pooling(self, pooling: str) -> None:
        """Refuse ``cls`` where a sentence does not begin with [CLS], such as T5's and GPT-2's.

        Raises:
            InvalidValue: the first state would be that of a word.
        """
        if pooling == "cls" and not begins_with_cls(self._tokenizer):
            fix = f"the tokenizer of {self.path} puts no [CLS] before a sentence; use mean"
            raise InvalidValue("pooling", pooling, fix)

    def encode(
        self, texts: Sequence[str], max_length: int, *, special: bool = True
    ) -> list[np.ndarray]:
        """Return token ids of each text, cut to ``max_length``; ``special``: [CLS] and its like."""
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
    """A Hugging Face tokenizer, reduced to what decoders need.

    Attributes:
        pad_id: id of the padding token; the end token's where there is none.
        start_id: id of the first special token ([CLS], <s>); None where there is none (T5).
        end_id: id of the token that ends a sentence.
        leads: whether it puts ``start_id`` before a sentence.
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
        """Return sentences without special tokens; runs of spaces become one."""
        if not len(ids):
            return []
        found = self._tokenizer.batch_decode([list(row) for row in ids], skip_special_tokens=True)
        return [" ".join(text.split()) for text in found]


class Chunk(NamedTuple):
    """Sentences that go through the encoder together: [N, L] ids padded on the right, and a mask.

    The mask is 1 on tokens and 0 on padding.
    """

    input_ids: Tensor
    attention_mask: Tensor

    def to(self, device: torch.device) -> Chunk:
        """Return the same chunk on another device."""
        return Chunk(self.input_ids.to(device), self.attention_mask.to(device))


def pad(rows: Sequence[np.ndarray], pad_id: int) -> Chunk:
    """Return one chunk of token ids of any lengths, at least one place long."""
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    mask = np.arange(max(1, lengths.max()))[None, :] < lengths[:, None]
    ids = np.full(mask.shape, pad_id, dtype=np.int64)
    ids[mask] = np.concatenate(rows)
    return Chunk(torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64)))


def length_sorted_chunks(
    rows: Sequence[np.ndarray], size: int, pad_id: int, device: str = "cpu"
) -> tuple[list[Chunk], Tensor]:
    """Return chunks of at most ``size`` sentences of like length, and the way back, ``restore``:
    ``torch.cat(outputs)[restore]`` is in the order of ``rows``.

    Args:
        rows: token ids of each sentence.
        device: kind of device that encodes them, which ``OVERHEAD`` has.
    """
    overhead = OVERHEAD.get(device, OVERHEAD["cuda"])
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    # longest first: what does not fit into memory fails at once and not at the last chunk
    order = np.argsort(-lengths, kind="stable")
    parts = [
        part
        for start, end in _spans(lengths[order], size, overhead)
        for part in np.array_split(order[start:end], -(-(end - start) // size))
    ]
    chunks = [pad([rows[i] for i in part], pad_id) for part in parts]
    return chunks, torch.from_numpy(np.argsort(order, kind="stable"))


def even_shares(rows: Sequence[np.ndarray], count: int) -> tuple[NDArray[np.int64], list[int]]:
    """Return the rows' numbers, longest first, and how many of them each of ``count`` shares has:
    at least one, and about as many tokens as any other. The rows of a share are of like length.

    Args:
        rows: token ids of each sentence, at least ``count`` sentences.
    """
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    order = np.argsort(-lengths, kind="stable")
    tokens, share = lengths[order].cumsum(), np.arange(1, count)
    ends = np.searchsorted(tokens, tokens[-1] * share / count)
    ends = np.maximum.accumulate(np.maximum(ends - share, 0)) + share
    ends = np.minimum(ends, len(rows) - count + share)
    return order, np.diff(ends, prepend=0, append=len(rows)).tolist()


def _spans(lengths: NDArray[np.int64], size: int, overhead: int) -> list[tuple[int, int]]:
    """Return where to cut lengths, longest first, so that tokens with their padding, and
    ``overhead`` for each chunk of ``size``, are fewest; cuts lie between different lengths."""
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
