"""Where a trial's checkpoints lie: a folder of this machine's disks, or an object store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sentune.disk import check_space, sync, sync_tree, writing

PROGRESS_FILE = "progress.json"
PARTIAL, DAMAGED = ".partial-", "damaged-"


class Place(Protocol):
    """Named folders that appear whole or not at all."""

    def entries(self) -> list[str]:
        """Names of all that lies here."""

    def has(self, name: str) -> bool:
        """Whether a folder is complete: its ``progress.json``, written last, is there."""

    def read(self, name: str) -> bytes:
        """The content of a folder's ``progress.json``."""

    def fetch(self, name: str) -> Path:
        """A folder as one of this machine's."""

    def writing(self, name: str, needed: int) -> Any:
        """Context of an empty local folder that appears here, whole, when it is left."""

    def drop(self, name: str) -> None:
        """Takes a folder away; whoever reads it meanwhile sees it whole or not at all."""

    def set_aside(self, name: str) -> bool:
        """Renames a folder to ``damaged-...``; False if it is no longer there."""

    def leave(self) -> None:
        """Takes the place itself away where nothing lies in it."""


def place_of(directory: str) -> Place:
    """The place of a path or fsspec URI; nothing is made yet."""
    files, root = fsspec.url_to_fs(directory)
    if isinstance(files, LocalFileSystem):
        return LocalPlace(Path(root))
    return ObjectPlace(files, root)


class LocalPlace:
    """See ``Place``. A rename makes a folder appear, so that a kill leaves no half of one."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def entries(self) -> list[str]:
        """Names of all that lies here."""
        return [path.name for path in self.root.iterdir()] if self.root.is_dir() else []

    def has(self, name: str) -> bool:
        """Also without its ``progress.json``: no kill takes that away, a damaged disk does."""
        return (self.root / name).is_dir()

    def read(self, name: str) -> bytes:
        """The content of a folder's ``progress.json``."""
        return (self.root / name / PROGRESS_FILE).read_bytes()

    def fetch(self, name: str) -> Path:
        """The folder itself."""
        return self.root / name

    @contextmanager
    def writing(self, name: str, needed: int) -> Iterator[Path]:
        """Written beside, synchronised to the disk, then renamed."""
        with writing(self.root / name, needed):
            self.root.mkdir(parents=True, exist_ok=True)
            check_space(self.root / name, needed)
            with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=self.root) as scratch:
                folder = Path(scratch, name)
                folder.mkdir()
                yield folder
                sync_tree(folder)
                if (self.root / name).exists():
                    (self.root / name).rename(Path(scratch, "old"))
                folder.rename(self.root / name)
                sync(self.root)

    def drop(self, name: str) -> None:
        """Renamed first: a folder that loses its files one by one would look damaged."""
        going = name if name.startswith(PARTIAL) else f"{PARTIAL}{name}"
        if going != name:
            shutil.rmtree(self.root / going, ignore_errors=True)
            (self.root / name).rename(self.root / going)
        shutil.rmtree(self.root / going)

    def set_aside(self, name: str) -> bool:
        """Renames a folder to ``damaged-...``; False if it is no longer there."""
        try:
            (self.root / name).rename(self.root / f"{DAMAGED}{name}")
        except FileNotFoundError:
            return False
        return True

    def leave(self) -> None:
        """Takes the folder itself away where nothing lies in it."""
        if self.root.is_dir() and not self.entries():
            self.root.rmdir()


class ObjectPlace:
    """See ``Place``. An upload ends with ``progress.json``: without it there is no folder yet."""

    def __init__(self, files: fsspec.AbstractFileSystem, root: str) -> None:
        self.files, self.root = files, root
        self._downloads: dict[str, tempfile.TemporaryDirectory[str]] = {}

    def entries(self) -> list[str]:
        """Names of all that lies here."""
        self.files.invalidate_cache(self.root)
        if not self.files.isdir(self.root):
            return []
        paths = self.files.ls(self.root, detail=False)
        return [path.rstrip("/").rsplit("/", 1)[-1] for path in paths]

    def has(self, name: str) -> bool:
        """Whether the upload came to its end."""
        return bool(self.files.exists(f"{self.root}/{name}/{PROGRESS_FILE}"))

    def read(self, name: str) -> bytes:
        """The content of a folder's ``progress.json``."""
        return bytes(self.files.cat_file(f"{self.root}/{name}/{PROGRESS_FILE}"))

    def fetch(self, name: str) -> Path:
        """A copy, which goes with this object."""
        if name not in self._downloads:
            self._downloads[name] = tempfile.TemporaryDirectory(prefix="sentune-checkpoint-")
            for path in self.files.find(f"{self.root}/{name}"):
                within = path.split(f"/{name}/", 1)[1]
                if ".." in PurePosixPath(within).parts or within.startswith("/"):
                    continue  # no file of a checkpoint; written there it would leave the folder
                target = Path(self._downloads[name].name, within)
                target.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # dropped meanwhile: what is missing is noticed
                    self.files.get_file(path, str(target))
        return Path(self._downloads[name].name)

    @contextmanager
    def writing(self, name: str, needed: int) -> Iterator[Path]:
        """Written on this machine, then uploaded, ``progress.json`` last."""
        with (
            writing(tempfile.gettempdir(), needed, "TMPDIR"),
            tempfile.TemporaryDirectory(prefix=PARTIAL) as scratch,
        ):
            check_space(Path(scratch), needed)
            yield Path(scratch)
            if name in self.entries():
                self.drop(name)
            found = sorted(file for file in Path(scratch).rglob("*") if file.is_file())
            for file in sorted(found, key=lambda f: f.name == PROGRESS_FILE):
                target = f"{self.root}/{name}/{file.relative_to(scratch)}"
                self.files.put_file(str(file), target)

    def drop(self, name: str) -> None:
        """``progress.json`` first: what is left of it is then no folder any more."""
        if self.has(name):
            self.files.rm_file(f"{self.root}/{name}/{PROGRESS_FILE}")
        if name in self.entries():
            self.files.rm(f"{self.root}/{name}", recursive=True)
        self._downloads.pop(name, None)

    def set_aside(self, name: str) -> bool:
        """Copied, then dropped; False if it is no longer there."""
        if not self.has(name):
            return False
        aside = f"{self.root}/{DAMAGED}{name}"
        for path in self.files.find(f"{self.root}/{name}"):
            self.files.cp_file(path, f"{aside}/{path.split(f'/{name}/', 1)[1]}")
        self.drop(name)
        return True

    def leave(self) -> None:
        """An object store has no empty folders."""
