"""Handing corpora to workers through Ray: small ones shared, large ones streamed.

A table that fits is put into the object store once and read by every trial without a copy. A
larger one stays on disk as token shards and streams through Ray Data, two shards at a time.
Both give the same batches for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.data import DataContext, TaskPoolStrategy

from sentune.corpora.batches import CorpusSource, SharedSource, row_order, shard_order
from sentune.corpora.ray_map import READERS, TASK_CPUS, own_errors, quiet_context
from sentune.corpora.tokens import TokenFolder, ragged
from sentune.io.cached_file import CachedFile

SHARE_UP_TO = 1 << 30
"""Bytes of token ids up to which a corpus is shared rather than streamed."""


@dataclass(frozen=True)
class Shared:
    """A handle of something in the object store.

    The reference lies in a list, or Tune would replace it by its value.
    """

    reference: list[Any]

    def open(self) -> Any:
        """Return the value; its arrays are read-only views of the object store."""
        return ray.get(self.reference[0])


class SharedTokens(Shared):
    """A handle of a token table in the object store; it opens to batches, without a copy."""

    def open(self) -> SharedSource:
        return SharedSource(super().open())


@dataclass(frozen=True)
class Streamed:
    """A handle of token shards that every node can open.

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
        return SharedTokens([ray.put(folder.load())])
    return Streamed(folder, prefetch)


class StreamedSource(CorpusSource):
    """Batches of token shards through Ray Data. A resume reads no shard that lies before it.

    Memory: two shards being read, what Ray Data keeps ready (bounded to as much again), and
    ``prefetch`` batches; the length of the corpus does not matter.
    """

    def __init__(self, folder: TokenFolder, prefetch: int = 4) -> None:
        super().__init__(folder.shards, folder.columns)
        self._folder = folder
        self._prefetch = prefetch

    def _chunks(
        self, size: int, seed: int, epoch: int, skip: int, *, drop_last: bool
    ) -> Iterator[dict[str, list[npt.NDArray[np.int32]]]]:
        tasks = self._tasks(seed, epoch, skip)
        shard = max(self._folder.nbytes // len(self._folder.shards), 1 << 20)
        with DataContext.current(quiet_context(2 * (READERS + 1) * shard)):
            shards = ray.data.from_items(tasks, override_num_blocks=len(tasks)).map_batches(
                _read_shard,
                batch_size=1,
                batch_format="pyarrow",
                num_cpus=TASK_CPUS,
                compute=TaskPoolStrategy(size=min(READERS, len(tasks))),
            )
        tables = shards.iter_batches(
            batch_size=size,
            batch_format="pyarrow",
            prefetch_batches=self._prefetch,
            drop_last=drop_last,
        )
        with own_errors():
            for table in tables:
                columns = {name: ragged(table.column(name)) for name in self.column_names}
                yield {name: [c[row] for row in range(len(c))] for name, c in columns.items()}

    def _tasks(self, seed: int, epoch: int, skip: int) -> list[dict[str, Any]]:
        """What to read, in order: shards, each with its rows' order and how many to leave out."""
        tasks = []
        for number in shard_order(len(self._folder.shards), seed, epoch):
            rows = self._folder.shards[number]
            left_out = min(skip, rows)
            skip -= left_out
            if left_out < rows:
                order = {"seed": seed, "epoch": epoch, "shard": number, "skip": left_out}
                tasks.append({"file": asdict(self._folder.cached(number)), **order})
        return tasks


def _read_shard(task: pa.Table) -> pa.Table:
    """One shard with its rows permuted."""
    (order,) = task.to_pylist()
    table = pq.read_table(CachedFile(**order["file"]).here())
    rows = row_order(len(table), order["seed"], order["epoch"], order["shard"])
    return table.take(rows[order["skip"] :])
