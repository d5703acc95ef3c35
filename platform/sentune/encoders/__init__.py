"""Text encoders: Hugging Face models, a small built-in transformer, and fixed word vectors."""

from __future__ import annotations

from pathlib import Path

from sentune.encoders import transformer
from sentune.encoders.prepare import prepare
from sentune.encoders.tokenizing import Chunk, Tokenizer, even_shares, length_sorted_chunks
from sentune.encoders.transformer import Pooling, TextEncoder
from sentune.encoders.words.vectors import WordTokenizer, WordVectors, is_word_table
from sentune.encoders.words.whole import load_whole


def load(path: str) -> TextEncoder:
    """Return the encoder of a folder: word vectors if it has a word table, else a transformer.

    Raises what ``load_whole`` and ``transformer.load`` do.
    """
    return WordVectors(load_whole(Path(path))) if is_word_table(path) else transformer.load(path)


def load_tokenizer(path: str) -> Tokenizer | WordTokenizer:
    """Return the tokenizer of a prepared encoder or of a model folder."""
    return WordTokenizer(path) if is_word_table(path) else Tokenizer(path)


__all__ = [
    "Chunk",
    "Pooling",
    "TextEncoder",
    "Tokenizer",
    "WordTokenizer",
    "even_shares",
    "length_sorted_chunks",
    "load",
    "load_tokenizer",
    "prepare",
]
