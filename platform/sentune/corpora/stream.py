"""Pass corpora to workers through Ray: small ones in shared memory, large ones as streams.

A small table is put into the object store once and every trial reads it without a copy. A larger
one is streamed by Ray Data from token shards on disk. Both give the same batches for a seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray

from sentune.corpora.batches import Columns, CorpusSource, SharedSource, row_order, shard_order
from sentune.corpora.ray_map import READERS, own_errors, read_in_order
from sentune.corpora.tokens import Ragged, TokenFolder, ragged
from sentune.io.cached_file import CachedFile

SHARE_UP_TO = 512 << 20
"""Bytes of token ids up to which a corpus is shared rather than streamed."""

_BLOCK = 4_096
"""Rows of a shard that are sent to other workers at a time, about a megabyte."""


@dataclass(frozen=True)
class Shared:
    """A handle of a value in Ray's object store."""

    reference: list[Any]
    """The object reference, in a list because Ray resolves references outside of containers."""

    def open(self) -> Any:
        """Return the value; its arrays are read-only views of the object store."""
        return ray.get(self.reference[0])


@dataclass(frozen=True)
class Streamed:
    """A handle of token shards that every node can open."""

    folder: TokenFolder

    def open(self) -> StreamedSource:
        return StreamedSource(self.folder)


def share(value: Any) -> Shared:
    """Put a value into the object store and return a handle of it."""
    return Shared([ray.put(value)])


def hand_out(folder: TokenFolder, *, share_up_to: int = SHARE_UP_TO) -> Shared | Streamed:
    """Return a handle of a batch source, shared up to ``share_up_to`` bytes, else streamed."""
    if folder.nbytes <= share_up_to:
        return share(SharedSource(folder.load()))
    return Streamed(folder)


class StreamedSource(CorpusSource):
    """Batches of token shards that Ray Data reads. A resume skips the shards before it.

    The workers of a group take turns: each of W workers reads every W-th shard of an epoch and
    sends its rows to the others, ``_BLOCK`` at a time. Each row is read once in all, and the order
    does not depend on W, even if W changes.

    Memory holds two shards being read, as much again that Ray Data keeps ready, and the shard in
    use, whatever the length of the corpus.
    """

    def __init__(self, folder: TokenFolder) -> None:
        super().__init__(folder.shards, folder.columns)
        self._folder = folder

    def _chunks(
        self, size: int, seed: int, epoch: int, skip: int, *, drop_last: bool
    ) -> Iterator[Columns]:
        held: Columns = {name: [] for name in self.column_names}
        first = self.column_names[0]
        for block in self._blocks(self._tasks(seed, epoch, skip)):
            for name, column in block.items():
                held[name] += [column[row] for row in range(len(column))]
            whole = len(held[first]) // size * size
            for start in range(0, whole, size):
                yield {name: values[start : start + size] for name, values in held.items()}
            held = {name: values[whole:] for name, values in held.items()}
        if held[first] and not drop_last:
            yield held

    def _blocks(self, tasks: list[dict[str, Any]]) -> Iterator[dict[str, Ragged]]:
        """Yield the rows of all tasks in order; one worker reads each task and sends its rows."""
        readers = self.readers
        rank, workers = (readers.rank, readers.world_size) if readers else (0, 1)
        own = self._read(tasks[rank::workers], workers)
        own = chain([*islice(own, 1)], own)  # starts reading before this worker's first turn
        for turn, task in enumerate(tasks):
            reader, left = turn % workers, task["rows"]
            while left:
                block = next(own) if reader == rank else {}
                if readers:
                    block = readers.broadcast_object(block, reader)
                left -= len(block[self.column_names[0]])
                yield block

    def _read(self, tasks: list[dict[str, Any]], workers: int) -> Iterator[dict[str, Ragged]]:
        """Yield the rows of one worker's tasks in blocks, each from one shard."""
        if not tasks:
            return
        shard = max(self._folder.nbytes // len(self._folder.shards), 1 << 20)
        at_once = min(max(1, READERS // workers), len(tasks))
        shards = read_in_order(_read_shard, tasks, at_once, 2 * (at_once + 1) * shard)
        with own_errors():
            for table in shards.iter_batches(batch_size=None, batch_format="pyarrow"):
                for start in range(0, len(table), _BLOCK):
                    block = table.slice(start, _BLOCK)
                    yield {name: ragged(block.column(name)) for name in self.column_names}

    def _tasks(self, seed: int, epoch: int, skip: int) -> list[dict[str, Any]]:
        """Return an epoch's reading tasks in order, without its first ``skip`` rows."""
        tasks = []
        for number in shard_order(len(self._folder.shards), seed, epoch):
            rows = self._folder.shards[number]
            if skip < rows:
                order = {"seed": seed, "epoch": epoch, "shard": number, "skip": skip}
                file = asdict(self._folder.cached(number))
                tasks.append({"file": file, "rows": rows - skip, **order})
            skip = max(0, skip - rows)
        return tasks


def _read_shard(task: pa.Table) -> pa.Table:
    (order,) = task.to_pylist()
    table = pq.read_table(CachedFile(**order["file"]).here())
    rows = row_order(len(table), order["seed"], order["epoch"], order["shard"])
    return table.take(rows[order["skip"] :])
