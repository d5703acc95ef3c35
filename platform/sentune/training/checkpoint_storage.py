"""Storage of a trial's checkpoints in a local folder or an object store.

Both store named folders atomically: a folder is either complete or absent. They have the same
methods, which ``LocalStorage`` documents.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import fsspec

from sentune.io.atomic import check_space, sync, sync_tree, writing
from sentune.io.object_store import asked, download, files_at, is_local, is_s3, names_in

PROGRESS_FILE = "progress.json"
PARTIAL, DAMAGED, FOREIGN = ".partial-", "damaged-", "foreign-"
"""Prefixes of the names of folders that are incomplete, damaged, or of another run."""

BATCH = 1000
"""Maximum objects that S3 deletes in one request."""


def storage_of(directory: str) -> LocalStorage | ObjectStorage:
    """Return the storage at a path or fsspec URI, without creating anything."""
    files, root = files_at(directory)
    if is_local(files):
        return LocalStorage(Path(root))
    return ObjectStorage(files, root, directory)


class LocalStorage:
    """Folders in a local directory; a rename makes each one appear atomically."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def entries(self, *, seconds: float = 0.0) -> list[str]:
        """Return the names of all entries; those of an object store may be ``seconds`` old."""
        return [path.name for path in self.root.iterdir()] if self.root.is_dir() else []

    def whole(self) -> list[str]:
        """Return the names of all complete folders, as ``has`` defines them."""
        return [name for name in self.entries() if self.has(name)]

    def has(self, name: str) -> bool:
        """Return whether a folder is complete.

        A local folder is, because it is renamed when complete, even if ``progress.json`` was lost.
        """
        return (self.root / name).is_dir()

    def read(self, name: str) -> bytes:
        """Return the content of a folder's ``progress.json``, which is written last."""
        return (self.root / name / PROGRESS_FILE).read_bytes()

    def fetch(self, name: str) -> Path:
        """Return the path of a folder on this machine; an object store downloads it."""
        return self.root / name

    @contextmanager
    def writing(self, name: str, needed: int, *, anew: bool = False) -> Iterator[Path]:
        """Yield an empty local folder, and store it under ``name`` when the context is left.

        A local folder is written next to its target, synchronised to the disk, then renamed.

        Args:
            name: name of the folder; an existing one is replaced.
            needed: estimate of the bytes that must be free.
            anew: whether no folder of this name exists, which saves requests to an object store.
        """
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

    def drop(self, name: str, files: Collection[str] | None = None) -> None:
        """Delete a folder atomically for other processes that read it.

        A local folder is renamed first, because a folder without some of its files looks damaged.

        Args:
            name: name of the folder.
            files: names of its files other than ``progress.json``, if known, which saves requests
                to an object store.
        """
        going = name if name.startswith(PARTIAL) else f"{PARTIAL}{name}"
        if going != name:
            shutil.rmtree(self.root / going, ignore_errors=True)
            (self.root / name).rename(self.root / going)
        shutil.rmtree(self.root / going)

    def sweep(self, goes: Callable[[str], bool]) -> None:
        """Delete all folders for whose names ``goes`` returns True."""
        for name in filter(goes, self.entries()):
            self.drop(name)

    def set_aside(self, name: str, prefix: str) -> bool:
        """Add a prefix to a folder's name; return False if the folder no longer exists."""
        try:
            (self.root / name).rename(self.root / f"{prefix}{name}")
        except FileNotFoundError:
            return False
        return True

    def leave(self) -> None:
        """Remove the directory of the folders if it is empty."""
        if self.root.is_dir() and not self.entries():
            self.root.rmdir()


