"""Transfer of the encoder's folder from driver to workers, by the study's or Ray's object store."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray

from sentune.io.cached_file import CacheError, fetched, upload
from sentune.io.checksums import checksums, document_checksum
from sentune.io.folders import new_folder
from sentune.io.object_store import download
from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShippedFolder:
    """Files of a folder in the study's object store, or in Ray's.

    Attributes:
        path: path of the folder on the driver's machine.
        digest: digest of all names and contents.
        stamp: names, sizes and times of the files on the driver's machine.
        files: reference to the contents in Ray's object store, in a list so that Ray does not
            resolve it in an argument; empty with ``uri``.
        uri: URI of the files in the study's object store, or empty.
    """

    path: str
    digest: str
    stamp: str
    files: list[Any]
    uri: str = ""

    def open(self) -> str:
        """Return a path on this machine with the files.

        On the driver's machine and on a shared file system this is the folder itself, if its stamp
        matches. Otherwise it is a copy in this user's cache, named and checked by its digest, and
        written once for all processes.
        """
        if _stamp(Path(self.path)) == self.stamp:
            return self.path
        folder = fetched(self.digest)
        if folder.is_dir() and _digest(folder) != self.digest:
            logger.warning("%s has changed since it was written; it is written again", folder)
            shutil.rmtree(folder)
        return str(new_folder(folder, self._write))

    def _write(self, draft: Path) -> None:
        if self.uri:
            download(self.uri, draft)
        else:
            for name, content in ray.get(self.files[0]).items():
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                (draft / name).write_bytes(content)
        if _digest(draft) != self.digest:
            fix = "delete it and run the same command again"
            raise CacheError(self.uri or self.path, "its files differ from those sent", fix)


@dataclass(frozen=True)
class WithEncoder:
    """A program with an encoder that is opened on the node where it runs."""

    program: Program
    encoder: ShippedFolder

    def __call__(self, spec: TrialSpec, group: Group) -> Iterator[Progress]:
        return self.program(replace(spec, encoder=self.encoder.open()), group)


def ship(folder: str, uri: str = "") -> ShippedFolder:
    """Upload a folder's files once for all trials.

    Args:
        folder: folder on this machine.
        uri: URI in an object store, below which the files are named by their digest; without it
            they go to Ray's object store, in this node's memory.
    """
    place = Path(folder)
    stamp, digest = _stamp(place), _digest(place)
    if uri:
        upload(place, f"{uri}/{digest}")
        return ShippedFolder(folder, digest, stamp, [], f"{uri}/{digest}")
    files = (file for file in place.rglob("*") if file.is_file())
    contents = {file.relative_to(place).as_posix(): file.read_bytes() for file in files}
    return ShippedFolder(folder, digest, stamp, [ray.put(contents)])


def _stamp(folder: Path) -> str:
    """Return names, sizes and times of a folder's files."""
    files = [(p.relative_to(folder).as_posix(), p.stat()) for p in sorted(folder.rglob("*"))]
    return "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files)


def _digest(folder: Path) -> str:
    return document_checksum(checksums(folder))
