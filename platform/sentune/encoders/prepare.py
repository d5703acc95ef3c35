"""From ``--encoder`` and ``--decoder`` to local folders that every worker can load."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError, safe_open

from sentune.encoders.tiny import TinyDecoder, TinyEncoder, TinyOptions
from sentune.errors import DamagedFile, InvalidValue
from sentune.io.folders import cached_folder

# nothing executable and no pickles: configs, tokenizers and safetensors
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_FIX = "bring it back from a copy, or from where it was downloaded"


def prepare(spec: str, texts: Iterable[str], cache: Path) -> str:
    """Return the path of an encoder's folder with config, tokenizer and, unless built in, weights.

    Args:
        spec: ``builtin:tiny[?layers=2&width=64...]``, a local folder, or a name on the hub.
        texts: sentences that a built-in encoder's vocabulary is learned from.
        cache: folder for built-in encoders; the same texts and options give the same folder.

    Raises:
        InvalidValue: no such folder, no such name, or the hub cannot be reached.
        DamagedFile: a file of the folder cannot be read.
    """
    return str(_folder(TinyEncoder, spec, texts, cache))


def prepare_decoder(spec: str, texts: Iterable[str], cache: Path) -> str:
    """Do as ``prepare`` for a decoder, an encoder-decoder, or an encoder such as BERT."""
    return str(_folder(TinyDecoder, spec, texts, cache))


def _folder(kind: type[TinyOptions], spec: str, texts: Iterable[str], cache: Path) -> Path:
    if spec.startswith("builtin:"):
        return kind.parse(spec).prepare(texts, cache)
    option, folder = f"--{kind.part}", Path(spec).expanduser()
    if folder.exists():
        folder = folder.resolve()
    elif folder.is_absolute() or spec.startswith((".", "~")) or spec.count("/") > 1:
        raise InvalidValue(option, spec, "no such folder; name an existing one")
    else:
        try:
            found = snapshot_download(spec, allow_patterns=_FILES, ignore_patterns=["*/*"])
        except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
            why = f"it is no local folder and the hub did not give it ({type(error).__name__})"
            fix = f"{why}; name a local folder, or builtin:tiny"
            raise InvalidValue(option, spec, fix) from error
        folder = Path(found)
    if not (folder / "config.json").is_file():
        raise InvalidValue(option, spec, "name a folder with a Hugging Face config.json")
    if any(folder.glob("*.bin")) and not any(folder.glob("*.safetensors")):
        raise InvalidValue(option, spec, "its weights are pickled; convert them to safetensors")
    for file in (*folder.glob("*.json"), *folder.glob("*.safetensors")):
        _check_readable(file)
    return folder


def _check_readable(file: Path) -> None:
    """Raise ``DamagedFile`` for no JSON, or a file of weights with a wrong head or size."""
    try:
        if file.suffix == ".json":
            json.loads(file.read_bytes())
        else:
            with safe_open(file, framework="numpy"):
                pass
    except ValueError as error:
        raise DamagedFile(file, f"it is no JSON ({error})", _FIX) from None
    except SafetensorError as error:
        raise DamagedFile(file, f"its weights cannot be read ({error})", _FIX) from None


def bundle(encoder_folder: str, decoder_folder: str, cache: Path) -> str:
    """Return a folder with ``encoder/`` and ``decoder/``, of hard links where they are possible.

    Subfolders of the two are left out; equal folders give the same one in the cache.

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
            except OSError:  # another file system, or one without hard links
                shutil.copy2(source, draft / target)

    return str(cached_folder(cache / f"intersent-{digest.hexdigest()[:16]}", fill))


def _stamp(file: Path) -> str:
    """Weights by size and time, since hashing gigabytes takes long; all else by content."""
    if file.suffix == ".safetensors":
        stat = file.stat()
        return f"{stat.st_size} {stat.st_mtime_ns}"
    return hashlib.sha256(file.read_bytes()).hexdigest()
