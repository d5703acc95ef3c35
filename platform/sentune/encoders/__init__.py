"""Text to tensors: Hugging Face encoders and the small built-in one."""

from __future__ import annotations

from sentune.encoders.prepare import prepare
from sentune.encoders.tokenizing import Chunk, Tokenizer, length_sorted_chunks, load_tokenizer
from sentune.encoders.transformer import Pooling, TextEncoder, load

__all__ = [
    "Chunk",
    "Pooling",
    "TextEncoder",
    "Tokenizer",
    "length_sorted_chunks",
    "load",
    "load_tokenizer",
    "prepare",
]
