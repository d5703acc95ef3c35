"""Create and replace folders atomically, with checksums: models and entries of caches."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from sentune.io.atomic import disk_faults, sync, sync_tree
from sentune.io.checksums import checksums, damage, document_checksum
from sentune.io.waits import WAITS

logger = logging.getLogger(__name__)

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2

CHECKSUMS = "checksums.json"
"""Name of the manifest of a folder from ``cached_folder``."""


def folder_bytes(folder: str | Path) -> int:
    """Return the bytes of the files in a folder, without those that are deleted meanwhile."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(place, name).lstat().st_size
    return size


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to write into, which replaces ``folder`` at the end of the block.

    Raises:
        StorageError: the disk is full, read-only or faulty; ``folder`` is unchanged.
    """
    disk = f"the file system of {folder}"
    with disk_faults(folder), ExitStack() as stack:
        with WAITS.until(disk):
            found_again(folder)
            beside = stack.enter_context(draft_beside(folder, "--storage"))
            beside.chmod(0o755)
        yield beside  # not under ``WAITS``: the caller may compute, which is no wait for a disk
        with WAITS.until(disk):
            for file in beside.rglob("*"):  # safetensors' files are readable by their owner only
                file.chmod(0o755 if file.is_dir() else 0o644)
            replace_folder(beside, folder)


def new_folder(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return the absolute path of a folder, created with ``write`` if it is missing.

    ``write`` fills a draft beside the folder, which is then renamed. If several processes do this
    at once, the first one's folder is kept; all must write the same content.
    """
    if not folder.exists():
        with draft_beside(folder) as draft:
            write(draft)
            settle(draft, folder)
    return folder.resolve()


def cached_folder(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return the absolute path of a ``checked_folder`` whose manifest is ``CHECKSUMS``."""
    checked_folder(folder, CHECKSUMS, write)
    return folder.resolve()


def checked_folder(
    folder: Path, manifest: str, write: Callable[[Path], dict[str, Any] | None]
) -> dict[str, Any]:
    """Return the manifest of a cached folder after comparing all its files with their checksums.

    A missing folder is created. A damaged one is deleted and created again, with one warning. If
    several processes do this at once, the first one's folder is kept; all must write the same
    content.

    Args:
        manifest: name of the manifest in it, which has the checksums of all files and its own.
        write: fills the empty folder that it is given; may return entries for the manifest.
    """
    while folder.exists():
        judged = folder.stat().st_ino
        content, fault = read_manifest(folder / manifest)
        fault = fault or damage(folder, content["files"])
        if not fault:
            return content
        if drop_folder(folder, judged):
            logger.warning("%s is created again: %s", folder, fault)
    with draft_beside(folder) as draft:
        content = write_manifest(draft / manifest, write(draft) or {})
        if settle(draft, folder):
            return content
    return checked_folder(folder, manifest, write)


def write_manifest(file: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``content`` with the checksums of the folder's files and its own; return the whole."""
    whole = {**content, "files": checksums(file.parent)}
    whole["checksum"] = document_checksum(whole)
    file.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    return whole


def read_manifest(file: Path) -> tuple[dict[str, Any], str]:
    """Return a manifest, and what is wrong with it or an empty string if nothing is."""
    try:
        return checked_manifest(file.read_bytes()), ""
    except (FileNotFoundError, NotADirectoryError):
        return {}, f"{file.name} is missing"
    except ValueError as error:
        return {}, f"{file.name}: {error}"


def checked_manifest(content: bytes) -> dict[str, Any]:
    """Parse a manifest and check its own checksum.

    Raises:
        ValueError: the content is not a JSON object, or its checksum is missing or differs.
    """
    try:
        manifest = json.loads(content)
    except ValueError:
        raise ValueError("it is not valid JSON") from None
    if not isinstance(manifest, dict) or "checksum" not in manifest:
        raise ValueError("it has no checksum")
    rest = {name: value for name, value in manifest.items() if name != "checksum"}
    if manifest["checksum"] != document_checksum(rest):
        raise ValueError("its checksum differs")
    return manifest


@contextmanager
def draft_beside(folder: Path, option: str = "place for it") -> Iterator[Path]:
    """Yield an empty temporary folder beside ``folder``; it is deleted at the end of the block.

    Its name contains host and process id. Drafts of dead processes of this host are deleted first.

    Raises:
        StorageError: the disk is full, read-only or faulty; the message suggests ``option``.
    """
    draft = folder.with_name(draft_name(folder.name))
    with disk_faults(folder, option=option):
        folder.parent.mkdir(parents=True, exist_ok=True)
        for other in folder.parent.glob(".*.draft-*"):
            if is_abandoned(other.name):
                shutil.rmtree(other, ignore_errors=True)
        draft.mkdir()
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def draft_name(name: str) -> str:
    """Return a unique name for a draft of a folder, with this host and process id in it."""
    return f".{name}.draft-{_host()}-{os.getpid()}-{uuid4().hex[:12]}"


def is_abandoned(name: str) -> bool:
    """Return whether a name is that of a draft of a dead process of this host."""
    parts = re.fullmatch(r"\..*\.draft-(.+)-(\d+)-[0-9a-f]{12}", name)
    if parts is None or parts[1] != _host():
        return False
    return not psutil.pid_exists(int(parts[2]))


def settle(draft: Path, folder: Path) -> bool:
    """Flush a draft to the disk and rename it; return False if ``folder`` exists by then."""
    sync_tree(draft)
    try:
        draft.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        return False
    sync(folder.parent)
    return True


def replace_folder(draft: Path, folder: Path) -> None:
    """Flush a draft to the disk and replace a folder with it atomically.

    If the file system cannot exchange two names atomically, the folder is missing for a moment;
    ``found_again`` restores the old one after a crash.
    """
    sync_tree(draft)
    old = _old(folder)
    while not (folder.exists() and _exchange(draft, folder)):
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):
            folder.rename(old)
        try:
            draft.rename(folder)
            break
        except OSError:
            if not folder.exists():  # else a reader has restored the old folder
                raise
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def found_again(folder: Path) -> Path:
    """Return ``folder`` after restoring it if a crash interrupted ``replace_folder``."""
    old = _old(folder)
    if old.exists():
        if not folder.exists():
            with suppress(OSError):  # another process has restored it
                old.rename(folder)
        else:
            shutil.rmtree(old, ignore_errors=True)
    return folder


def drop_folder(folder: Path, judged: int) -> bool:
    """Delete a folder if its inode is still ``judged``; return whether it was deleted.

    Another process may have replaced a damaged folder since it was checked.
    """
    doomed = folder.with_name(draft_name(folder.name))
    try:
        folder.rename(doomed)
    except FileNotFoundError:
        return False
    same = doomed.stat().st_ino == judged
    if not same:
        with suppress(OSError):  # a third process has created it again
            doomed.rename(folder)
    shutil.rmtree(doomed, ignore_errors=True)
    return same


def write_json(file: Path, content: Any) -> None:
    """Write a small JSON document with indentation."""
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.replaced")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders' names atomically; return False if the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:  # not Linux, or a C library before 2018
        return False
    here, paths = _AT_FDCWD, (os.fsencode(one), os.fsencode(other))
    return bool(rename(here, paths[0], here, paths[1], ctypes.c_uint(_RENAME_EXCHANGE)) == 0)


@cache
def _host() -> str:
    """Return the host name with the PID namespace, because containers may share a host name."""
    try:
        return f"{socket.gethostname()}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()
