"""``builtin:tiny`` as a decoder: a small BART, its word pieces learned from the corpus.

Nothing is downloaded; the weights are drawn when the decoder is loaded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from tokenizers import decoders
from transformers import BartConfig

from sentune.encoders.tiny_options import Inner, TinyOptions, Width
from sentune.encoders.word_pieces import SPECIAL_TOKENS, learn_tokenizer

_PAD, _START, _END = (SPECIAL_TOKENS.index(token) for token in ("[PAD]", "[CLS]", "[SEP]"))


class TinyDecoderSpec(TinyOptions):
    """Options of ``builtin:tiny?name=value&...`` where it names a decoder."""

    part: ClassVar[str] = "decoder"

    width: Width = 128
    """Width of the hidden states; a multiple of ``heads``."""
    inner: Inner = 512
    """Width of the feed-forward layers."""


def prepare_tiny_decoder(spec: TinyDecoderSpec, texts: Iterable[str], cache: Path) -> Path:
    """Return the folder with config and tokenizer, made where it is missing."""
    return spec.prepare(texts, cache, "tiny-decoder", partial(_write, spec))


def _write(spec: TinyDecoderSpec, words: Counter[str], folder: Path) -> None:
    tokenizer = learn_tokenizer(words, spec.vocabulary)
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    spec.save_tokenizer(tokenizer, folder, bos_token="[CLS]", eos_token="[SEP]")
    _config(spec, tokenizer.get_vocab_size()).save_pretrained(str(folder))


def _config(spec: TinyDecoderSpec, vocabulary: int) -> BartConfig:
    """Return a BART whose encoder, which is not used, has no layers.

    Weights are drawn with a deviation of 1 / sqrt(width): with BART's 0.02, meant for a width of
    768, a narrow decoder's cross-attention adds a twentieth of the vector that it is given.
    """
    return BartConfig(
        vocab_size=vocabulary,
        d_model=spec.width,
        encoder_layers=0,
        decoder_layers=spec.layers,
        encoder_attention_heads=spec.heads,
        decoder_attention_heads=spec.heads,
        encoder_ffn_dim=spec.inner,
        decoder_ffn_dim=spec.inner,
        dropout=spec.dropout,
        attention_dropout=spec.dropout,
        max_position_embeddings=spec.positions,
        init_std=1 / math.sqrt(spec.width),
        pad_token_id=_PAD,
        bos_token_id=_START,
        eos_token_id=_END,
        decoder_start_token_id=_START,
        forced_eos_token_id=None,
    )
