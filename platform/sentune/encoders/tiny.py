"""``builtin:tiny``: a small BERT and a WordPiece vocabulary learned from the corpus.

Nothing is downloaded; the weights are drawn when the encoder is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from transformers import BertConfig

from sentune.encoders.tiny_options import Inner, TinyOptions, Width
from sentune.encoders.word_pieces import SPECIAL_TOKENS, learn_tokenizer


class TinySpec(TinyOptions):
    """Options of ``builtin:tiny?name=value&...``."""

    part: ClassVar[str] = "encoder"

    width: Width = 64
    """Width of the hidden states; a multiple of ``heads``."""
    inner: Inner = 256
    """Width of the feed-forward layers."""


def prepare_tiny(spec: TinySpec, texts: Iterable[str], cache: Path) -> Path:
    """Return the folder with config and tokenizer, made where it is missing."""
    return spec.prepare(texts, cache, "tiny", partial(_write, spec))


def _write(spec: TinySpec, words: Counter[str], folder: Path) -> None:
    tokenizer = learn_tokenizer(words, spec.vocabulary)
    spec.save_tokenizer(tokenizer, folder)
    _config(spec, tokenizer.get_vocab_size()).save_pretrained(str(folder))


def _config(spec: TinySpec, vocabulary: int) -> BertConfig:
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=spec.width,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        intermediate_size=spec.inner,
        hidden_dropout_prob=spec.dropout,
        attention_probs_dropout_prob=spec.dropout,
        max_position_embeddings=spec.positions,
        pad_token_id=SPECIAL_TOKENS.index("[PAD]"),
    )
