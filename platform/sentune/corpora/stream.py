"""Handing corpora to workers through Ray: small ones shared, large ones streamed.

A table that fits is put into the object store once and read by every trial without a copy. A
larger one stays on disk as token shards and streams through Ray Data, two shards at a time.
Both give the same batches for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.data import DataContext, ExecutionResources, TaskPoolStrategy

from sentune.corpora.batches import (
    Batch,
    Example,
    SharedSource,
    position,
    row_order,
    shard_order,
)
from sentune.corpora.tokens import Ragged, TokenFolder, ragged

SHARE_UP_TO = 1 << 30
"""Bytes of token ids up to which a corpus is shared rather than streamed."""

_TASK_CPUS = 0.25
"""What a reading task asks for. Where trials hold every whole CPU, a task that asked for one
would wait for ever, and its trial with it (measured: no batch in 45 s); it mostly waits for the
disk anyway. One CPU of the cluster stays free for up to four readers."""

_READERS = 2

_ROWS = 1_024
"""Rows that are taken from a stream at once where they are asked for one by one."""


@dataclass(frozen=True)
class Shared:
    """A handle of something in the object store.

    The reference lies in a list, or Tune would replace it by its value.
    """

    reference: list[Any]

    def open(self) -> Any:
        """Return the value; its arrays are read-only views of the object store."""
        return ray.get(self.reference[0])


@dataclass(frozen=True)
class SharedTokens:
    """A handle of a token table in the object store."""

    shared: Shared

    def open(self) -> SharedSource:
        """Batches of the table, without a copy of it."""
        return SharedSource(self.shared.open())


@dataclass(frozen=True)
class Streamed:
    """A handle of token shards on a file system that all workers see.

    Attributes:
        prefetch: batches made ahead of the one in use.
    """

    folder: TokenFolder
    prefetch: int = 4

    def open(self) -> StreamedSource:
        """Batches of the shards."""
        return StreamedSource(self.folder, self.prefetch)


def share(value: Any) -> Shared:
    """Put a value into the object store once, for all who open the handle."""
    return Shared([ray.put(value)])


def hand_out(
    folder: TokenFolder, *, share_up_to: int = SHARE_UP_TO, prefetch: int = 4
) -> SharedTokens | Streamed:
    """Return a handle that opens to a batch source: shared when the ids fit, else streamed.

    Args:
        folder: what ``tokenise_batches`` gave.
        share_up_to: bytes of token ids up to which the table is shared.
        prefetch: batches made ahead where it streams.
    """
    if folder.nbytes <= share_up_to:
        return SharedTokens(share(folder.load()))
    return Streamed(folder, prefetch)


class StreamedSource:
    """Batches of token shards through Ray Data.

    Memory: two shards being read, what Ray Data keeps ready (bounded to as much again), and
    ``prefetch`` batches; the length of the corpus does not matter.
    """

    def __init__(self, folder: TokenFolder, prefetch: int = 4) -> None:
        self._folder = folder
        self._prefetch = prefetch

    @property
    def num_rows(self) -> int:
        return self._folder.num_rows

    @property
    def column_names(self) -> tuple[str, ...]:
        return self._folder.columns

    def batches(self, batch_size: int, seed: int, start: int = 0) -> Iterator[Batch]:
        """See ``BatchSource``. A resume reads no shard that lies wholly before ``start``."""
        epoch, skip, length = position(self.num_rows, batch_size, start)
        return self._batches(batch_size, seed, epoch, skip, length)

    def rows(self, seed: int, start: int = 0) -> Iterator[Example]:
        """See ``RowSource``."""
        epoch, skip = divmod(start, self.num_rows)
        while True:
            for table in self._epoch(_ROWS, seed, epoch, skip, drop_last=False):
                columns = {name: ragged(table.column(name)) for name in self.column_names}
                for row in range(len(table)):
                    yield {name: column[row] for name, column in columns.items()}
            epoch, skip = epoch + 1, 0

    def _batches(
        self, batch_size: int, seed: int, epoch: int, skip: int, length: int
    ) -> Iterator[Batch]:
        while True:
            for table in self._epoch(batch_size, seed, epoch, skip, drop_last=True):
                columns = {name: ragged(table.column(name)) for name in self.column_names}
                yield Batch(_rows(columns), epoch, epoch * length + skip)
                skip += batch_size
            epoch, skip = epoch + 1, 0

    def _epoch(
        self, batch_size: int, seed: int, epoch: int, skip: int, *, drop_last: bool
    ) -> Iterator[pa.Table]:
        tasks = self._tasks(seed, epoch, skip)
        with DataContext.current(self._context()):
            shards = ray.data.from_items(tasks, override_num_blocks=len(tasks)).map_batches(
                _read_shard,
                batch_size=1,
                batch_format="pyarrow",
                num_cpus=_TASK_CPUS,
                compute=TaskPoolStrategy(size=min(_READERS, len(tasks))),
            )
        yield from shards.iter_batches(
            batch_size=batch_size,
            batch_format="pyarrow",
            prefetch_batches=self._prefetch,
            drop_last=drop_last,
        )

    def _tasks(self, seed: int, epoch: int, skip: int) -> list[dict[str, Any]]:
        """What to read, in order: shards, each with its rows' order and how many to leave out."""
        tasks = []
        for number in shard_order(len(self._folder.shards), seed, epoch):
            rows = self._folder.shards[number]
            left_out = min(skip, rows)
            skip -= left_out
            if left_out < rows:
                path = str(self._folder.shard(number))
                order = {"seed": seed, "epoch": epoch, "shard": number, "skip": left_out}
                tasks.append({"path": path, **order})
        return tasks

    def _context(self) -> DataContext:
        """Ray Data's settings for this stream alone: in order, bounded, without progress bars."""
        context = DataContext.get_current().copy()
        shard = max(self._folder.nbytes // len(self._folder.shards), 1 << 20)
        options = context.execution_options
        options.preserve_order = True
        options.resource_limits = ExecutionResources.for_limits(
            object_store_memory=2 * (_READERS + 1) * shard
        )
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        return context


def _read_shard(task: pa.Table) -> pa.Table:
    """One shard with its rows permuted."""
    (order,) = task.to_pylist()
    table = pq.read_table(order["path"])
    rows = row_order(len(table), order["seed"], order["epoch"], order["shard"])
    return table.take(rows[order["skip"] :])


def _rows(columns: dict[str, Ragged]) -> dict[str, list[np.ndarray]]:
    return {name: [column[row] for row in range(len(column))] for name, column in columns.items()}
