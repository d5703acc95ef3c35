"""Files and folders as artifacts of a run, uploaded once for each content."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from sentune.tracking.client import Refused, legal
from sentune.tracking.runs import Run

PICKLES = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin", ".ckpt"}
"""Suffixes of files that run code when they are loaded; weights travel as safetensors."""


def upload(client: Any, run: Run, path: Path, folder: str, content: str = "") -> str:
    """Uploads a file into ``folder``, or a folder's content as ``folder``.

    Args:
        client: an ``MlflowClient``.
        run: that it belongs to.
        path: of the file or folder.
        folder: among the run's artifacts.
        content: what stands for the content; default is its digest.

    Returns:
        SHA-256 of the content; with the same content on the server nothing is sent.

    Raises:
        Refused: the path is gone, or holds a pickle.
    """
    found = digest(path)
    place = folder or path.name if path.is_dir() else f"{folder}/{path.name}".lstrip("/")
    if not has(run, place, content or found):
        if path.is_dir():
            client.log_artifacts(run.id, str(path), place)
        else:
            client.log_artifact(run.id, str(path), folder or None)
        note(client, run, place, content or found)
    return content or found


def has(run: Run, place: str, content: str) -> bool:
    """Whether the server holds this content at a place among the run's artifacts."""
    return run.tags.get(_tag(place)) == content


def note(client: Any, run: Run, place: str, content: str) -> None:
    """Notes on the server which content lies at a place."""
    client.set_tag(run.id, _tag(place), content)
    run.tags[_tag(place)] = content


def _tag(place: str) -> str:
    return legal(f"sentune.content.{place}")


def digest(path: Path) -> str:
    """SHA-256 of a file's content, or of the names and contents of a folder's files.

    Raises:
        Refused: the path is gone, or holds a pickle.
    """
    if not path.exists():
        raise Refused(f"{path} is gone")
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    total = hashlib.sha256()
    for file in files:
        if file.suffix.lower() in PICKLES:
            raise Refused(f"{file} may be a pickle; weights are logged as safetensors")
        with file.open("rb") as opened:
            one = hashlib.file_digest(opened, "sha256").hexdigest()
        name = file.relative_to(path).as_posix() if path.is_dir() else file.name
        total.update(f"{name}\0{one}\n".encode())
    return total.hexdigest()
