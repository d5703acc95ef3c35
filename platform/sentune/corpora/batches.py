"""Batches in an order that depends on the seed alone, not on the source or on restarts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from sentune.corpora.tokens import TokenTable
from sentune.errors import InvalidValue

T = TypeVar("T")

_ROWS = 1_024
"""Rows that ``CorpusSource.rows`` reads at a time."""

PERMUTED = 1 << 22
"""Rows up to which ``drawn_rows`` permutes all row numbers in memory (32 MB)."""

Example = dict[str, npt.NDArray[np.int32]]
Columns = dict[str, list[npt.NDArray[np.int32]]]
"""Column name -> token ids of one row (``Example``), or of each row (``Columns``)."""


@dataclass(frozen=True)
class Batch:
    """A global batch, of which each worker takes a slice.

    Attributes:
        columns: token ids of the rows.
        epoch: number of the epoch, from 0.
        first: number of examples before the batch, over all epochs.
    """

    columns: Columns
    epoch: int
    first: int


class Readers(Protocol):
    """The workers of a trial that read a corpus together, such as ``training.group.Group``."""

    @property
    def rank(self) -> int: ...

    @property
    def world_size(self) -> int: ...

    def broadcast_object(self, value: T, source: int = 0) -> T:
        """Return the picklable ``value`` of the worker with rank ``source`` on every worker."""


class BatchSource(ABC):
    """A source of batches for a trial."""

    num_rows: int
    column_names: tuple[str, ...]

    @abstractmethod
    def join(self, readers: Readers) -> None:
        """Share the reading among the workers; all of them must take the same batches."""

    def batches(self, batch_size: int, seed: int, start: int = 0) -> Iterator[Batch]:
        """Yield batches endlessly, epoch after epoch, without an epoch's incomplete last batch.

        Args:
            batch_size: rows of a global batch.
            seed: determines the order, together with the number of the epoch.
            start: number of examples already seen, a multiple of ``batch_size``. The batches are
                those that an uninterrupted run gets after as many examples.

        Raises:
            InvalidValue: the corpus has fewer rows than a batch, or ``start`` is no multiple.
        """
        if not 1 <= batch_size <= self.num_rows:
            fix = f"use 1 to {self.num_rows}, the rows of the training corpus"
            raise InvalidValue("batch_size", batch_size, fix)
        if start < 0 or start % batch_size:
            raise InvalidValue("start", start, f"use a multiple of the batch size {batch_size}")
        return self._batches(batch_size, seed, start)

    @abstractmethod
    def _batches(self, batch_size: int, seed: int, seen: int) -> Iterator[Batch]:
        """Do as ``batches`` after its checks."""


@dataclass(frozen=True)
class Held:
    """A handle of a value in this process."""

    value: Any

    def open(self) -> Any:
        """Return the value itself."""
        return self.value


class CorpusSource(BatchSource):
    """A source of batches, and of single rows, of token shards with the given numbers of rows."""

    def __init__(self, shards: tuple[int, ...], column_names: tuple[str, ...]) -> None:
        self.num_rows = sum(shards)
        self.column_names = column_names
        self.readers: Readers | None = None

    def join(self, readers: Readers) -> None:
        """See ``BatchSource``; only a source that streams uses the workers."""
        self.readers = readers

    def rows(self, seed: int, start: int = 0) -> Iterator[Example]:
        """Yield examples endlessly in the order of ``batches``, without dropping any.

        ``start`` is the number of examples already seen, of any value.
        """
        epoch, skip = divmod(start, self.num_rows)
        while True:
            for columns in self._chunks(_ROWS, seed, epoch, skip, drop_last=False):
                for values in zip(*columns.values(), strict=True):
                    yield dict(zip(columns, values, strict=True))
            epoch, skip = epoch + 1, 0

    def _batches(self, batch_size: int, seed: int, seen: int) -> Iterator[Batch]:
        length = self.num_rows - self.num_rows % batch_size
        while True:
            epoch, skip = divmod(seen, length)
            for columns in self._chunks(batch_size, seed, epoch, skip, drop_last=True):
                yield Batch(columns, epoch, seen)
                seen += batch_size

    @abstractmethod
    def _chunks(
        self, size: int, seed: int, epoch: int, skip: int, *, drop_last: bool
    ) -> Iterator[Columns]:
        """Yield an epoch's rows after the first ``skip``, ``size`` at a time."""


class SharedSource(CorpusSource):
    """Batches of a token table in memory; rows are views, not copies."""

    def __init__(self, table: TokenTable) -> None:
        super().__init__(table.shards, tuple(table.columns))
        self._table = table

    def _chunks(
        self, size: int, seed: int, epoch: int, skip: int, *, drop_last: bool
    ) -> Iterator[Columns]:
        shards = self._table.shards
        starts = np.concatenate([[0], np.cumsum(shards)])
        numbers = shard_order(len(shards), seed, epoch)
        order = np.concatenate([starts[n] + row_order(shards[n], seed, epoch, n) for n in numbers])
        end = self.num_rows - (self.num_rows % size if drop_last else 0)
        for place in range(skip, end, size):
            rows = order[place : place + size].tolist()
            yield {name: [c[row] for row in rows] for name, c in self._table.columns.items()}


def shard_order(shards: int, seed: int, epoch: int) -> list[int]:
    """Return the order of the shards in an epoch."""
    order: list[int] = np.random.default_rng([seed, epoch]).permutation(shards).tolist()
    return order


def row_order(rows: int, seed: int, epoch: int, shard: int) -> npt.NDArray[np.int64]:
    """Return the order of a shard's rows in an epoch."""
    return np.random.default_rng([seed, epoch, shard + 1]).permutation(rows)


def drawn_rows(total: int, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the first ``count`` row numbers of a random order of ``total`` rows.

    The order does not depend on ``count``. For a long corpus it is never in memory as a whole.
    """
    rng = np.random.default_rng(seed)
    if total <= PERMUTED:
        return rng.permutation(total)[:count]
    found: dict[int, None] = {}
    while len(found) < count:
        found |= dict.fromkeys(rng.integers(total, size=4_096).tolist())
    return np.fromiter(found, dtype=np.int64)[:count]
