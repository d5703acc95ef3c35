"""Handing corpora to workers through Ray: small ones shared, large ones streamed.

A table that fits is put into the object store once and read by every trial without a copy. A larger
one streams through Ray Data from token shards on disk. Both give the same batches for a seed.
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
"""Rows that are cut from a shard, and sent to other workers, at a time: about a megabyte."""


@dataclass(frozen=True)
class Shared:
    """A handle of something in the object store; in a list, or Tune would put its value there."""

    reference: list[Any]

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
    """Put a value into the object store once, for all who open the handle."""
    return Shared([ray.put(value)])


def hand_out(folder: TokenFolder, *, share_up_to: int = SHARE_UP_TO) -> Shared | Streamed:
    """Return a handle that opens to a batch source: shared up to so many bytes, else streamed."""
    if folder.nbytes <= share_up_to:
        return share(SharedSource(folder.load()))
    return Streamed(folder)


class StreamedSource(CorpusSource):
    """Batches of token shards through Ray Data. A resume reads no shard that lies before it.

    The workers of a group take turns: of W workers each reads every W-th shard of an epoch, and
    sends its rows to the others, ``_BLOCK`` at a time. So each row is read once in all, and the
    order is that of one worker, whatever W is and whenever it changes.

    Memory: two shards being read, what Ray Data keeps ready (bounded to as much again), and the
    shard in use; the length of the corpus does not matter.
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
        """Yield the rows of all tasks in order, each read by one worker and sent to the others."""
        readers = self.readers
        rank, workers = (readers.rank, readers.world_size) if readers else (0, 1)
        own = self._read(tasks[rank::workers], workers)
        own = chain([*islice(own, 1)], own)  # begins to read before this worker's first turn
        for turn, task in enumerate(tasks):
            reader, left = turn % workers, task["rows"]
            while left:
                block = next(own) if reader == rank else {}
                if readers:
                    block = readers.broadcast_object(block, reader)
                left -= len(block[self.column_names[0]])
                yield block

    def _read(self, tasks: list[dict[str, Any]], workers: int) -> Iterator[dict[str, Ragged]]:
        """Yield the rows of one worker's tasks; no block has rows of two shards."""
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
        """Return what to read, in order: shards with their rows' order, ``skip`` rows left out."""
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
