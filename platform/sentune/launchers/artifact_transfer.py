"""Send the driver's encoder folder to the workers: by the study's object store, else by Ray's."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import ray

from sentune.io.cached_file import CacheError, upload
from sentune.io.folders import new_folder
from sentune.io.object_store import download
from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShippedFolder:
    """A folder's files in an object store of the study, or in Ray's.

    Attributes:
        path: of the folder on the driver's machine.
        digest: of all names and contents.
        stamp: names, sizes and times of the files, as the driver saw them.
        files: the reference to the contents, in a list: Ray would resolve it in an argument.
        uri: of the files in an object store; empty where ``files`` has them.
    """

    path: str
    digest: str
    stamp: str
    files: list[Any]
    uri: str = ""

    def open(self) -> str:
        """Return a path on this machine with the files.

        The folder itself where it looks as the driver saw it: on the driver's machine and on a
        shared file system. Elsewhere a copy in this user's private temporary folder, named by its
        digest, written once for all processes and compared with the digest before it is used.
        """
        if _stamp(Path(self.path)) == self.stamp:
            return self.path
        folder = _private_folder() / self.digest
        if folder.is_dir() and _digest(_contents(folder)) != self.digest:
            logger.warning("%s is not as it was written; it is written anew", folder)
            shutil.rmtree(folder)

        def write(draft: Path) -> None:
            if not self.uri:
                for name, content in ray.get(self.files[0]).items():
                    (draft / name).parent.mkdir(parents=True, exist_ok=True)
                    (draft / name).write_bytes(content)
                return
            download(self.uri, draft)
            if _digest(_contents(draft)) != self.digest:
                fix = "delete it and run the same command again"
                raise CacheError(self.uri, "its files are not those that were uploaded", fix)

        return str(new_folder(folder, write))


@dataclass(frozen=True)
class WithEncoder:
    """A program whose encoder is opened on the node where it runs."""

    program: Program
    encoder: ShippedFolder

    def __call__(self, spec: TrialSpec, group: Group) -> Iterator[Progress]:
        return self.program(replace(spec, encoder=self.encoder.open()), group)


def ship(folder: str, uri: str = "") -> ShippedFolder:
    """Put a folder's files where workers find them, once for all trials.

    Args:
        folder: on this machine.
        uri: of a place in an object store, below which they are named by their digest; empty:
            Ray's own object store, which takes memory of this node.
    """
    stamp = _stamp(Path(folder))
    if uri:
        digest = _digest(_contents(Path(folder)))
        upload(Path(folder), f"{uri}/{digest}")
        return ShippedFolder(folder, digest, stamp, [], f"{uri}/{digest}")
    contents = dict(_contents(Path(folder)))
    return ShippedFolder(folder, _digest(contents.items()), stamp, [ray.put(contents)])


@cache
def _private_folder() -> Path:
    """Return a temporary folder that no other user of this machine can read or write.

    It is ``sentune-UID``, shared by this user's processes. Where that name belongs to another user,
    is a link or is open to others, it is a new folder of this process.
    """
    folder = Path(tempfile.gettempdir(), f"sentune-{os.getuid()}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
        if not private or found.st_uid != os.getuid():
            made = Path(tempfile.mkdtemp(prefix="sentune-"))
            logger.warning("%s is not this user's alone; %s is used instead", folder, made)
            return made
    return folder


def _stamp(folder: Path) -> str:
    """Return names, sizes and times of the files: enough to see that nothing has changed."""
    files = [(p.relative_to(folder).as_posix(), p.stat()) for p in sorted(folder.rglob("*"))]
    return "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files)


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


def _digest(contents: Iterable[tuple[str, bytes]]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for name, content in contents:
        hashed.update(f"{name} {len(content)}\n".encode() + content)
    return hashed.hexdigest()
