"""A file of the driver's cache on every node: found there, or fetched once from an object store."""

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
    """A file of the cache, at a path or URI, that a node cannot open: no trial's fault."""

    def __init__(self, path: str, why: str, fix: str, node: str = "") -> None:
        node = node or socket.gethostname()
        SentuneError.__init__(self, f"node {node}: {path}: {why}; {fix}")
        self.path, self.why, self.fix, self.node = path, why, fix, node


DAY, UNUSED_DAYS = 86_400, 30
"""Seconds of a day; days after which a fetched copy that no process asks for is deleted."""

_MISSING, _AGAIN = "there is no such file", "delete it and run the same command again"


@dataclass(frozen=True)
class CachedFile:
    """A file of a cache, and what its folder's manifest says of it.

    Attributes:
        path: on the driver's machine, or on a file system that all nodes share.
        uri: of its copy in an object store; empty where there is none.
        bytes: its size.
        blake2b: its checksum; empty where no manifest has one, and the path alone counts.
    """

    path: str
    uri: str = ""
    bytes: int = 0
    blake2b: str = ""

    @classmethod
    def of(
        cls, folder: Path, name: str, files: Mapping[str, Mapping[str, Any]], uri: str
    ) -> CachedFile:
        """Return a file of a folder, with its record in ``files`` and its copy below ``uri``, where
        there are any."""
        return cls(str(folder / name), uri and f"{uri}/{name}", **files.get(name, {}))

    def here(self) -> str:
        """Return a path on this node with the file as its manifest records it.

        That is its own path where the file lies there, else a copy in this user's cache, which all
        processes of the node share. A process checks the content once.

        Raises:
            CacheError: it is not here and cannot be fetched, or differs from its record.
            StorageError: the object store refuses, or does not answer.
        """
        fault = _fault(self.path, self.bytes, self.blake2b)
        if not fault:
            return self.path
        if not self.uri:
            fix = "give --cache URI, an object store or a folder that all nodes see"
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
    """Return the folder at home for what can be made or fetched again."""
    return Path.home() / ".cache" / "sentune"


def fetched(name: str) -> Path:
    """Return the place of what a node has fetched, a file or folder named by its checksum.

    Where it is not there yet, what was not asked for in ``UNUSED_DAYS`` is deleted.

    Raises:
        CacheError: the folder of these files is another user's.
    """
    place, now = node_cache() / "fetched" / name, time.time()
    trusted = _made_private(place.parent)
    if trusted and place.exists():
        if now - place.stat().st_mtime > DAY:
            os.utime(place)
        return place
    for other in place.parent.glob("*"):
        with suppress(FileNotFoundError):  # another process deletes it, too
            if not trusted or now - other.stat().st_mtime > UNUSED_DAYS * DAY:
                shutil.rmtree(other) if other.is_dir() else other.unlink()
    return place


def _made_private(folder: Path) -> bool:
    """Give a folder mode 0700; return whether no other user could write into it before.

    Raises:
        CacheError: it is another user's.
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
    """Copy a folder to an object store, its manifest last; what has its size there stays.

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
    """Return the manifest of a folder in an object store; None where a file of it is missing.

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
    """Copy an object to a file, whole or not at all."""
    store, path = files_at(uri)
    copy.parent.mkdir(parents=True, exist_ok=True)
    beside = copy.with_name(draft_name(copy.name))
    try:
        asked(uri, lambda: store.get_file(path, str(beside)))
        beside.replace(copy)
    finally:
        beside.unlink(missing_ok=True)


def _fault(path: str, size: int, blake2b: str) -> str:
    """Return what is wrong with a file; empty if nothing is."""
    try:
        stat = Path(path).stat()
    except OSError:
        return _MISSING
    return blake2b and _damage(path, size, blake2b, stat.st_mtime_ns, stat.st_ino)


@lru_cache(maxsize=4096)
def _damage(path: str, size: int, blake2b: str, *stamp: int) -> str:
    """Return what is wrong with a file's content, compared once for a stamp of the file."""
    file = Path(path)
    return damage(file.parent, {file.name: {"bytes": size, "blake2b": blake2b}})
