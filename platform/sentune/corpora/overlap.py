"""Find out whether two corpora share files or rows."""

from __future__ import annotations

import filecmp
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.formats.open import SENTENCE_COLUMNS, parsed_spec
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.corpora.tokens import Spread
from sentune.io.cached_file import CachedFile
from sentune.io.object_store import files_at, is_local

Hashes = npt.NDArray[np.uint64]

MOST_BYTES = 256 << 20
"""Maximum size of files that are compared by content."""

_SECOND = np.uint64(0x9E3779B97F4A7C15)
_NO_TEXT = pd.util.hash_array(np.array([""], dtype=object), categorize=False)
"""[1], hash of the empty text, which stands for a null; no sentence is empty."""

_UNRELATED = ("bad_rows", "negatives")
"""Options that do not select rows."""


def same_rows(first: str, second: str) -> str:
    """Return why two specifications name the same rows, or an empty string if they do not.

    Files with equal content count as the same, unless options such as ``rows`` or ``split`` differ.
    """
    one, other = parsed_spec(first), parsed_spec(second)
    if _chosen(one) != _chosen(other):
        return ""
    if one.path == other.path:
        return "it is the same" if one.format == other.format else f"both read {one.path}"
    left, right = _local(one), _local(other)
    if left is None or right is None:
        return ""
    if left.samefile(right):
        return f"it is the same {'file' if left.is_file() else 'folder'}"
    comparable = left.is_file() and right.is_file() and 0 < left.stat().st_size <= MOST_BYTES
    return "the files are equal" if comparable and filecmp.cmp(left, right, shallow=False) else ""


@dataclass(frozen=True, kw_only=True)
class SharedRows:
    """Of the ``of`` rows of a corpus, ``rows`` are among the ``compared`` rows of another."""

    rows: int
    of: int
    compared: int


def shared_rows(
    judged: Corpus,
    kind: Kind,
    parts: Iterable[CachedFile | pa.RecordBatch],
    *,
    spread: Spread = map,
) -> SharedRows:
    """Count the rows of a corpus whose sentences another corpus has in one row.

    Labels and scores are not compared. If the other corpus has single sentences, it must contain
    all sentences of a row, except nulls. Memory holds 64 bits for each row of ``judged``, and one
    part of the other corpus.

    Args:
        judged: corpus whose rows are counted.
        kind, parts: the other corpus, in shards or batches of rows.
        spread: map function, as in ``tokenise_batches``.
    """
    single = len(SENTENCE_COLUMNS.get(kind, (0, 1))) == 1
    texts = _columns(judged.table, judged.kind)
    columns = texts if single else [_together(texts[:2])]
    wanted = np.unique(np.concatenate(columns))
    there, compared = wanted == _NO_TEXT, 0
    for rows, places in spread(partial(_found, kind, wanted), parts):
        there[places] = True
        compared += rows
    shared = np.logical_and.reduce([there[np.searchsorted(wanted, column)] for column in columns])
    return SharedRows(rows=int(shared.sum()), of=len(shared), compared=compared)


def _found(
    kind: Kind, wanted: Hashes, part: CachedFile | pa.RecordBatch
) -> tuple[int, npt.NDArray[np.intp]]:
    """Return the number of rows of a part, and the indices in ``wanted`` of their keys."""
    if isinstance(part, CachedFile):
        table = pq.read_table(part.here(), schema=SCHEMAS[kind])
    else:
        table = pa.Table.from_batches([part])
    keys = np.concatenate(list(_keys(table, kind)))
    places = np.searchsorted(wanted, keys).clip(max=len(wanted) - 1)
    return table.num_rows, np.unique(places[wanted[places] == keys])


def _keys(table: pa.Table, kind: Kind) -> Iterator[Hashes]:
    """Yield the keys of rows: of the sentence or the pair, or of both pairs of a triplet."""
    first, *others = _columns(table, kind)
    for other in others if kind is Kind.TRIPLETS else others[:1]:
        yield _together([first, other])
    if not others:
        yield first


def _columns(table: pa.Table, kind: Kind) -> list[Hashes]:
    """Return the hashes of a table's sentence columns, ``_NO_TEXT`` for a null."""
    names = [SCHEMAS[kind].names[place] for place in SENTENCE_COLUMNS.get(kind, (0, 1))]
    texts = (table[name].fill_null("").to_pandas().to_numpy(dtype=object) for name in names)
    return [pd.util.hash_array(column, categorize=False) for column in texts]


def _together(columns: Sequence[Hashes]) -> Hashes:
    first, *second = columns
    return first * _SECOND + second[0] if second else first


def _chosen(spec: Spec) -> dict[str, str]:
    return {name: value for name, value in spec.options.items() if name not in _UNRELATED}


def local_file(spec: str) -> Path | None:
    """Return the local file that a specification names, or None."""
    path = _local(parsed_spec(spec))
    return path if path and path.is_file() else None


def _local(source: Spec) -> Path | None:
    if source.format == "builtin":
        return None
    files, root = files_at(source.path)
    path = Path(root)
    return path if is_local(files) and path.exists() else None
