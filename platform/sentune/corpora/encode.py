"""From the text of a corpus to lists of ids: what does it, and the tokenizer that most use."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sentune.errors import InvalidValue

_LABELS = ("label", "reverse_label", "subset")


class TableEncoder(Protocol):
    """Turns record batches of one kind into tables of lists of int32, one column each.

    Attributes:
        fingerprint: of everything that decides about the ids, but ``max_length``.
        max_length: longest list of ids.
    """

    fingerprint: str
    max_length: int

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        """As many rows as the batch has, in their order."""


class Encoder:
    """Tokenises the sentence columns of record batches.

    Args:
        path: folder or name of a Hugging Face tokenizer.
        max_length: longest sequence, special tokens included.

    Raises:
        InvalidValue: when ``max_length`` leaves no room beside the special tokens.
    """

    def __init__(self, path: str, max_length: int) -> None:
        from transformers import AutoTokenizer  # only here: it takes seconds to import

        self._tokenizer: Any = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        special = self._tokenizer.num_special_tokens_to_add()
        if max_length <= special:
            raise InvalidValue("max_length", max_length, f"use at least {special + 1}")
        self.max_length = max_length
        self.fingerprint = _fingerprint(self._tokenizer)

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the ids of every sentence column of the batch, under the same names."""
        columns = {
            field.name: self.column(batch.column(field.name))
            for field in batch.schema
            if pa.types.is_string(field.type) and field.name not in _LABELS
        }
        return pa.table(columns)

    def column(self, texts: pa.Array) -> pa.ListArray:
        """Return the ids of some texts; no ids at all, not even special ones, where a text is null.

        Each distinct text is tokenised once: a premise of NLI comes back three times.
        """
        coded = pc.dictionary_encode(texts)
        sequences = [*self._sequences(coded.dictionary.to_pylist()), []]
        lengths = np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences))
        ids = np.fromiter((i for s in sequences for i in s), dtype=np.int32, count=lengths.sum())
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        places = pc.fill_null(coded.indices, len(sequences) - 1)
        return pa.ListArray.from_arrays(offsets, ids).take(places)

    def ends_texts(self) -> bool:
        """Whether every text ends with the tokenizer's token for that, however short it is cut."""
        (ids,) = self._sequences([""])
        ends = {self._tokenizer.eos_token_id, self._tokenizer.sep_token_id} - {None}
        return bool(ids) and ids[-1] in ends

    def _sequences(self, texts: list[str]) -> list[list[int]]:
        if not texts:  # the tokenizers of transformers fail on an empty list
            return []
        sequences: list[list[int]] = self._tokenizer(
            texts,
            truncation=True,
            max_length=self.max_length,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        return sequences


def _fingerprint(tokenizer: Any) -> str:
    """A hash of everything that decides about ids: the whole pipeline of a fast tokenizer, else
    class, vocabulary and special tokens."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is not None:
        # truncation and padding are states of use, not of the tokenizer
        content = {**json.loads(fast.to_str()), "truncation": None, "padding": None}
    else:
        content = {
            "class": type(tokenizer).__name__,
            "vocabulary": tokenizer.get_vocab(),
            "special": {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        }
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
