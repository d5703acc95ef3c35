"""Folders that travel to the workers: an encoder read by the driver need not lie on every node."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray

from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec


@dataclass(frozen=True)
class ShippedFolder:
    """A folder's files in the object store; ``open()`` gives a local path with them.

    Where names, sizes and times of the files are those that the driver saw, that is the folder
    itself: on the driver's machine and on a file system that all share. Elsewhere it is a copy in
    the machine's temporary folder, named by its content and written once for all processes.
    """

    path: str
    digest: str
    stamp: str
    files: list[Any]

    def open(self) -> str:
        """Path of the folder on this machine."""
        if _stamp(Path(self.path)) == self.stamp:
            return self.path
        folder = Path(tempfile.gettempdir(), "sentune", self.digest)
        if not folder.is_dir():
            _write(ray.get(self.files[0]), folder)
        return str(folder)


@dataclass(frozen=True)
class WithEncoder:
    """A program whose encoder is found on whichever node it runs."""

    program: Program
    encoder: ShippedFolder

    def __call__(self, spec: TrialSpec, group: Group) -> Iterator[Progress]:
        return self.program(replace(spec, encoder=self.encoder.open()), group)


def ship(folder: str) -> ShippedFolder:
    """Puts a folder's files into the object store, once for all trials."""
    stamp = _stamp(Path(folder))
    contents = _contents(Path(folder))
    # the reference lies in a list, or Ray would resolve it in an argument
    return ShippedFolder(folder, _digest(contents), stamp, [ray.put(contents)])


def _stamp(folder: Path) -> str:
    """Names, sizes and times: telling that nothing changed does not need the content."""
    files = [(p.relative_to(folder).as_posix(), p.stat()) for p in sorted(folder.rglob("*"))]
    return "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files)


def _contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _digest(contents: dict[str, bytes]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for name, content in contents.items():
        hashed.update(f"{name} {len(content)}\n".encode() + content)
    return hashed.hexdigest()


def _write(contents: dict[str, bytes], folder: Path) -> None:
    """Beside its place, then renamed: another process sees the whole folder or none."""
    draft = folder.with_name(f".{folder.name}-{uuid4().hex}")
    for name, content in contents.items():
        file = draft / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    try:
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first with the same content
            raise
        shutil.rmtree(draft)
