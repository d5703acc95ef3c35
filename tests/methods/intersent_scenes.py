"""Small models of InterSent and rows for them; nothing is downloaded."""

from __future__ import annotations

import atexit
import shutil
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    T5Config,
    T5ForConditionalGeneration,
)

from sentune.corpora import Kind, read
from sentune.encoders import prepare
from sentune.encoders.prepare import bundle, prepare_decoder
from sentune.encoders.tokenizing import DecoderTokenizer
from sentune.methods import Intersent
from sentune.training.recipes import recipe_of
from sentune.training.recipes.intersent import operation_encoder
from sentune.training.settings import TrainingSettings, split

ENCODER = "builtin:tiny?layers=1&width=16&heads=2&inner=32"
DECODER = "builtin:tiny?layers=1&width=24&heads=2&inner=32"
SIZE = 48
Columns = dict[str, list[np.ndarray]]


@cache
def scratch() -> Path:
    """A folder of this process."""
    folder = mkdtemp(prefix="intersent-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def rows() -> Any:
    """48 rows, the four operations in turn."""
    return read(f"builtin:operations?size={SIZE}", Kind.OPERATIONS).table


@cache
def texts() -> list[str]:
    table = rows()
    columns = (table[name].to_pylist() for name in ("first", "second", "target"))
    return [text for column in columns for text in column if text is not None]


@cache
def folder(encoder: str = ENCODER, decoder: str = DECODER) -> str:
    """Encoder and decoder side by side."""
    parts = prepare(encoder, texts(), scratch()), prepare_decoder(decoder, texts(), scratch())
    return bundle(*parts, scratch())


@cache
def columns(source: str | None = None) -> Columns:
    """The rows as a batch."""
    encoder = operation_encoder(source or folder(), 20)
    table = encoder.table(rows().combine_chunks().to_batches()[0])
    return {k: [np.asarray(ids, dtype=np.int32) for ids in table[k].to_pylist()] for k in names()}


def names() -> tuple[str, ...]:
    return Intersent.columns()


def part(batch: Columns, places: list[int]) -> Columns:
    """Some items of a batch."""
    return {name: [column[i] for i in places] for name, column in batch.items()}


def build(source: str | None = None, **settings: Any) -> tuple[Intersent, TrainingSettings]:
    """The method with seeded weights; settings of method and training together."""
    defaults = {"max_length": 20, "batch_size": SIZE, "pooling": "mean", "alpha": 0.5}
    own, training = split({**defaults, **settings}, Intersent)
    torch.manual_seed(3)
    method = recipe_of(Intersent).build(
        partial(Intersent, settings=own), training, source or folder()
    )
    return (method.double() if training.precision == "float64" else method), training


@cache
def family(name: str) -> str:
    """Folder of a random model of one layer with the tokenizer of the small decoder."""
    tokenizer = DecoderTokenizer(prepare_decoder(DECODER, texts(), scratch()))
    torch.manual_seed(5)
    model = _MAKE[name](tokenizer.size)
    place = scratch() / name
    model.save_pretrained(place)
    tokenizer.save(place)
    return str(place)


def _bart(size: int) -> Any:
    return BartForConditionalGeneration(
        BartConfig(
            vocab_size=size,
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            max_position_embeddings=40,
            dropout=0.0,
            init_std=0.5,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
            decoder_start_token_id=3,
            forced_eos_token_id=3,
        )
    )


def _t5(size: int) -> Any:
    config = T5Config(
        vocab_size=size, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, dropout_rate=0.0,
        pad_token_id=0, eos_token_id=3, decoder_start_token_id=0,
    )  # fmt: skip
    return T5ForConditionalGeneration(config)


def _bert(size: int) -> Any:
    config = BertConfig(
        vocab_size=size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=40, initializer_range=0.5,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config)


_MAKE = {"bart": _bart, "t5": _t5, "bert": _bert}
FAMILIES = tuple(_MAKE)
