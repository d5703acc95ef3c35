"""Decoders that turn one vector into a sentence: BART, T5, BERT and the small built-in one."""

from __future__ import annotations

from sentune.encoders.decoders.decoder import Decoder
from sentune.encoders.decoders.folders import bundle
from sentune.encoders.decoders.load import load_decoder
from sentune.encoders.decoders.prepare import prepare_decoder
from sentune.encoders.decoders.tokenizing import DecoderTokenizer

__all__ = [
    "Decoder",
    "DecoderTokenizer",
    "bundle",
    "load_decoder",
    "prepare_decoder",
]