class ObjectStorage:
    """Folders in an object store; one is complete if it has ``progress.json``, uploaded last."""

    def __init__(self, files: fsspec.AbstractFileSystem, root: str, uri: str) -> None:
        self.files, self.root, self.uri = files, root, uri.rstrip("/")
        self._downloads: dict[str, tempfile.TemporaryDirectory[str]] = {}
        self._here: set[str] = set()
        self._looked = -math.inf

    def entries(self, *, seconds: float = 0.0) -> list[str]:
        now = time.monotonic()
        if not now - self._looked < seconds:
            self._here = set(asked(self.uri, lambda: names_in(self.files, self.root)))
            self._looked = now
        return sorted(self._here)

    def whole(self) -> list[str]:
        # most trials start without checkpoints: ``entries`` takes one request, ``find`` three
        if not self.entries():
            return []
        found = (within.partition("/") for within in self._within(""))
        return [name for name, _, rest in found if rest == PROGRESS_FILE]

    def has(self, name: str) -> bool:
        file = f"{self.root}/{name}/{PROGRESS_FILE}"
        try:
            asked(self.uri, lambda: self.files.info(file))
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> bytes:
        file = f"{self.root}/{name}/{PROGRESS_FILE}"
        return bytes(asked(self.uri, lambda: self.files.cat_file(file)))

    def fetch(self, name: str) -> Path:
        """Download a folder to a temporary directory that is removed with this object."""
        if name not in self._downloads:
            self._downloads[name] = tempfile.TemporaryDirectory(prefix="sentune-checkpoint-")
            with suppress(FileNotFoundError):  # deleted meanwhile; checksums show what is missing
                download(f"{self.uri}/{name}", Path(self._downloads[name].name))
        return Path(self._downloads[name].name)

    @contextmanager
    def writing(self, name: str, needed: int, *, anew: bool = False) -> Iterator[Path]:
        """Yield a temporary folder, then upload it, ``progress.json`` last."""
        with (
            writing(tempfile.gettempdir(), needed, "TMPDIR"),
            tempfile.TemporaryDirectory(prefix=PARTIAL) as scratch,
        ):
            check_space(Path(scratch), needed)
            yield Path(scratch)
            looked = self._looked
            if not anew:
                self.drop(name)
            self._looked = -math.inf  # if the upload fails, the next look finds what it left
            found = (file for file in Path(scratch).rglob("*") if file.is_file())
            for file in sorted(found, key=lambda file: (file.name == PROGRESS_FILE, file)):
                target = f"{self.root}/{name}/{file.relative_to(scratch).as_posix()}"
                asked(self.uri, partial(self.files.put_file, str(file), target), makes=True)
            self._here.add(name)
            self._looked = looked

    def drop(self, name: str, files: Collection[str] | None = None) -> None:
        rest = None if files is None else [f"{name}/{file}" for file in files]
        self._drop([name], [f"{name}/{PROGRESS_FILE}"], rest)

    def sweep(self, goes: Callable[[str], bool]) -> None:
        going = [within for within in self._within("") if goes(within.partition("/")[0])]
        names = sorted({within.partition("/")[0] for within in going})
        first = [within for within in going if within.partition("/")[2] == PROGRESS_FILE]
        self._drop(names, first, [within for within in going if within not in first])

    def set_aside(self, name: str, prefix: str) -> bool:
        if not self.has(name):
            return False
        for within in self._within(f"/{name}"):
            was = f"{self.root}/{name}/{within}"
            now = f"{self.root}/{prefix}{name}/{within}"
            asked(self.uri, partial(self.files.cp_file, was, now))
        self._here.add(f"{prefix}{name}")
        self.drop(name)
        return True

    def leave(self) -> None:
        """Do nothing, because an object store has no empty folders."""

    def _within(self, folder: str) -> list[str]:
        """Return the paths of all objects below a folder, relative to it."""
        above = f"{self.root}{folder}/"
        try:
            paths = asked(self.uri, lambda: self.files.find(above.rstrip("/")))
        except FileNotFoundError:  # the bucket is missing; writing to it will raise
            return []
        return [path.removeprefix(above) for path in paths if path.startswith(above)]

    def _drop(self, names: Collection[str], first: list[str], rest: Collection[str] | None) -> None:
        """Delete folders: ``first`` their ``progress.json``, then their other files.

        ``rest`` lists the other files if they are known.
        """
        if rest is not None and is_s3(self.files) and len(first) + len(rest) <= BATCH:
            self._remove([*first, *rest])
        else:
            self._remove(first)
            self._remove(names, recursive=True)
        for name in names:
            self._here.discard(name)
            self._downloads.pop(name, None)

    def _remove(self, within: Collection[str], *, recursive: bool = False) -> None:
        paths = [f"{self.root}/{path}" for path in within]
        with suppress(FileNotFoundError):  # a request without an answer is repeated
            if paths:
                asked(self.uri, lambda: self.files.rm(paths, recursive=recursive))
