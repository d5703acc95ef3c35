"""Folders that appear whole or not at all: a model, an entry of a cache."""

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

from sentune.io.atomic import disk_faults, sync, sync_tree, writing
from sentune.io.checksums import checksums, damage, document_checksum

logger = logging.getLogger(__name__)

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2

CHECKSUMS = "checksums.json"
"""Name of the manifest of a cached folder that has no other one."""


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into; it replaces ``folder`` once all is on the disk.

    Raises:
        StorageError: the disk is full, read-only or at fault; ``folder`` is as it was.
    """
    with disk_faults(folder), ExitStack() as stack:
        with writing(folder):
            found_again(folder)
            beside = stack.enter_context(draft_beside(folder, "--storage"))
            beside.chmod(0o755)
        yield beside  # the caller may compute, which is no wait for a disk
        with writing(folder):
            for file in beside.rglob("*"):  # safetensors writes for its owner alone
                file.chmod(0o755 if file.is_dir() else 0o644)
            replace_folder(beside, folder)


def new_folder(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return a folder's absolute path; ``write`` fills a missing one beside it, then it is renamed.

    Several processes may do it at once, with the same content: the first one's is taken.
    """
    if not folder.exists():
        with draft_beside(folder) as draft:
            write(draft)
            settle(draft, folder)
    return folder.resolve()


def cached_folder(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return the absolute path of a folder of a cache, which ``write`` fills where it is missing or
    damaged; see ``checked_folder``."""
    checked_folder(folder, CHECKSUMS, write)
    return folder.resolve()


def checked_folder(
    folder: Path, manifest: str, write: Callable[[Path], dict[str, Any] | None]
) -> dict[str, Any]:
    """Return the manifest of a folder of a cache all of whose files are as they were written.

    A missing folder is made. A damaged one is deleted and made again, with one warning. Several
    processes may do it at once, with the same content: the first one's is taken.

    Args:
        folder: where it belongs.
        manifest: name of the file in it that has the checksums of the others, and its own.
        write: fills the empty folder that it is given; returns the manifest's content, if any.
    """
    while folder.exists():
        judged = folder.stat().st_ino
        content, fault = read_manifest(folder / manifest)
        fault = fault or damage(folder, content["files"])
        if not fault:
            return content
        if drop_folder(folder, judged):
            logger.warning("%s is deleted and made again: %s", folder, fault)
    with draft_beside(folder) as draft:
        content = write_manifest(draft / manifest, write(draft) or {})
        if settle(draft, folder):
            return content
    return checked_folder(folder, manifest, write)


def write_manifest(file: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write what is known of a folder with the checksums of its files and of itself; return it."""
    whole = {**content, "files": checksums(file.parent)}
    whole["checksum"] = document_checksum(whole)
    file.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    return whole


def read_manifest(file: Path) -> tuple[dict[str, Any], str]:
    """Return what ``write_manifest`` wrote, and what is wrong with it, empty if nothing is."""
    try:
        return checked_manifest(file.read_bytes()), ""
    except (FileNotFoundError, NotADirectoryError):
        return {}, f"{file.name} is missing"
    except ValueError as error:
        return {}, f"{file.name}: {error}"


def checked_manifest(content: bytes) -> dict[str, Any]:
    """Return a manifest from its file's content.

    Raises:
        ValueError: it is no JSON object, or has another checksum than its own, or none.
    """
    try:
        manifest = json.loads(content)
    except ValueError:
        raise ValueError("it is no JSON") from None
    if not isinstance(manifest, dict) or "checksum" not in manifest:
        raise ValueError("it has no checksum")
    rest = {name: value for name, value in manifest.items() if name != "checksum"}
    if manifest["checksum"] != document_checksum(rest):
        raise ValueError("its checksum differs")
    return manifest


@contextmanager
def draft_beside(folder: Path, option: str = "place for it") -> Iterator[Path]:
    """Yield an empty folder beside another one, which goes when the block is left.

    Its name carries host and process. Those of this host's dead processes are deleted first.

    Raises:
        StorageError: the disk is full, read-only or at fault; ``option`` names another place.
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
    """Return a new name for a draft of a folder, with this host and process in it."""
    return f".{name}.draft-{_host()}-{os.getpid()}-{uuid4().hex[:12]}"


def is_abandoned(name: str) -> bool:
    """Return whether a name is that of a draft of a process of this host that is gone."""
    parts = re.fullmatch(r"\..*\.draft-(.+)-(\d+)-[0-9a-f]{12}", name)
    if parts is None or parts[1] != _host():
        return False
    return not psutil.pid_exists(int(parts[2]))


def settle(draft: Path, folder: Path) -> bool:
    """Synchronise a draft and rename it; return False where the place is taken meanwhile."""
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
    """Synchronise a draft and put it in a folder's place, which is whole at every moment.

    Where the file system cannot exchange two names at once there is a moment without the folder;
    the old one then lies where ``found_again`` finds it.
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
            if not folder.exists():  # else a reader has found the old one again
                raise
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def found_again(folder: Path) -> Path:
    """Return a folder; where a kill came between the renames of its replacement, it is put back."""
    old = _old(folder)
    if old.exists():
        if not folder.exists():
            with suppress(OSError):  # another process was first
                old.rename(folder)
        else:
            shutil.rmtree(old, ignore_errors=True)
    return folder


def drop_folder(folder: Path, judged: int) -> bool:
    """Delete a folder unless another process has replaced the one with the inode ``judged``."""
    doomed = folder.with_name(draft_name(folder.name))
    try:
        folder.rename(doomed)
    except FileNotFoundError:
        return False
    same = doomed.stat().st_ino == judged
    if not same:
        with suppress(OSError):  # there is a newer one still
            doomed.rename(folder)
    shutil.rmtree(doomed, ignore_errors=True)
    return same


def write_json(file: Path, content: Any) -> None:
    """Write a small JSON document with indentation."""
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.replaced")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders at once; return False where that is not possible."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:  # not Linux, or a C library before 2018
        return False
    here, paths = _AT_FDCWD, (os.fsencode(one), os.fsencode(other))
    return bool(rename(here, paths[0], here, paths[1], ctypes.c_uint(_RENAME_EXCHANGE)) == 0)


@cache
def _host() -> str:
    """Return this machine's name, with its table of processes where it may have several."""
    try:
        return f"{socket.gethostname()}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()
