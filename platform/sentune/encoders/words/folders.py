"""Folders of a cache that are whole or not there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4


def written(folder: Path, proof: str, write: Callable[[Path], None]) -> None:
    """Writes beside the folder, then renames; does nothing where the folder is there.

    Several processes may do it at once, with the same content.

    Args:
        folder: where it belongs; parents are made.
        proof: name of a file that the whole folder has.
        write: fills the empty folder that it is given.
    """
    if (folder / proof).exists():
        return
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
