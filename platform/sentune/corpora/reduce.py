"""Accumulate statistics of a corpus in one pass over texts in memory, or shards on disk.

Memory holds the statistics and a few batches of texts, whatever the length of the corpus. Each
worker of a group passes over its own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sentune.beats import beat
from sentune.corpora.schema import Statistics
from sentune.io.cached_file import CachedFile

_ROWS = 2_048
"""Texts of a batch: about 200 KB, and enough for matrix products to outweigh their overhead."""

_KEPT = 64 << 20
"""Maximum bytes of texts that Ray Data keeps ready in the object store."""

S = TypeVar("S", bound=Statistics)


def accumulate_here(batches: Iterable[Sequence[str]], make: Callable[[], S], workers: int = 1) -> S:
    """Return the statistics of batches of texts; ``make`` returns empty statistics.

    Beats count the texts times ``workers``, because each worker has an equal share of a corpus.
    """
    statistics, texts = make(), 0
    for batch in batches:
        beat("training", examples=texts * workers)
        statistics.add(batch)
        texts += len(batch)
    return statistics


def accumulate(
    shards: Sequence[CachedFile],
    sizes: Sequence[int],
    make: Callable[[], S],
    rows: slice | None = None,
    workers: int = 1,
) -> S:
    """Return the statistics of the texts of Parquet shards, read in order by Ray Data.

    Args:
        shards: Parquet files with a column ``text`` and the numbers of rows in ``sizes``.
        make: returns empty statistics.
        rows: range of rows to include; None: all of them.
        workers: see ``accumulate_here``.

    Raises:
        CacheError: a shard cannot be opened on a node.
    """
    from sentune.corpora.ray_map import own_errors, read_in_order  # imports Ray

    rows = slice(0, sum(sizes)) if rows is None else rows
    tasks, start = [], 0
    for shard, size in zip(shards, sizes, strict=True):
        first, end = max(rows.start - start, 0), min(rows.stop - start, size)
        if first < end:
            tasks.append({"file": asdict(shard), "first": first, "end": end})
        start += size
    if not tasks:
        return make()
    texts = read_in_order(_read, tasks, 1, _KEPT)  # one at a time: the sums are reproducible
    tables = texts.iter_batches(batch_size=_ROWS, batch_format="pyarrow", prefetch_batches=1)
    with own_errors():
        batches = (table.column("text").to_pylist() for table in tables)
        return accumulate_here(batches, make, workers)


def _read(task: pa.Table) -> Iterator[pa.Table]:
    """Yield the task's rows of one shard in batches."""
    (shard,) = task.to_pylist()
    file, at = pq.ParquetFile(CachedFile(**shard["file"]).here()), 0
    for batch in file.iter_batches(batch_size=_ROWS, columns=["text"]):
        first = max(shard["first"] - at, 0)
        part = batch.slice(first, max(shard["end"] - at - first, 0))
        at += batch.num_rows
        if part.num_rows:
            yield pa.Table.from_batches([part])
