"""A decoder's token ids back to text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from transformers import AutoTokenizer

from sentune.errors import InvalidValue


class DecoderTokenizer:
    """A Hugging Face tokenizer, reduced to what decoders need.

    Attributes:
        pad_id: id of the padding token; the end token's where there is none.
        start_id: id of the first special token ([CLS], <s>); None where there is none (T5).
        end_id: id of the token that ends a sentence.
        size: number of token ids.
        leads: whether it puts ``start_id`` before a sentence.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        t = self._tokenizer
        end = t.eos_token_id if t.eos_token_id is not None else t.sep_token_id
        if end is None:
            fix = "name a decoder whose tokenizer has an end-of-sentence token"
            raise InvalidValue("--decoder", path, fix)
        self.end_id: int = end
        self.pad_id: int = t.pad_token_id if t.pad_token_id is not None else end
        start = t.bos_token_id if t.bos_token_id is not None else t.cls_token_id
        self.start_id: int | None = start
        self.size: int = len(t)
        self.leads: bool = start is not None and t("")["input_ids"][:1] == [start]

    def texts(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Sentences without special tokens; runs of spaces become one."""
        if not len(ids):
            return []
        found = self._tokenizer.batch_decode([list(row) for row in ids], skip_special_tokens=True)
        return [" ".join(text.split()) for text in found]

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files, as Hugging Face reads them."""
        self._tokenizer.save_pretrained(os.fspath(folder))
