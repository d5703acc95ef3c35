"""Folders that appear whole or not at all: a model, an entry of a cache."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from sentune.io.atomic import sync, sync_tree, writing


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into; it replaces ``folder`` once all is on the disk.

    Raises:
        StorageError: the disk is full, read-only or at fault; ``folder`` is as it was.
    """
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            beside = Path(scratch, "model")
            beside.mkdir()
            beside.chmod(0o755)
            yield beside
            for file in beside.rglob("*"):  # safetensors writes for its owner alone
                file.chmod(0o755 if file.is_dir() else 0o644)
            sync_tree(beside)
            if folder.exists():
                folder.rename(Path(scratch, "old"))
            beside.rename(folder)
            sync(folder.parent)


def new_folder(folder: Path, write: Callable[[Path], None], proof: str = "") -> Path:
    """Return a folder's absolute path; one that is missing is written beside it, then renamed.

    Several processes may do it at once, with the same content.

    Args:
        folder: where it belongs; parents are made.
        write: fills the empty folder that it is given.
        proof: name of a file that the whole folder has.
    """
    if not (folder / proof).exists():
        draft = folder.with_name(f".{folder.name}-{uuid4().hex}")
        draft.mkdir(parents=True)
        try:
            write(draft)
            draft.rename(folder)
        except OSError:
            if not (folder / proof).exists():  # else another process was first
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder.resolve()


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a small JSON document with indentation."""
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
