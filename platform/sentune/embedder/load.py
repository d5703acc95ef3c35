"""Reading of model folders: local ones, those in object stores, and those of the registry."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from functools import cache
from json import JSONDecodeError
from pathlib import Path

from safetensors import SafetensorError

from sentune.errors import InvalidValue, first_line
from sentune.io.folders import found_again
from sentune.io.object_store import asked, files_at, on_this_machine
from sentune.methods import CLOSED_FORM
from sentune.training.closed_form_model import load_closed_form
from sentune.training.model import (
    CARD_FILE,
    MANIFEST,
    LoadedModel,
    check_model,
    load_method,
    read_settings,
)


def read_model(source: str | Path) -> tuple[LoadedModel, Path, str]:
    """Return the model of a folder, the local folder, and the text of the model card.

    Raises:
        InvalidValue: there is no model, or a file differs from the manifest or cannot be read.
    """
    folder = folder_of(source)
    if not folder.is_dir():
        fix = "there is no such folder; models of the hub are written hf:NAME"
        raise InvalidValue("model", str(folder), fix)
    if (folder / "model" / MANIFEST).is_file():
        raise InvalidValue("model", str(folder), f"it is a study; name {folder / 'model'}")
    check_model(folder)
    card = folder / CARD_FILE
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    try:
        closed = read_settings(folder)["method"] in CLOSED_FORM
        return (load_closed_form if closed else load_method)(folder), folder, text
    except (SafetensorError, JSONDecodeError, UnicodeDecodeError, OSError) as error:
        fix = f"one of its files cannot be read: {first_line(error)}"
        raise InvalidValue("model", str(folder), fix) from error


def folder_of(source: str | Path) -> Path:
    """Return the local folder of a path, of an fsspec URI, or of ``models:/NAME@champion``.

    A folder in an object store is copied once per process and manifest.

    Raises:
        InvalidValue: there is no such model.
        StorageError: the store refuses access or does not answer.
    """
    if str(source).startswith("models:/"):
        from sentune.tracking.registry import resolve_model

        return Path(resolve_model(str(source)))
    if "://" in str(source):
        uri = str(source)
        files, root = files_at(uri)
        try:
            manifest = asked(uri, lambda: files.cat_file(f"{root}/{MANIFEST}"))
        except FileNotFoundError:  # earlier versions wrote none
            manifest = b""
        return _copied(uri, manifest)
    if not isinstance(source, str | os.PathLike):
        fix = "give a folder or a URI; the model of a study is study.model"
        raise InvalidValue("model", source, fix)
    path = Path(source).expanduser()
    return found_again(path) if path.name else path  # the name of "." is empty


_COPIES = ExitStack()
atexit.register(_COPIES.close)


@cache
def _copied(uri: str, manifest: bytes) -> Path:
    """Return a local copy of a folder, cached by URI and manifest."""
    try:
        return _COPIES.enter_context(on_this_machine(uri))
    except FileNotFoundError as error:
        raise InvalidValue("model", uri, "there is no such folder") from error
