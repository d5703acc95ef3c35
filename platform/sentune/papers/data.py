"""Where the data sets of a paper lie in a user's folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

from sentune.errors import InvalidValue
from sentune.report.published import data_sets


@dataclass(frozen=True)
class DataFolder:
    """A folder in which data sets lie under the names of their publishers, at any depth.

    Attributes:
        folder: None: only what ``instead`` names is there.
        instead: data set -> ``FORMAT:PATH`` that is taken in its place.
    """

    folder: Path | None
    instead: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.is_dir():
            raise InvalidValue("--data", self.folder, "give a folder of data sets")
        for name in self.instead:
            if name not in data_sets():
                fix = f"name one of {', '.join(sorted(data_sets()))}"
                raise InvalidValue("--instead", name, fix)

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Path below the folder, in lower case -> path; of several copies the shallowest counts."""
        folder = self.folder
        found = sorted(folder.rglob("*")) if folder else []
        found.sort(key=lambda path: len(path.parts))
        return {path.relative_to(folder).as_posix().lower(): path for path in found if folder}

    def find(self, name: str) -> str | None:
        """Return a data set as ``FORMAT:PATH``; None where it is not there."""
        if name in self.instead:
            return self.instead[name]
        known = data_sets()[name]
        for path in self._matching(known.files):
            query = f"?{known.options}" if known.options else ""
            return f"{known.format}:{str(path).replace('?', '%3F')}{query}"
        return None

    def _matching(self, patterns: tuple[str, ...]) -> Iterator[Path]:
        for pattern in patterns:
            for relative, path in self._files.items():
                if fnmatch(f"/{relative}", f"*/{pattern.lower()}"):
                    yield path


def cut(spec: str, rows: int | None) -> str:
    """Return a corpus with at most so many rows, unless it names a part of it already."""
    if rows is None or re.search(r"[?&](rows|premises|size)=", spec):
        return spec
    return f"{spec}{'&' if '?' in spec else '?'}rows=0:{rows}"
