"""Batches in an order that a seed decides and nothing else: not the source, not a restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sentune.corpora.tokens import TokenTable
from sentune.errors import InvalidValue


@dataclass(frozen=True)
class Batch:
    """A global batch; a worker takes its slice of it.

    Attributes:
        columns: name -> one int32 array of token ids for each row.
        epoch: how often the corpus was gone through before, from 0.
        first: examples seen before this batch, over all epochs.
    """

    columns: dict[str, list[npt.NDArray[np.int32]]]
    epoch: int
    first: int


Example = dict[str, npt.NDArray[np.int32]]
"""Name of a column -> the token ids of one row."""


class RowSource(Protocol):
    """A corpus whose rows can be taken one at a time."""

    @property
    def num_rows(self) -> int: ...

    @property
    def column_names(self) -> tuple[str, ...]: ...

    def rows(self, seed: int, start: int = 0) -> Iterator[Example]:
        """Examples without end, over epochs, in the order of ``BatchSource.batches``.

        Nothing is dropped: each epoch shows every row once.

        Args:
            seed: decides the order, with the number of the epoch.
            start: examples already seen, any number of at least 0.
        """
        ...


class BatchSource(Protocol):
    """Where a trial's batches come from."""

    @property
    def num_rows(self) -> int: ...

    @property
    def column_names(self) -> tuple[str, ...]: ...

    def batches(self, batch_size: int, seed: int, start: int = 0) -> Iterator[Batch]:
        """Batches without end, over epochs; an epoch's incomplete last batch is dropped.

        Args:
            batch_size: rows of a global batch.
            seed: decides the order, with the number of the epoch.
            start: examples already seen, a multiple of ``batch_size``; the batches are those
                that an uninterrupted run would get from there on.

        Raises:
            InvalidValue: when the corpus has fewer rows than a batch, or ``start`` lies within
                a batch.
        """
        ...


@dataclass(frozen=True)
class Held:
    """A handle of something that is already in this process."""

    value: Any

    def open(self) -> Any:
        """Return the value itself."""
        return self.value


class SharedSource:
    """Batches of a token table in memory; rows are views of it, nothing is copied."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table

    @property
    def num_rows(self) -> int:
        return self._table.num_rows

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(self._table.columns)

    def batches(self, batch_size: int, seed: int, start: int = 0) -> Iterator[Batch]:
        """See ``BatchSource``."""
        epoch, skip, length = position(self.num_rows, batch_size, start)
        return self._batches(batch_size, seed, epoch, skip, length)

    def rows(self, seed: int, start: int = 0) -> Iterator[Example]:
        """See ``RowSource``."""
        epoch, skip = divmod(start, self.num_rows)
        while True:
            for row in self._order(seed, epoch)[skip:].tolist():
                yield {name: column[row] for name, column in self._table.columns.items()}
            epoch, skip = epoch + 1, 0

    def _batches(
        self, batch_size: int, seed: int, epoch: int, skip: int, length: int
    ) -> Iterator[Batch]:
        while True:
            order = self._order(seed, epoch)
            for place in range(skip, length, batch_size):
                rows = order[place : place + batch_size].tolist()
                columns = {
                    name: [c[row] for row in rows] for name, c in self._table.columns.items()
                }
                yield Batch(columns, epoch, epoch * length + place)
            epoch, skip = epoch + 1, 0

    def _order(self, seed: int, epoch: int) -> npt.NDArray[np.int64]:
        shards = self._table.shards
        starts = np.concatenate([[0], np.cumsum(shards)])
        numbers = shard_order(len(shards), seed, epoch)
        return np.concatenate([starts[n] + row_order(shards[n], seed, epoch, n) for n in numbers])


def position(num_rows: int, batch_size: int, start: int) -> tuple[int, int, int]:
    """Where ``start`` lies: epoch, examples of that epoch already seen, examples of an epoch.

    Raises:
        InvalidValue: see ``BatchSource.batches``.
    """
    check_batches(num_rows, batch_size, start)
    length = num_rows - num_rows % batch_size
    return start // length, start % length, length


def check_batches(num_rows: int, batch_size: int, start: int) -> None:
    """Refuses batches that cannot be had.

    Raises:
        InvalidValue: see ``BatchSource.batches``.
    """
    if not 1 <= batch_size <= num_rows:
        fix = f"use 1 to {num_rows}, the rows of the training corpus"
        raise InvalidValue("batch_size", batch_size, fix)
    if start < 0 or start % batch_size:
        raise InvalidValue("start", start, f"use a multiple of the batch size {batch_size}")


def shard_order(shards: int, seed: int, epoch: int) -> list[int]:
    """Return the order in which an epoch goes through the shards."""
    order: list[int] = np.random.default_rng([seed, epoch]).permutation(shards).tolist()
    return order


def row_order(rows: int, seed: int, epoch: int, shard: int) -> npt.NDArray[np.int64]:
    """Return the order in which an epoch goes through a shard's rows."""
    return np.random.default_rng([seed, epoch, shard + 1]).permutation(rows)
