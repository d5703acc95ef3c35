"""Write files atomically and durably, and turn disk faults into errors that users understand.

``torch.save`` reports a full disk as "unexpected pos 576 vs 534", and safetensors raises an error
class of its own. Both become a ``StorageError`` that names the path.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sentune.errors import SentuneError
from sentune.io.object_store import StorageError as StorageError  # re-exported
from sentune.io.object_store import asked, files_at, is_local
from sentune.io.waits import WAITS

FAULTS = {
    errno.ENOSPC: ("the disk is full", "free some space"),
    errno.EDQUOT: ("the quota is used up", "free some space"),
    errno.EFBIG: ("the file exceeds the size limit", "raise the limit (ulimit -f)"),
    errno.EROFS: ("the disk is read-only", "mount it for writing"),
    errno.EACCES: ("this user may not write there", "change its permissions"),
    errno.EPERM: ("this user may not write there", "change its permissions"),
    errno.ENOTDIR: ("a parent of the path is a file, not a folder", "move that file away"),
    errno.EEXIST: ("a parent of the path is a file, not a folder", "move that file away"),
    errno.EISDIR: ("there is a folder at the path of the file", "move that folder away"),
    errno.EIO: ("the disk reports an I/O error", "have it checked"),
}
_TORCH_WRITER = "inline_container.cc"


@contextmanager
def writing(path: str | Path, needed: int = 0, option: str = "--storage") -> Iterator[None]:
    """Do as ``disk_faults`` and also log a warning if the block, which only writes, hangs."""
    with disk_faults(path, needed, option), WAITS.until(f"the file system of {path}"):
        yield


@contextmanager
def disk_faults(path: str | Path, needed: int = 0, option: str = "--storage") -> Iterator[None]:
    """Convert disk faults raised in the block to ``StorageError``; other errors pass unchanged.

    ``needed`` is the number of bytes to be written, 0 if unknown. The message suggests ``option``.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, SentuneError) or (fault := _fault(error)) is None:
            raise
        reason = _reason(fault, Path(path), needed)
        raise StorageError(path, reason, FAULTS[fault][1], option) from error


def check_space(path: Path, needed: int) -> None:
    """Raise a ``StorageError`` if fewer than ``needed`` bytes are free on the disk of ``path``."""
    if needed and shutil.disk_usage(_existing(path)).free < needed:
        reason = _reason(errno.ENOSPC, path, needed)
        raise StorageError(path, reason, FAULTS[errno.ENOSPC][1])


def check_storage(folder: str, needed: int = 0) -> None:
    """Check that a folder or URI is writable and has ``needed`` bytes free; leave no file behind.

    Raises:
        StorageError: the check failed.
    """
    probe = f".write-test-{uuid.uuid4().hex}"
    with written_for_now(folder, probe):
        pass
    files, root = files_at(folder)
    if is_local(files):
        check_space(Path(root), needed)


@contextmanager
def written_for_now(folder: str, name: str) -> Iterator[str]:
    """Write a file in a folder or URI, yield its path or URI, and remove it and new folders.

    Raises:
        StorageError: as ``write_document``.
    """
    files, root = files_at(folder)
    new = [path for path in (Path(root), *Path(root).parents) if not path.exists()]
    there = write_document(folder, name, "")
    try:
        yield there
    finally:
        asked(there, lambda: files.rm_file(f"{root}/{name}"))
        with suppress(OSError):  # another study may have written there meanwhile
            for path in new if is_local(files) else ():
                path.rmdir()


def write_document(folder: str, name: str, text: str, option: str = "--storage") -> str:
    """Write a text file atomically in a folder or URI; return its path or URI.

    ``option`` is the option that names the folder or file, for messages.

    Raises:
        StorageError: the disk is full, read-only or faulty, or the object store refuses or does
            not answer. The old file is unchanged.
    """
    files, root = files_at(folder)
    there = f"{folder.rstrip('/')}/{name}"
    if is_local(files):
        target = Path(root, name)
        with writing(target, len(text.encode()), option):
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as scratch:
                beside = Path(scratch, name)
                beside.write_text(text, encoding="utf-8")
                sync(beside)
                beside.replace(target)
            sync(target.parent)
    else:  # object stores write atomically
        asked(there, lambda: files.pipe_file(f"{root}/{name}", text.encode()), makes=True)
    return there


def read_document(folder: str, name: str) -> str | None:
    """Return the text of a file in a folder or URI, or None if the file does not exist.

    Raises:
        StorageError: an object store refuses, or does not answer.
    """
    files, root = files_at(folder)
    if is_local(files):
        file = Path(root, name)  # not through fsspec, which expands brackets in a path
        with WAITS.until(f"the file system of {file}"):
            return file.read_text(encoding="utf-8") if file.is_file() else None
    try:
        return bytes(asked(folder, lambda: files.cat_file(f"{root}/{name}"))).decode()
    except FileNotFoundError:
        return None


def set_aside(folder: str, name: str) -> str:
    """Rename a damaged file in a folder or URI to ``damaged-NAME``; return its new path or URI."""
    files, root = files_at(folder)
    aside = f"damaged-{name}"
    if is_local(files):
        Path(root, name).replace(Path(root, aside))
    else:
        asked(folder, lambda: files.copy(f"{root}/{name}", f"{root}/{aside}"))
        asked(folder, lambda: files.rm_file(f"{root}/{name}"))
    return f"{folder.rstrip('/')}/{aside}"


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to the disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush a folder and everything below it to the disk, the folder itself last."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def _fault(error: Exception) -> int | None:
    """Return the errno in ``FAULTS`` behind an error of any library; None if there is none."""
    if isinstance(error, OSError):
        return error.errno if error.errno in FAULTS else None
    text = str(error)
    if number := re.search(r"os error (\d+)", text):
        return int(number[1]) if int(number[1]) in FAULTS else None
    named = next((fault for fault in FAULTS if os.strerror(fault) in text), None)
    return errno.ENOSPC if named is None and _TORCH_WRITER in text else named


def _reason(fault: int, path: Path, needed: int) -> str:
    why = FAULTS[fault][0]
    if fault != errno.ENOSPC:
        return why
    free = shutil.disk_usage(_existing(path)).free
    if needed > free:
        return f"{why}: {needed:,} bytes are needed, {free:,} are free"
    return f"{why}: more than the {free:,} bytes that are free are needed"


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if place.exists())
