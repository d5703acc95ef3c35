"""Self-contained folders of word tables, for models and for other machines.

Legend: W = words.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sentune.encoders.words.table import META, VERSION, WordTable
from sentune.errors import InvalidValue
from sentune.io.folders import cached_folder

COUNTS = "counts.npy"
_VERSION = 1


def save_whole(table: WordTable, folder: Path) -> None:
    """Write a self-contained table into an empty folder, as ``load_whole`` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    if table.folder:
        cached = Path(table.folder)
        described = json.loads((cached / META).read_text(encoding="utf-8"))
        shutil.copyfile(cached / described["vectors"] / "vectors.npy", folder / "vectors.npy")
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
    """Load the table of a folder that ``save_whole`` wrote.

    Raises:
        InvalidValue: there is no table, or it refers to a file outside of the folder, which an
            untrusted model must not read.
    """
    meta = folder / META
    if meta.is_file():
        named = json.loads(meta.read_text(encoding="utf-8")).get("vectors")
        if named != ".":
            fix = f"{META} must name its own folder (vectors: '.'), not {named!r}"
            raise InvalidValue("word vectors", str(folder), fix)
    return WordTable.load(str(folder))


def training_folder(words: WordTable, counts: NDArray[np.int64], cache: Path) -> str:
    """Return a cached folder with a self-contained table and the words' counts.

    ``counts`` are the words' occurrences in the training corpus, [W]. Several processes may do this
    at once.

    Raises:
        InvalidValue: ``counts`` does not have one value of at least 0 for each word.
    """
    counts = np.ascontiguousarray(counts, dtype=np.int64)
    if counts.shape != (len(words.words),) or (counts < 0).any():
        fix = f"give one count of at least 0 for each of the {len(words.words)} words"
        raise InvalidValue("counts", counts.shape, fix)
    if not words.fingerprint:  # created in memory
        arrays = (np.ascontiguousarray(words.vectors), words.probabilities, words.listed)
        content = "\n".join(words.words).encode() + b"".join(a.tobytes() for a in arrays)
        words = replace(words, fingerprint=sha256(content).hexdigest()[:32])
    key = sha256(f"{_VERSION} {words.fingerprint} ".encode() + counts.tobytes()).hexdigest()[:16]
    folder = cache.expanduser().resolve() / "training-words" / key

    def write(draft: Path) -> None:
        save_whole(words, draft)
        np.save(draft / COUNTS, counts)

    cached_folder(folder, write)
    return str(folder)


def read_counts(folder: str | Path) -> NDArray[np.int64]:
    """Return the words' counts, [W], of a folder from ``training_folder``."""
    path = Path(folder) / COUNTS
    if not path.is_file():
        fix = f"it has no {COUNTS}; name a folder of words with the counts of a corpus"
        raise InvalidValue("folder of words", str(folder), fix)
    counts: NDArray[np.int64] = np.load(path)
    return counts
