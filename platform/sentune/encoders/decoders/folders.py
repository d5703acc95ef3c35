"""Folders with an encoder and a decoder side by side."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from sentune.errors import InvalidValue
from sentune.io.folders import new_folder

_WEIGHTS = ".safetensors"


def bundle(encoder_folder: str, decoder_folder: str, cache: Path) -> str:
    """A folder with ``encoder/`` and ``decoder/``, of hard links where the file system allows.

    Args:
        encoder_folder, decoder_folder: Hugging Face folders with tokenizers; their subfolders are
            left out.
        cache: equal folders give the same folder in it.

    Raises:
        InvalidValue: one of the folders has no config.
    """
    parts = {"encoder": Path(encoder_folder), "decoder": Path(decoder_folder)}
    digest = hashlib.sha256()
    for name, part in parts.items():
        if not (part / "config.json").is_file():
            raise InvalidValue(f"--{name}", str(part), "name a folder with a config.json")
        for file in _files(part):
            digest.update(f"{name}/{file.name} {_stamp(file)}\n".encode())
    folder = cache / f"intersent-{digest.hexdigest()[:16]}"
    return str(new_folder(folder, lambda beside: _fill(beside, parts)))


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file())


def _stamp(file: Path) -> str:
    """Weights by size and time, since hashing gigabytes takes long; all else by content."""
    if file.suffix == _WEIGHTS:
        stat = file.stat()
        return f"{stat.st_size} {stat.st_mtime_ns}"
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _fill(folder: Path, parts: dict[str, Path]) -> None:
    for name, part in parts.items():
        (folder / name).mkdir()
        for file in _files(part):
            _link(file.resolve(), folder / name / file.name)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copy2(source, target)
