"""Open files of the driver's cache on any node, fetched once from an object store if needed."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from sentune.errors import SentuneError
from sentune.io.atomic import read_document
from sentune.io.checksums import damage
from sentune.io.folders import checked_manifest, draft_name
from sentune.io.object_store import StorageError, asked, files_at


class CacheError(StorageError):
    """A node cannot open a file of the cache; the trial's settings are not the cause."""

    def __init__(self, path: str, why: str, fix: str) -> None:
        self.path, self.why, self.fix, self.node = path, why, fix, socket.gethostname()
        SentuneError.__init__(self, f"node {self.node}: {path}: {why}; {fix}")


DAY, UNUSED_DAYS = 86_400, 30
"""Seconds of a day; days after which an unused fetched copy is deleted."""

_MISSING, _AGAIN = "there is no such file", "delete it and run the same command again"


@dataclass(frozen=True)
class CachedFile:
    """A file of a cache with its size and checksum from the folder's manifest.

    Attributes:
        path: path on the driver's machine or on a shared file system.
        uri: URI of the copy in an object store; empty if there is none.
        bytes: size.
        blake2b: checksum; empty if unknown, and then the content is not checked.
    """

    path: str
    uri: str = ""
    bytes: int = 0
    blake2b: str = ""

    @classmethod
    def of(
        cls, folder: Path, name: str, files: Mapping[str, Mapping[str, Any]], uri: str
    ) -> CachedFile:
        """Return a file of a folder, with its record in ``files`` and its copy below ``uri``.

        Both may be empty.
        """
        return cls(str(folder / name), uri and f"{uri}/{name}", **files.get(name, {}))

    def here(self) -> str:
        """Return a path on this node where the file can be opened.

        If ``path`` does not exist on this node, a copy is fetched into this user's cache, which all
        processes of the node share. Each process checks the content once.

        Raises:
            CacheError: the file is missing and cannot be fetched, or its checksum differs.
            StorageError: the object store refuses, or does not answer.
        """
        fault = _fault(self.path, self.bytes, self.blake2b)
        if not fault:
            return self.path
        if not self.uri:
            fix = "give --cache URI, an object store or a folder shared by all nodes"
            raise CacheError(self.path, fault, fix if fault == _MISSING else _AGAIN)
        copy = fetched(f"{self.blake2b}{Path(self.path).suffix}")
        if _fault(str(copy), self.bytes, self.blake2b):
            try:
                _fetch(self.uri, copy)
            except FileNotFoundError as error:
                raise CacheError(self.uri, _MISSING, "run the same command again") from error
            if fault := _fault(str(copy), self.bytes, self.blake2b):
                copy.unlink()
                raise CacheError(self.uri, fault, _AGAIN)
        return str(copy)


def node_cache() -> Path:
    """Return the user's folder for files that can be recreated, usually ``~/.cache/sentune``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sentune"


def fetched(name: str) -> Path:
    """Return the path of a fetched file or folder, which is named by its checksum.

    If it does not exist yet, copies that were not used for ``UNUSED_DAYS`` are deleted first.

    Raises:
        CacheError: the folder of fetched files belongs to another user.
    """
    place, now = node_cache() / "fetched" / name, time.time()
    trusted = _made_private(place.parent)
    if trusted and place.exists():
        if now - place.stat().st_mtime > DAY:
            os.utime(place)
        return place
    for other in place.parent.glob("*"):
        with suppress(FileNotFoundError):  # another process may delete it, too
            if not trusted or now - other.stat().st_mtime > UNUSED_DAYS * DAY:
                shutil.rmtree(other) if other.is_dir() else other.unlink()
    return place


def _made_private(folder: Path) -> bool:
    """Give a folder mode 0700; return whether it was protected from other users' writes before.

    Raises:
        CacheError: the folder belongs to another user.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stat = folder.stat()
    if stat.st_uid != os.geteuid():
        why = f"it belongs to user {stat.st_uid}, not to user {os.geteuid()}"
        raise CacheError(str(folder), why, "delete it, or set HOME to a folder of your own")
    if stat.st_mode & 0o077:
        folder.chmod(0o700)
    return not stat.st_mode & 0o022


def upload(folder: Path, uri: str) -> None:
    """Copy a folder to an object store, the manifest last; skip files of equal size there.

    Raises:
        StorageError: the store refuses, or does not answer.
    """
    store, root = files_at(uri)
    there = _sizes(uri)
    files = (file for file in folder.rglob("*") if file.is_file())
    for file in sorted(files, key=lambda file: (file.suffix == ".json", file)):
        name = file.relative_to(folder).as_posix()
        if there.get(name) != file.stat().st_size:
            asked(uri, partial(store.put_file, str(file), f"{root}/{name}"), makes=True)


def stored_manifest(uri: str, name: str) -> dict[str, Any] | None:
    """Return the manifest of a folder in an object store, or None if the folder is incomplete.

    Raises:
        StorageError: the store refuses, or does not answer.
    """
    text = read_document(uri, name)
    if text is None:
        return None
    try:
        manifest = checked_manifest(text.encode())
    except ValueError:
        return None
    there = _sizes(uri)
    whole = all(there.get(file) == was["bytes"] for file, was in manifest["files"].items())
    return manifest if whole else None


def _sizes(uri: str) -> dict[str, int]:
    """Return name -> bytes of the objects below a URI."""
    store, root = files_at(uri)
    there = asked(uri, lambda: store.find(root, detail=True))
    return {path.removeprefix(f"{root}/"): entry["size"] for path, entry in there.items()}


def _fetch(uri: str, copy: Path) -> None:
    """Download an object to a file atomically."""
    store, path = files_at(uri)
    copy.parent.mkdir(parents=True, exist_ok=True)
    beside = copy.with_name(draft_name(copy.name))
    try:
        asked(uri, lambda: store.get_file(path, str(beside)))
        beside.replace(copy)
    finally:
        beside.unlink(missing_ok=True)


def _fault(path: str, size: int, blake2b: str) -> str:
    """Return what is wrong with a file, or an empty string if nothing is."""
    try:
        stat = Path(path).stat()
    except OSError:
        return _MISSING
    return blake2b and _damage(path, size, blake2b, stat.st_mtime_ns, stat.st_ino)


@lru_cache(maxsize=4096)
def _damage(path: str, size: int, blake2b: str, *stamp: int) -> str:
    """Return what is wrong with a file's content; cached by the file's mtime and inode."""
    file = Path(path)
    return damage(file.parent, {file.name: {"bytes": size, "blake2b": blake2b}})
