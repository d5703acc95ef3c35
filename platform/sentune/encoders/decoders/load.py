"""A decoder from its folder, whatever family it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from sentune.encoders.decoders.decoder import Decoder
from sentune.encoders.decoders.tokenizing import DecoderTokenizer
from sentune.encoders.transformer import no_progress_bars
from sentune.errors import InvalidValue

_DRAWN = ("cross", "cls.", "lm_head")  # what a model that was no decoder lacks


def load_decoder(path: str) -> Decoder:
    """Return the decoder that ``prepare_decoder`` left at ``path``, in float32.

    An encoder-decoder (BART, T5) gives its decoder and output layer; an encoder (BERT) or a
    language model gets cross-attention, drawn from torch's global generator where the folder has
    none. A folder without any weights is a decoder to train from scratch.

    Raises:
        InvalidValue: the folder lacks a config or weights, or has some that are not safetensors.
    """
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise InvalidValue("--decoder", path, "name a folder with a config.json")
    stored = any(folder.glob("*.safetensors"))
    if not stored and any(folder.glob("*.bin")):
        raise InvalidValue("--decoder", path, "convert its weights to safetensors first")
    tokenizer = DecoderTokenizer(path)
    config = AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    if not config.is_encoder_decoder:
        config.is_decoder = config.add_cross_attention = True
    model = _stored(kind, path, config) if stored else _drawn(kind, path, config)
    return _decoder(model, tokenizer)


def _drawn(kind: Any, path: str, config: Any) -> Any:
    try:
        return kind.from_config(config)
    except ValueError as error:
        raise _no_decoder(path) from error


def _stored(kind: Any, path: str, config: Any) -> Any:
    """The stored weights; only those that are not used, or never were stored, may be missing."""
    try:
        with no_progress_bars():
            model, info = kind.from_pretrained(
                path,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
    except ValueError as error:
        raise _no_decoder(path) from error
    joined = config.is_encoder_decoder
    missing = [k for k in sorted(info["missing_keys"]) if not _may_be_missing(k, joined=joined)]
    if missing:
        raise InvalidValue("--decoder", path, f"its weights lack {', '.join(missing[:3])}")
    return model


def _no_decoder(path: str) -> InvalidValue:
    return InvalidValue("--decoder", path, "name a decoder, an encoder-decoder, or a BERT")


def _may_be_missing(key: str, *, joined: bool) -> bool:
    if joined:
        return key.startswith(("encoder.", "model.encoder.")) or key == "final_logits_bias"
    return any(part in key for part in _DRAWN)


def _decoder(model: Any, tokenizer: DecoderTokenizer) -> Decoder:
    joined = model.config.is_encoder_decoder
    start = model.config.decoder_start_token_id if joined else tokenizer.start_id
    if joined:
        _leave_out_encoder(model)
    if start is None:
        fix = "its config names no decoder_start_token_id, nor its tokenizer a first token"
        raise InvalidValue("--decoder", tokenizer.path, fix)
    return Decoder(model, tokenizer, start)


def _leave_out_encoder(model: Any) -> None:
    """Put a module without parameters where the encoder was."""
    owner = model if hasattr(model, "encoder") else model.model
    owner.encoder = _Absent()


class _Absent(nn.Module):
    """Stands where an encoder was; the library asks it for the name of its main input."""

    main_input_name = "input_ids"
