"""Statistics of a corpus: one pass over its shards, added up by several workers or here.

The statistics are small and the corpus may be of any length, so a worker holds one batch of texts
and what it has added up, and only the latter travels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.data import DataContext, Dataset, TaskPoolStrategy
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sentune.beats import beat
from sentune.corpora.ray_map import READERS, TASK_CPUS, quiet_context
from sentune.corpora.schema import Statistics
from sentune.errors import CorpusError, InvalidValue

_ANYWHERE = PlacementGroupSchedulingStrategy(placement_group=None)
"""Tune refuses the tasks of a trial that would run on what is reserved for the trial itself."""

_ROWS = 2_048
"""Texts of a batch: some 200 KB, and enough for matrix products to outweigh their overhead."""

_KEPT = 64 << 20
"""Bytes of texts that Ray Data may keep ready in the object store."""


WAIT_SECONDS = 10.0
"""How often the process that waits for its workers gives a sign."""

S = TypeVar("S", bound=Statistics)


def accumulate_here(batches: Iterable[Sequence[str]], make: Callable[[], S]) -> S:
    """One pass in this process.

    Args:
        batches: of texts, taken one at a time.
        make: empty statistics.
    """
    statistics = make()
    for done, batch in enumerate(batches):
        beat("training", done=done)
        statistics.add(batch)
    return statistics


def accumulate(
    paths: Sequence[str], make: Callable[[], S], *, workers: int = 1, column: str = "text"
) -> S:
    """One pass over Parquet shards on a Ray cluster.

    Ray Data reads two shards at a time and splits their batches over the workers as these ask
    for them; the workers' parts are merged here as they come. Memory: a few batches, one part for
    each worker and one here, however long the corpus is.

    Args:
        paths: local files or fsspec URIs that every node sees.
        make: empty statistics; picklable.
        workers: that add up at the same time, each on one thread.
        column: that holds the texts.

    Raises:
        InvalidValue: there is no shard, or no worker.
        CorpusError: the first shard has no such column.
    """
    if workers < 1:
        raise InvalidValue("workers", workers, "use at least 1")
    if not paths:
        raise InvalidValue("paths", list(paths), "give at least one Parquet shard")
    with fsspec.open(paths[0], "rb") as stream:
        names = pq.read_schema(stream).names
    if column not in names:
        reason = f"there is no column {column!r} but {', '.join(names)}"
        raise CorpusError(paths[0], f"{reason}; prepare the corpus as sentences")
    worker = ray.remote(num_cpus=TASK_CPUS, max_retries=0, scheduling_strategy=_ANYWHERE)(_part)
    splits = _texts(paths, column).streaming_split(workers, equal=False)
    pending = [worker.remote(split, make, column) for split in splits]
    total = make()  # a part's own arrays are read-only
    try:
        while pending:
            ready, pending = ray.wait(pending, num_returns=1, timeout=WAIT_SECONDS)
            beat("training", done=workers - len(pending), total=workers)
            for part in ready:
                total.merge(ray.get(part))
    finally:
        for reference in pending:  # of a pass that failed
            ray.cancel(reference)
    return total


def _part(split: Any, make: Callable[[], S], column: str) -> S:
    """What one worker adds up; it is not tried again, for its split is half consumed by then."""
    tables = split.iter_batches(batch_size=_ROWS, batch_format="pyarrow", prefetch_batches=1)
    return accumulate_here((table.column(column).to_pylist() for table in tables), make)


def _texts(paths: Sequence[str], column: str) -> Dataset:
    """Return the texts of the shards as a stream, bounded in memory, without progress bars."""
    tasks = [{"path": path, "column": column} for path in paths]
    with DataContext.current(quiet_context(_KEPT, in_order=False)):
        return ray.data.from_items(tasks, override_num_blocks=len(tasks)).map_batches(
            _read,
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=TASK_CPUS,
            compute=TaskPoolStrategy(size=min(READERS, len(tasks))),
        )


def _read(task: pa.Table) -> Iterator[pa.Table]:
    """The texts of one shard, some at a time."""
    (shard,) = task.to_pylist()
    with fsspec.open(shard["path"], "rb") as stream:
        file = pq.ParquetFile(stream)
        for batch in file.iter_batches(batch_size=_ROWS, columns=[shard["column"]]):
            yield pa.Table.from_batches([batch])
