"""Detect changes of a corpus's source files, so that unchanged files are not read again."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentune.code import PACKAGE, read_code
from sentune.corpora.formats.open import parsed_spec
from sentune.corpora.formats.own import OWN
from sentune.errors import CorpusError
from sentune.io.object_store import asked, files_at, is_local

_VERSIONS = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "created")
"""Keys of an object's version or time in fsspec's file systems, the most reliable first."""


def source_stamp(spec: str, *reading: Any) -> str | None:
    """Return a digest that changes with a corpus's files and with the way they are read.

    It covers path, size and time of each local file, the etag or time of each object in a store,
    and the JSON values in ``reading``, such as the rows' kind. It also covers the code of
    ``sentune.corpora``, because readers may change and built-in corpora come from code alone.

    Returns:
        The digest, or None if a change cannot be detected: for data sets of the hub, for formats
        of the user's own, for servers that report neither etag nor time, and for missing paths.

    Raises:
        CorpusError: a file may not be accessed.
        StorageError: an object store refuses, or does not answer.
    """
    source = parsed_spec(spec)
    if source.format == "hf" or source.format in OWN:
        return None
    files: dict[str, Any] = {}
    named = [source.options.get("labels")] if source.format == "csts" else []  # a file as well
    if source.format == "builtin":  # generated with Python's random numbers
        files[source.path] = sys.version
    else:
        named.append(source.path)
    for path in filter(None, named):
        if (found := _files(path)) is None:
            return None
        files |= found
    code = read_code(PACKAGE / "corpora").fingerprint
    content = [source.format, dict(source.options), sorted(files.items()), code, *reading]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def _files(path: str) -> Mapping[str, Any] | None:
    """Return path -> size and version of each file; None if a version or the path is missing.

    Raises:
        CorpusError: a file may not be accessed, or the path's protocol is unknown.
        StorageError: an object store refuses, or does not answer.
    """
    try:
        system, root = files_at(path)
        if is_local(system):
            local = Path(root)
            every = local.rglob("*") if local.is_dir() else [local]
            stats = {str(file): file.stat() for file in every if not file.is_dir()}
            return {name: [s.st_size, s.st_mtime_ns] for name, s in stats.items()} or None
        found = {root: asked(path, lambda: system.info(root))}
        if found[root]["type"] == "directory":
            found = asked(path, lambda: system.find(root, detail=True))
    except (FileNotFoundError, NotADirectoryError):  # reading it reports the missing file
        return None
    except (PermissionError, ValueError) as error:
        fix = "check the path, and that this user may read it"
        raise CorpusError(path, f"cannot be accessed: {error}; {fix}") from error
    found = {system.unstrip_protocol(name): info for name, info in found.items()}
    versions = {name: _version(info) for name, info in found.items()}
    if not versions or None in versions.values():
        return None
    return {name: [info.get("size"), versions[name]] for name, info in found.items()}


def _version(info: Mapping[str, Any]) -> str | None:
    return next((str(info[name]) for name in _VERSIONS if info.get(name)), None)
