"""A word table with the counts of its words in a training corpus, as one folder."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sentune.encoders.words.table import WordTable
from sentune.encoders.words.whole import save_whole
from sentune.errors import InvalidValue
from sentune.io.folders import new_folder

COUNTS = "counts.npy"
_VERSION = 1


def training_folder(words: WordTable, counts: NDArray[np.int64], cache: Path) -> str:
    """Path of a folder with the whole table and ``counts.npy``, named by their content.

    It is written beside its place and renamed; where it is there already, it is not written again.

    Args:
        words: W words with vectors.
        counts: [W] how often each word occurs in the training corpus.
        cache: folder of the cache; several processes may use it at once.

    Raises:
        InvalidValue: there is not one count, of at least 0, for each word.
    """
    counts = np.ascontiguousarray(counts, dtype=np.int64)
    if counts.shape != (len(words.words),) or (counts < 0).any():
        fix = f"give one count of at least 0 for each of the {len(words.words)} words"
        raise InvalidValue("counts", counts.shape, fix)
    words = words if words.fingerprint else replace(words, fingerprint=_content(words))
    key = sha256(f"{_VERSION} {words.fingerprint} ".encode() + counts.tobytes()).hexdigest()[:16]
    folder = cache.expanduser().resolve() / "training-words" / key

    def write(draft: Path) -> None:
        save_whole(words, draft)
        np.save(draft / COUNTS, counts)

    new_folder(folder, write, COUNTS)
    return str(folder)


def read_counts(folder: str | Path) -> NDArray[np.int64]:
    """[W] the counts in a folder that ``training_folder`` wrote.

    Raises:
        InvalidValue: there are none.
    """
    path = Path(folder) / COUNTS
    if not path.is_file():
        fix = f"it has no {COUNTS}; name a folder of words with the counts of a corpus"
        raise InvalidValue("folder of words", str(folder), fix)
    counts: NDArray[np.int64] = np.load(path)
    return counts


def _content(words: WordTable) -> str:
    """Return a fingerprint of a table that was made in memory."""
    text = "\n".join(words.words).encode()
    arrays = (np.ascontiguousarray(words.vectors), words.probabilities, words.listed)
    return sha256(text + b"".join(array.tobytes() for array in arrays)).hexdigest()[:32]
