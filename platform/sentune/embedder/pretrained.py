"""Encoders used without training: pretrained ones from the hub or a folder, and random ones.

Legend: N = sentences, D = width of an embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

import torch
from huggingface_hub import snapshot_download
from pydantic import Field, ValidationError
from torch import Tensor

from sentune.encoders.tokenizing import begins_with_cls, length_sorted_chunks
from sentune.encoders.transformer import most_tokens, no_progress_bars
from sentune.encoders.words import WordTable, open_words
from sentune.encoders.words.random import KINDS, RandomEncoder
from sentune.errors import InvalidValue, first_line
from sentune.io.cached_file import node_cache
from sentune.methods.base import Settings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PREFIXES = ("hf:", "random:")

Encode = Callable[[list[str], int], Tensor]
"""Function of N sentences and a batch size that returns embeddings, [N, D]."""

_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]

PROMPTS = {"eol": 'This sentence : "{}" means in one word:"'}
"""Name -> template of the prompt. ``eol`` is that of Jiang et al. (2023), Scaling Sentence
Embeddings with Large Language Models, for causal language models with ``pooling=last``."""


class HubOptions(Settings):
    """Options of ``hf:NAME``; without ``pooling``, a sentence-transformers model uses its own."""

    pooling: Literal["mean", "cls", "max", "last", "pooler"] | None = None
    prompt: str = "{}"
    max_length: int | None = Field(None, ge=1)


class RandomOptions(Settings):
    """Options of ``random:KIND``; the default size is that of Wieting and Kiela (2019)."""

    vectors: str
    size: int = Field(4096, ge=1)
    seed: int = Field(0, ge=0)


def pretrained_encoder(source: str, device: torch.device) -> Encode:
    """Return the function of a pretrained or random encoder.

    Args:
        source: ``hf:NAME_OR_FOLDER`` with the options ``pooling=`` (``mean``, ``cls``, ``max``,
            ``last`` or ``pooler``), ``prompt=`` (``eol`` or a text with ``{}`` for the sentence)
            and ``max_length=``, such as ``hf:NAME?pooling=mean``; or ``random:KIND`` (``borep``,
            ``lstm``, ``esn``) with ``vectors=``, ``size=`` and ``seed=``, such as
            ``random:borep?vectors=glove:FILE``.

    Raises:
        InvalidValue: there is no such folder or model on the hub, its weights are not safetensors,
            an option is invalid, or sentence-transformers is not installed.
    """
    kind, _, rest = source.partition(":")
    name, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if kind == "random":
        return _random(source, name, _checked(RandomOptions, source, options), device)
    return _pretrained(source, name, _checked(HubOptions, source, options), device)


def _checked(kind: type[Any], source: str, options: Mapping[str, str]) -> Any:
    try:
        return kind.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        fix = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        fix = f"{fix}; options are {', '.join(kind.model_fields)}"
        raise InvalidValue("model", source, fix) from error


def _pretrained(source: str, name: str, options: HubOptions, device: torch.device) -> Encode:
    """Return an encoder of the hub or a folder, loaded by sentence-transformers."""
    template = PROMPTS.get(options.prompt, options.prompt)
    if "{}" not in template:
        fix = f"write prompt={' or '.join(PROMPTS)}, or a text with {{}} for the sentence"
        raise InvalidValue("prompt", options.prompt, fix)
    model = _sentence_transformer(source, name, options, device)
    encoder = model.transformers_model
    places = most_tokens(encoder) if encoder is not None else None
    if options.max_length or places:
        asked = options.max_length or model.max_seq_length
        model.max_seq_length = min(filter(None, (asked, places)))
    return partial(_pretrained_rows, model, template)


def _pretrained_rows(
    model: SentenceTransformer, template: str, sentences: list[str], batch_size: int
) -> Tensor:
    texts = [template.replace("{}", sentence) for sentence in sentences]
    found: Tensor = model.encode(
        texts, batch_size=batch_size, convert_to_tensor=True, show_progress_bar=False
    )
    return found.float()


def _sentence_transformer(
    source: str, name: str, options: HubOptions, device: torch.device
) -> SentenceTransformer:
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.base.modules import Transformer
        from sentence_transformers.sentence_transformer.modules import Pooling
    except ImportError as error:
        fix = "sentence-transformers is not installed: pip install 'sentune[pretrained]'"
        raise InvalidValue("model", source, fix) from error
    loading: dict[str, Any] = {"model_kwargs": {"use_safetensors": True, "dtype": torch.float32}}
    try:
        path = _folder(name)
        with no_progress_bars():
            if options.pooling is None and (Path(path) / "modules.json").is_file():
                loading |= {"device": str(device), "trust_remote_code": False}
                return SentenceTransformer(path, **loading)
            if options.pooling == "pooler":
                output = {"text": {"method": "forward", "method_output_name": "pooler_output"}}
                loading |= {"modality_config": output, "module_output_name": "sentence_embedding"}
                pooler = Transformer(path, **loading)
                return SentenceTransformer(modules=[pooler], device=str(device))
            transformer = Transformer(path, **loading)
            tokenizer = transformer.tokenizer
            if tokenizer.pad_token is None:  # as in many causal models; padding is masked
                tokenizer.pad_token = tokenizer.eos_token
            if options.pooling == "cls" and not begins_with_cls(tokenizer):
                fix = f"{name} puts no [CLS] before a sentence; use mean or last"
                raise InvalidValue("pooling", "cls", fix)
            mode = "lasttoken" if options.pooling == "last" else options.pooling or "mean"
            pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode=mode)
            return SentenceTransformer(modules=[transformer, pooling], device=str(device))
    except (OSError, ValueError, TypeError) as error:
        told = first_line(error)
        fix = f"name a folder of an encoder with safetensors, or a model on the hub ({told})"
        raise InvalidValue("model", source, fix) from error


def _folder(name: str) -> str:
    """Return the local folder of a path or hub name, downloaded without code and pickles.

    Raises:
        OSError, ValueError: the download fails.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder)
    return snapshot_download(name, allow_patterns=_FILES, ignore_patterns=["onnx/*", "openvino/*"])


def _random(source: str, kind: str, options: RandomOptions, device: torch.device) -> Encode:
    """Return a random encoder over word vectors; a sentence without known words is all zeros."""
    if kind not in KINDS:
        fix = f"write random:KIND with KIND one of {', '.join(KINDS)}"
        raise InvalidValue("model", source, fix)
    if kind != "borep" and options.size % 2:
        raise InvalidValue("size", options.size, f"{kind} has two directions; give an even number")
    words = open_words(options.vectors, None, node_cache())
    generator = torch.Generator().manual_seed(options.seed)
    encoder = KINDS[kind](words.vectors.shape[1], options.size, generator)
    return partial(_random_rows, words, encoder.to(device), device)


def _random_rows(
    words: WordTable,
    encoder: RandomEncoder,
    device: torch.device,
    sentences: list[str],
    batch_size: int,
) -> Tensor:
    found = words.ids(sentences)
    known = found.lengths.nonzero()[0]
    out = torch.zeros(len(found), encoder.width, device=device)
    if len(known):
        ids = [found.ids[found.offsets[k] : found.offsets[k + 1]] for k in known]
        chunks, restore = length_sorted_chunks(ids, batch_size, 0, device.type)
        parts = []
        with torch.no_grad():
            for chunk in chunks:
                vectors = torch.from_numpy(words.vectors[chunk.input_ids.numpy()])
                parts.append(encoder(vectors.to(device), chunk.attention_mask.bool().to(device)))
        out[known] = torch.cat(parts)[restore.to(device)]
    return out
