"""Where a trial's checkpoints lie: a folder of this machine's disks, or an object store.

Both hold named folders that appear whole or not at all. Their methods are the same, and are
described in ``LocalStorage``.
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
"""How names of folders begin that are written in part, damaged, or of another run."""

BATCH = 1000
"""Objects that S3 drops in one request."""


def storage_of(directory: str) -> LocalStorage | ObjectStorage:
    """Return the storage at a path or fsspec URI; nothing is made yet."""
    files, root = files_at(directory)
    if is_local(files):
        return LocalStorage(Path(root))
    return ObjectStorage(files, root, directory)


class LocalStorage:
    """A folder of a disk. A rename makes a checkpoint appear: a kill leaves no half of one."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def entries(self, *, seconds: float = 0.0) -> list[str]:
        """Return the names of all that lies here, ``seconds`` old where looking takes a request."""
        return [path.name for path in self.root.iterdir()] if self.root.is_dir() else []

    def whole(self) -> list[str]:
        """Return the names of the folders that ``has`` is true of."""
        return [name for name in self.entries() if self.has(name)]

    def has(self, name: str) -> bool:
        """Return whether a folder is complete, here also where a damaged disk lost its document."""
        return (self.root / name).is_dir()

    def read(self, name: str) -> bytes:
        """Return the content of a folder's ``progress.json``, which is written last."""
        return (self.root / name / PROGRESS_FILE).read_bytes()

    def fetch(self, name: str) -> Path:
        """Return a folder as one of this machine's, here the folder itself."""
        return self.root / name

    @contextmanager
    def writing(self, name: str, needed: int, *, anew: bool = False) -> Iterator[Path]:
        """Yield an empty local folder that appears here, whole, when the context is left.

        Here it is written beside, synchronised to the disk, then renamed.

        Args:
            name: of the folder; an older one of that name is dropped.
            needed: bytes that must be free, as far as that is known.
            anew: nothing of that name is here, so that a store is not asked.
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
        """Drop a folder; another process that reads it sees it whole or not at all.

        Here it is renamed first: a folder that loses its files one by one would look damaged.

        Args:
            name: of the folder.
            files: all that lies in it beside its ``progress.json``, so that a store is not asked
                for them; None: not known.
        """
        going = name if name.startswith(PARTIAL) else f"{PARTIAL}{name}"
        if going != name:
            shutil.rmtree(self.root / going, ignore_errors=True)
            (self.root / name).rename(self.root / going)
        shutil.rmtree(self.root / going)

    def sweep(self, goes: Callable[[str], bool]) -> None:
        """Drop all folders whose names ``goes`` is true of."""
        for name in filter(goes, self.entries()):
            self.drop(name)

    def set_aside(self, name: str, prefix: str) -> bool:
        """Put a prefix before a folder's name; return False if it is no longer there."""
        try:
            (self.root / name).rename(self.root / f"{prefix}{name}")
        except FileNotFoundError:
            return False
        return True

    def leave(self) -> None:
        """Remove the folder of all checkpoints where nothing lies in it."""
        if self.root.is_dir() and not self.entries():
            self.root.rmdir()


class ObjectStorage:
    """An object store. An upload ends with ``progress.json``: without it there is no folder yet."""

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
        # most trials begin with none: one request, where ``find`` of what is not there takes three
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
        """Return a local copy of a folder, which is removed with this object."""
        if name not in self._downloads:
            self._downloads[name] = tempfile.TemporaryDirectory(prefix="sentune-checkpoint-")
            with suppress(FileNotFoundError):  # dropped meanwhile: what is missing is noticed
                download(f"{self.uri}/{name}", Path(self._downloads[name].name))
        return Path(self._downloads[name].name)

    @contextmanager
    def writing(self, name: str, needed: int, *, anew: bool = False) -> Iterator[Path]:
        """Write a folder on this machine, then upload it, ``progress.json`` last."""
        with (
            writing(tempfile.gettempdir(), needed, "TMPDIR"),
            tempfile.TemporaryDirectory(prefix=PARTIAL) as scratch,
        ):
            check_space(Path(scratch), needed)
            yield Path(scratch)
            looked = self._looked
            if not anew:
                self.drop(name)
            self._looked = -math.inf  # what an upload leaves that fails is looked for
            found = (file for file in Path(scratch).rglob("*") if file.is_file())
            for file in sorted(found, key=lambda file: (file.name == PROGRESS_FILE, file)):
                self._put(file, f"{self.root}/{name}/{file.relative_to(scratch).as_posix()}")
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
        """Do nothing: an object store has no empty folders."""

    def _put(self, file: Path, target: str) -> None:
        asked(self.uri, lambda: self.files.put_file(str(file), target), makes=True)

    def _within(self, folder: str) -> list[str]:
        """Objects below a folder of this place, as paths within it."""
        above = f"{self.root}{folder}/"
        try:
            paths = asked(self.uri, lambda: self.files.find(above.rstrip("/")))
        except FileNotFoundError:  # not even the bucket, which writing will say
            return []
        return [path.removeprefix(above) for path in paths if path.startswith(above)]

    def _drop(self, names: Collection[str], first: list[str], rest: Collection[str] | None) -> None:
        """Drop folders: first their ``progress.json``, so that what is left is no checkpoint, then
        ``rest``, their other files where these are known."""
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
        with suppress(FileNotFoundError):  # gone already: what is silent is asked twice
            if paths:
                asked(self.uri, lambda: self.files.rm(paths, recursive=recursive))
