"""``builtin:tiny``: a small BERT and a WordPiece vocabulary learned from the corpus.

Nothing is downloaded; the weights are drawn when the encoder is loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from transformers import BertConfig, PreTrainedTokenizerFast

from sentune.encoders.tiny_options import Inner, TinyOptions, Width
from sentune.encoders.word_pieces import SPECIAL_TOKENS, count_words, learn_tokenizer
from sentune.errors import InvalidValue
from sentune.io.folders import new_folder


class TinySpec(TinyOptions):
    """Options of ``builtin:tiny?name=value&...``."""

    part: ClassVar[str] = "encoder"

    width: Width = 64
    """Width of the hidden states; a multiple of ``heads``."""
    inner: Inner = 256
    """Width of the feed-forward layers."""


def prepare_tiny(spec: TinySpec, texts: Iterable[str], cache: Path) -> Path:
    """Folder with config and tokenizer, named by a hash of the texts' words and the options."""
    words = count_words(texts)
    if not words:
        raise InvalidValue("--encoder", "builtin:tiny", "the corpus has no words to learn from")
    content = json.dumps([spec.model_dump(), sorted(words.items())], ensure_ascii=False)
    folder = cache / f"tiny-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    return new_folder(folder, lambda beside: _write(spec, words, beside))


def _write(spec: TinySpec, words: Counter[str], folder: Path) -> None:
    tokenizer = learn_tokenizer(words, spec.vocabulary)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=spec.positions,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(str(folder))
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
