"""Finding and reading a model folder, whichever kind of method it holds."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache
from json import JSONDecodeError
from pathlib import Path

import torch
from safetensors import SafetensorError

from sentune.embedder.embedder import Embedder
from sentune.embedder.pretrained import PREFIXES, load_pretrained
from sentune.embedder.references import StoredReferences
from sentune.embedder.word_embedders import InvertibleEmbedder, WordEmbedder
from sentune.errors import InvalidValue
from sentune.io.folders import found_again
from sentune.io.object_store import on_this_machine
from sentune.methods import CLOSED_FORM, Invertible
from sentune.training.closed_form_model import load_closed_form
from sentune.training.model import (
    CARD_FILE,
    READOUTS_FILE,
    SETTINGS_FILE,
    LoadedModel,
    check_model,
    load_method,
    read_settings,
)


def load(source: str | Path, device: str | torch.device | None = None) -> Embedder:
    """Return the embedder of the kind that a model needs; see ``Embedder.load``."""
    if str(source).startswith(PREFIXES):
        return load_pretrained(str(source), device)
    folder = folder_of(source)
    if not folder.is_dir():
        raise InvalidValue("model", str(folder), "there is no such folder")
    check_model(folder)
    card = folder / CARD_FILE
    text = card.read_text(encoding="utf-8") if card.is_file() else ""
    name = str(read_settings(folder)["method"]) if (folder / SETTINGS_FILE).is_file() else ""
    if name in CLOSED_FORM:
        return WordEmbedder(load_closed_form(folder), text)
    model = _load_trained(folder, on_words=name == Invertible.name)
    if model.tokenizer is None:
        return InvertibleEmbedder(model, text, device)
    return Embedder(
        model.method,
        model.tokenizer,
        settings=model.settings,
        readouts=model.readouts,
        card=text,
        references=StoredReferences.load(folder),
        device=device,
    )


def _load_trained(folder: Path, *, on_words: bool) -> LoadedModel:
    """Return the model of a method that was trained by gradient, ``on_words`` or with a tokenizer.

    Raises:
        InvalidValue: what is missing or damaged; absent weights must never become random ones.
    """
    needed = [READOUTS_FILE]
    if not on_words:
        needed = [SETTINGS_FILE, READOUTS_FILE, "config.json", "tokenizer_config.json"]
    missing = [name for name in needed if not (folder / name).is_file()]
    if not on_words and not any(folder.glob("model*.safetensors")):
        missing.append("model.safetensors")
    if missing:
        raise InvalidValue("model", str(folder), f"it is no model, without {', '.join(missing)}")
    try:
        return load_method(folder)
    except (SafetensorError, JSONDecodeError) as error:
        raise InvalidValue("model", str(folder), f"a file of it is damaged: {error}") from error


def folder_of(source: str | Path) -> Path:
    """Return the local folder of a path, of an fsspec URI, or of ``models:/NAME@champion``.

    What lies in an object store is copied once, for as long as the process lives.

    Raises:
        InvalidValue: there is no such model.
        StorageError: the store refuses, or does not answer.
    """
    if str(source).startswith("models:/"):
        from sentune.tracking.registry import resolve_model

        return Path(resolve_model(str(source)))
    if "://" in str(source):
        return _copied(str(source))
    return found_again(Path(source).expanduser())


_COPIES = ExitStack()
atexit.register(_COPIES.close)


@cache
def _copied(uri: str) -> Path:
    try:
        return _COPIES.enter_context(on_this_machine(uri))
    except FileNotFoundError as error:
        raise InvalidValue("model", uri, "there is no such folder") from error
