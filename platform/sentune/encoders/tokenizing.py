"""Sentences to token ids."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

from sentune.errors import InvalidValue


class Tokenizer:
    """A Hugging Face tokenizer, reduced to what sentence encoders need.

    Attributes:
        pad_id: id of the padding token.
        size: number of token ids.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        if self._tokenizer.pad_token_id is None:
            raise InvalidValue(
                "--encoder", path, "name an encoder whose tokenizer has a padding token"
            )
        self.pad_id: int = self._tokenizer.pad_token_id
        self.size: int = len(self._tokenizer)

    def encode(self, texts: Sequence[str], max_length: int) -> list[np.ndarray]:
        """Token ids of each text with its special tokens, cut to ``max_length``, no padding."""
        if not texts:
            return []
        encoded = self._tokenizer(
            list(texts),
            truncation=True,
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        return [np.asarray(ids, dtype=np.int32) for ids in encoded["input_ids"]]

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files, as ``load_tokenizer`` and Hugging Face read them."""
        self._tokenizer.save_pretrained(os.fspath(folder))


def load_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a prepared encoder or of a model folder."""
    return Tokenizer(path)
