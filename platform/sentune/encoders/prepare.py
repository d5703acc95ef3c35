"""Resolve ``--encoder`` and ``--decoder`` to local folders that every worker can load.

Built-in models are those of ``sentune.encoders.builtin``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError, safe_open

from sentune.encoders.builtin import TinyDecoder, TinyEncoder
from sentune.errors import DamagedFile, InvalidValue
from sentune.io.folders import cached_folder
from sentune.lazy_import import transformers

# nothing executable and no pickles: configs, tokenizers and safetensors
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
BASE_WIDTH = 768
"""Width of the hidden states of bert-base and roberta-base."""

_FIX = "restore it from a copy, or download it again"


def prepare(spec: str, texts: Iterable[str], cache: Path, source: str = "") -> str:
    """Return an encoder's folder with config, tokenizer and, unless built in, weights.

    Args:
        spec: ``builtin:tiny[?layers=2&width=64...]``, a local folder, or a name on the hub.
        texts: sentences from which a built-in encoder's vocabulary is learned.
        cache: folder for built-in encoders; the same texts and options give the same folder.
        source: fingerprint of the texts, with which the folder is found without reading them.

    Raises:
        InvalidValue: there is no such folder or name, the hub cannot be reached, or the folder has
            no config or no safetensors.
        DamagedFile: a file of the folder cannot be read.
    """
    return named_folder(spec) or str(TinyEncoder.parse(spec).prepare(texts, cache, source))


def prepare_decoder(spec: str, texts: Iterable[str], cache: Path, source: str = "") -> str:
    """Do as ``prepare`` for a decoder, which may be an encoder-decoder or an encoder (BERT)."""
    named = named_folder(spec, "decoder")
    return named or str(TinyDecoder.parse(spec).prepare(texts, cache, source))


def named_folder(spec: str, part: Literal["encoder", "decoder"] = "encoder") -> str:
    """Return the folder of a local or downloaded model, or an empty string for a built-in one.

    The name and options of a built-in model are checked. Raises what ``prepare`` does.
    """
    if spec.startswith("builtin:"):
        (TinyEncoder if part == "encoder" else TinyDecoder).parse(spec)
        return ""
    option, folder = f"--{part}", Path(spec).expanduser()
    if folder.exists():
        folder = folder.resolve()
    elif folder.is_absolute() or spec.startswith((".", "~")) or spec.count("/") > 1:
        raise InvalidValue(option, spec, "there is no such folder; name an existing one")
    else:
        try:
            found = snapshot_download(spec, allow_patterns=_FILES, ignore_patterns=["*/*"])
        except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
            why = f"it is no local folder, and the download failed ({type(error).__name__})"
            fix = f"{why}; name a local folder, a model on the hub, or builtin:tiny"
            raise InvalidValue(option, spec, fix) from error
        folder = Path(found)
        if not any(folder.glob("*.safetensors")):
            fix = "the hub has no safetensors of it; convert its weights, or name another model"
            raise InvalidValue(option, spec, fix)
    if not (folder / "config.json").is_file():
        raise InvalidValue(option, spec, "name a folder with a Hugging Face config.json")
    if any(folder.glob("*.bin")) and not any(folder.glob("*.safetensors")):
        raise InvalidValue(option, spec, "its weights are pickled; convert them to safetensors")
    for file in (*folder.glob("*.json"), *folder.glob("*.safetensors")):
        _check_readable(file)
    return str(folder)


def encoder_class(spec: str, folder: str) -> str:
    """Return the size class of an encoder, which determines a study's first settings.

    Args:
        spec: specification of the encoder or the word vectors.
        folder: its folder from ``prepare`` or ``bundle``.

    Returns:
        ``scratch`` if built in, ``small`` if pretrained and narrower than ``BASE_WIDTH``, ``base``
        if pretrained, and an empty string for word vectors of a file.
    """
    if spec.startswith("builtin:"):
        return "scratch"
    places = Path(folder), Path(folder, "encoder")
    found = next((place for place in places if (place / "config.json").is_file()), None)
    if found is None:
        return ""
    width = transformers.AutoConfig.from_pretrained(found, local_files_only=True).hidden_size
    return "small" if width < BASE_WIDTH else "base"


def _check_readable(file: Path) -> None:
    """Raise ``DamagedFile`` for invalid JSON, or weights with a wrong header or size."""
    try:
        if file.suffix == ".json":
            json.loads(file.read_bytes())
        else:
            with safe_open(file, framework="numpy"):
                pass
    except ValueError as error:
        raise DamagedFile(file, f"it is not valid JSON ({error})", _FIX) from None
    except SafetensorError as error:
        raise DamagedFile(file, f"its weights cannot be read ({error})", _FIX) from None


def bundle(encoder_folder: str, decoder_folder: str, cache: Path) -> str:
    """Return a cached folder with the files of both in ``encoder/`` and ``decoder/``.

    Files are hard links if possible, else copies. Subfolders are left out.

    Raises:
        InvalidValue: one of the folders has no config.
    """
    parts = {"encoder": Path(encoder_folder), "decoder": Path(decoder_folder)}
    files: dict[str, Path] = {}
    digest = hashlib.sha256()
    for name, part in parts.items():
        if not (part / "config.json").is_file():
            raise InvalidValue(f"--{name}", str(part), "name a folder with a config.json")
        for file in sorted(file for file in part.iterdir() if file.is_file()):
            files[f"{name}/{file.name}"] = file.resolve()
            digest.update(f"{name}/{file.name} {_stamp(file)}\n".encode())

    def fill(draft: Path) -> None:
        for target, source in files.items():
            (draft / target).parent.mkdir(exist_ok=True)
            try:
                os.link(source, draft / target)
            except OSError:  # on another file system, or hard links are not supported
                shutil.copy2(source, draft / target)

    return str(cached_folder(cache / f"intersent-{digest.hexdigest()[:16]}", fill))


def _stamp(file: Path) -> str:
    """Identify weights by size and time, which is fast, and other files by content."""
    if file.suffix == ".safetensors":
        stat = file.stat()
        return f"{stat.st_size} {stat.st_mtime_ns}"
    return hashlib.sha256(file.read_bytes()).hexdigest()
