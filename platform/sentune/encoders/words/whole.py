"""A word table as one folder that needs no other: in a model, or on its way to another machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from sentune.encoders.words.table import META, VERSION, WordTable
from sentune.errors import InvalidValue


def save_whole(table: WordTable, folder: Path) -> None:
    """Write the table into an empty folder that ``WordTable.load`` reads.

    Where the table comes from the cache, its file of vectors is copied and not read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cached = _cached_vectors(table)
    if cached is not None:
        shutil.copyfile(cached, folder / "vectors.npy")
    else:
        np.save(folder / "vectors.npy", table.vectors)
    (folder / "words.txt").write_bytes("\n".join(table.words).encode())
    np.save(folder / "probabilities.npy", table.probabilities)
    np.save(folder / "listed.npy", table.listed)
    meta = {
        "version": VERSION,
        "spec": table.spec,
        "vectors": ".",
        "fingerprint": table.fingerprint,
        "counts": dict(table.counts),
    }
    (folder / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


def load_whole(folder: Path) -> WordTable:
    """Return the table of a folder that ``save_whole`` wrote.

    Raises:
        InvalidValue: there is no table, or it names a place outside of its folder: in a model
            from another machine, that would be a file of this one.
    """
    meta = folder / META
    if meta.is_file():
        named = json.loads(meta.read_text(encoding="utf-8")).get("vectors")
        if named != ".":
            fix = f"{META} must name its own folder (vectors: '.'), not {named!r}"
            raise InvalidValue("word vectors", str(folder), fix)
    return WordTable.load(str(folder))


def _cached_vectors(table: WordTable) -> Path | None:
    if not table.folder:
        return None
    described = json.loads((Path(table.folder) / META).read_text(encoding="utf-8"))
    return Path(table.folder) / described["vectors"] / "vectors.npy"
