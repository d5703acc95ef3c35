"""Tokenise corpora once for each (corpus, tokenizer, length), cached as Parquet shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sentune.errors import CorpusError, InvalidValue
from sentune.io.cached_file import CachedFile, stored_manifest, upload
from sentune.io.folders import checked_folder

SHARD_ROWS = 65_536
"""Rows of a shard. Shards are permuted, and rows within each shard, so this also bounds how far
apart in the corpus two rows of a batch usually are."""

META = "tokens.json"
"""Manifest of a folder of token shards: columns, sizes of shards, checksums."""

Spread = Callable[[Callable[[Any], pa.Table], Iterable[Any]], Iterable[pa.Table]]
"""A function such as ``map``: yields the results for all batches, or files of them, in order."""


class TableEncoder(Protocol):
    """Encodes record batches of one kind as tables whose columns are lists of int32.

    Attributes:
        fingerprint: hash of everything that determines the ids, except ``max_length``.
        max_length: maximum length of a list.
    """

    fingerprint: str
    max_length: int

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        """Return one row for each row of the batch, in order."""


@dataclass(frozen=True)
class Ragged:
    """Concatenated sequences of token ids; row r is ``ids[offsets[r]:offsets[r + 1]]``."""

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[np.int32]:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]


@dataclass(frozen=True)
class TokenTable:
    """The token ids of a corpus in memory, special tokens included, without padding.

    Attributes:
        columns: column name -> ids of each row.
        shards: number of rows of each shard.
        fingerprint: identifies corpus, tokenizer, maximum length and shard size.
    """

    columns: dict[str, Ragged]
    shards: tuple[int, ...]
    fingerprint: str


@dataclass(frozen=True)
class TokenFolder:
    """A token table on disk, with one Parquet file per shard.

    Attributes:
        path: folder of the shards.
        columns, shards, fingerprint: as in ``TokenTable``; ``columns`` are names.
        nbytes: bytes of the table in memory.
        files: file name -> size and checksum.
        uri: URI of a copy in an object store for other machines; empty if there is none.
    """

    path: Path
    columns: tuple[str, ...]
    shards: tuple[int, ...]
    fingerprint: str
    nbytes: int
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    uri: str = ""

    def cached(self, number: int) -> CachedFile:
        """Return a shard as a file that every node can open."""
        return CachedFile.of(self.path, shard_name(number), self.files, self.uri)

    def load(self) -> TokenTable:
        """Load the whole table into memory, which briefly holds one column twice."""
        files = [self.cached(number).here() for number in range(len(self.shards))]
        columns = {}
        for name in self.columns:
            parts = (pq.read_table(file, columns=[name]) for file in files)
            columns[name] = ragged(pa.concat_tables(parts).column(name))
        return TokenTable(columns, self.shards, self.fingerprint)


def tokenise_batches(
    batches: Iterable[pa.RecordBatch],
    fingerprint: str,
    encoder: TableEncoder,
    cache: Path,
    *,
    shard_rows: int = SHARD_ROWS,
    files: Sequence[CachedFile] = (),
    uri: str = "",
    spread: Spread = map,
) -> TokenFolder:
    """Tokenise a stream of record batches into the cache, with one shard in memory at a time.

    If the cache already has the tokens, the stream is not read; see ``checked_folder``.

    Args:
        fingerprint: fingerprint of the corpus.
        files: Parquet files with the same rows that every node can open. If given, ``spread``
            sends these to the workers, and ``batches`` is not read.
        uri: URI of the cache in an object store; empty if all nodes see the cache.
        spread: map function for encoding, such as ``ray_map.in_turn`` on a cluster.

    Raises:
        CorpusError: the corpus has no rows.
    """
    key = f"{fingerprint}-{encoder.fingerprint}-{encoder.max_length}-{shard_rows}"

    def write(draft: Path) -> dict[str, Any]:
        columns, shards, nbytes = list[str](), list[int](), 0
        work = partial(_encode_file, encoder) if files else encoder.table
        for table in in_shards(spread(work, files or batches), shard_rows):
            pq.write_table(table, draft / shard_name(len(shards)), compression="zstd")
            columns = table.column_names
            shards.append(len(table))
            # offsets are int32 on disk and int64 in a Ragged
            nbytes += table.nbytes + 4 * len(table) * table.num_columns
        if not shards:
            raise CorpusError(cache / key, "a corpus without rows cannot be tokenised")
        return {"fingerprint": key, "columns": columns, "shards": shards, "nbytes": nbytes}

    folder, stored = cache / key, uri and f"{uri}/{key}"
    meta = stored_manifest(stored, META) if stored and not folder.exists() else None
    if meta is None:
        meta = checked_folder(folder, META, write)
        if stored:
            upload(folder, stored)
    columns, shards = tuple(meta["columns"]), tuple(meta["shards"])
    return TokenFolder(folder, columns, shards, key, meta["nbytes"], meta["files"], stored)


def unigram_counts(tokens: TokenFolder, column: str, size: int) -> npt.NDArray[np.int64]:
    """Count how often each id occurs in a column, [size]; reads one shard at a time.

    Raises:
        InvalidValue: there is no such column, or an id is not below ``size``.
    """
    if column not in tokens.columns:
        raise InvalidValue("column", column, f"use one of {', '.join(tokens.columns)}")
    counts = np.zeros(size, dtype=np.int64)
    for file in map(tokens.cached, range(len(tokens.shards))):
        part = ragged(pq.read_table(file.here(), columns=[column]).column(column))
        found = np.bincount(part.ids, minlength=size)
        if len(found) > size:
            fix = f"use at least {len(found)}, because the corpus has the id {len(found) - 1}"
            raise InvalidValue("size", size, fix)
        counts += found
    return counts


def ragged(column: pa.ChunkedArray) -> Ragged:
    """Convert a column of lists to flat ids with offsets."""
    chunks = column.chunks
    lengths = [np.diff(chunk.offsets.to_numpy()) for chunk in chunks]
    ends = np.cumsum(np.concatenate(lengths), dtype=np.int64)
    ids = np.concatenate([chunk.flatten().to_numpy() for chunk in chunks])
    return Ragged(ids.astype(np.int32, copy=False), np.concatenate([[0], ends]).astype(np.int64))


def shard_name(number: int) -> str:
    """Return ``shard-00000.parquet`` and so on; names sort by number."""
    return f"shard-{number:05d}.parquet"


def _encode_file(encoder: TableEncoder, file: CachedFile) -> pa.Table:
    return pa.concat_tables(map(encoder.table, pq.read_table(file.here()).to_batches()))


def in_shards(tables: Iterable[pa.Table], shard_rows: int) -> Iterator[pa.Table]:
    """Regroup tables of any length into tables of ``shard_rows`` rows; the last may be shorter."""
    pending: list[pa.Table] = []
    rows = 0
    for table in tables:
        pending.append(table)
        rows += table.num_rows
        while rows >= shard_rows:
            whole = pa.concat_tables(pending)
            yield whole.slice(0, shard_rows).combine_chunks()
            pending, rows = [whole.slice(shard_rows)], rows - shard_rows
    if rows:
        yield pa.concat_tables(pending).combine_chunks()
