"""``builtin:tiny``: a small BERT and a WordPiece vocabulary learned from the corpus.

Nothing is downloaded; the weights are drawn when the encoder is loaded.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from transformers import BertConfig, PreTrainedTokenizerFast

from sentune.encoders.word_pieces import SPECIAL_TOKENS, count_words, learn_tokenizer
from sentune.errors import InvalidValue


class TinySpec(BaseModel):
    """Options of ``builtin:tiny?name=value&...``."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    layers: int = Field(2, ge=1, le=24)
    """Transformer layers."""
    width: int = Field(64, ge=8, le=1024)
    """Width of the hidden states; a multiple of ``heads``."""
    heads: int = Field(4, ge=1, le=16)
    """Attention heads."""
    inner: int = Field(256, ge=8, le=4096)
    """Width of the feed-forward layers."""
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout of hidden states and attention."""
    vocabulary: int = Field(8000, ge=100, le=60000)
    """Most word pieces, special tokens included."""
    positions: int = Field(128, ge=8, le=4096)
    """Most tokens of a sentence."""

    @classmethod
    def parse(cls, spec: str) -> TinySpec:
        """Read ``builtin:tiny?layers=2&width=64``."""
        name, _, query = spec.removeprefix("builtin:").partition("?")
        if name != "tiny":
            raise InvalidValue("--encoder", spec, "the built-in encoder is builtin:tiny")
        try:
            options = cls.model_validate(dict(parse_qsl(query, strict_parsing=bool(query))))
        except (ValidationError, ValueError) as error:
            allowed = ", ".join(cls.model_fields)
            raise InvalidValue("--encoder", spec, f"options are {allowed}: {error}") from error
        if options.width % options.heads:
            raise InvalidValue("--encoder", spec, "width must be a multiple of heads")
        return options


def prepare_tiny(spec: TinySpec, texts: Iterable[str], cache: Path) -> Path:
    """Folder with config and tokenizer, named by a hash of the texts' words and the options."""
    words = count_words(texts)
    if not words:
        raise InvalidValue("--encoder", "builtin:tiny", "the corpus has no words to learn from")
    content = json.dumps([spec.model_dump(), sorted(words.items())], ensure_ascii=False)
    folder = cache / f"tiny-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    if not folder.exists():
        _write(spec, words, folder)
    return folder.resolve()


def _write(spec: TinySpec, words: Counter[str], folder: Path) -> None:
    """Write beside the final place and rename, so that a folder which exists is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    tokenizer = learn_tokenizer(words, spec.vocabulary)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=spec.positions,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(str(beside))
    _config(spec, tokenizer.get_vocab_size()).save_pretrained(str(beside))
    try:
        beside.rename(folder)
    except OSError:  # another process was first, with the same content
        shutil.rmtree(beside)
        if not folder.exists():
            raise


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
