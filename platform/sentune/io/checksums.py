"""Record the checksums of a folder's files and find files that changed since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sentune.io.object_store import asked, files_at


def checksums(folder: Path) -> dict[str, dict[str, Any]]:
    """Return relative path -> ``bytes`` and ``blake2b`` (128 bits, hexadecimal) of each file."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    records = ({"bytes": file.stat().st_size, "blake2b": _digest(file)} for file in files)
    names = (file.relative_to(folder).as_posix() for file in files)
    return dict(zip(names, records, strict=True))


def checksum(content: bytes) -> dict[str, Any]:
    """Return ``bytes`` and ``blake2b`` of a file with this content, as ``checksums`` does."""
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    return {"bytes": len(content), "blake2b": digest}


def damage(folder: Path, recorded: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe the first file that differs from its record; return an empty string if none does."""
    for name, was in recorded.items():
        file = folder / name
        if not file.is_file():
            return f"{name} is missing"
        if (size := file.stat().st_size) != was["bytes"]:
            return f"{name} has {size:,} bytes instead of {was['bytes']:,}"
        if _digest(file) != was["blake2b"]:
            return f"checksum of {name} differs"
    return ""


def changed(folder: str, recorded: Mapping[str, Mapping[str, Any]]) -> str:
    """Do as ``damage`` for a folder or URI, comparing checksums only.

    Raises:
        StorageError: an object store refuses, or does not answer.
    """
    files, root = files_at(folder)

    def digest(name: str) -> str:
        with files.open(f"{root}/{name}", "rb") as handle:
            return _digest_of(handle)

    for name, was in recorded.items():
        try:
            found = asked(folder, partial(digest, name))
        except FileNotFoundError:
            return f"{name} is missing"
        if found != was["blake2b"]:
            return f"{name} has the checksum {found[:12]} instead of {was['blake2b'][:12]}"
    return ""


def document_checksum(content: Any) -> str:
    """Return the checksum of a JSON document; it does not depend on the order of keys or layout."""
    return str(checksum(json.dumps(content, sort_keys=True).encode())["blake2b"])


def _digest(file: Path) -> str:
    with file.open("rb") as handle:
        return _digest_of(handle)


def _digest_of(handle: Any) -> str:
    return hashlib.file_digest(handle, partial(hashlib.blake2b, digest_size=16)).hexdigest()
