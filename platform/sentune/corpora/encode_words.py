"""Sentences as rows of a word table, and how often each word of it occurs in a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.tokens import TokenFolder, TokenTable, ragged
from sentune.errors import InvalidValue

_VERSION = 1
"""Of the columns and of how words are found; another one is made anew."""


class WordIds(Protocol):
    """The known words of some sentences, one sentence after the other."""

    @property
    def ids(self) -> npt.NDArray[np.int32]: ...

    @property
    def offsets(self) -> npt.NDArray[np.int64]: ...


class Words(Protocol):
    """A word table, as ``sentune.encoders.words.WordTable`` is one."""

    @property
    def fingerprint(self) -> str: ...

    def ids(self, sentences: Sequence[str], max_length: int | None = None) -> WordIds: ...


class WordEncoder:
    """Turns the sentence columns of record batches into rows of a word table.

    Words that the table does not have are left out, so that a list may be empty.

    Args:
        words: the table; its fingerprint names it in caches.
        max_length: known words of a sentence that are kept, from its beginning.

    Raises:
        InvalidValue: ``max_length`` is below 1, or the table has no fingerprint.
    """

    def __init__(self, words: Words, max_length: int) -> None:
        if max_length < 1:
            raise InvalidValue("max_length", max_length, "use at least 1")
        if not words.fingerprint:
            raise InvalidValue("fingerprint of the words", "", "caches need one; give the table it")
        self._words = words
        self.max_length = max_length
        self.fingerprint = f"words{_VERSION}-{words.fingerprint}"

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the rows of the words of every text column of the batch, under the same names."""
        return pa.table(
            {
                field.name: self._column(batch.column(field.name).to_pylist())
                for field in batch.schema
                if pa.types.is_string(field.type)
            }
        )

    def _column(self, texts: list[str]) -> pa.ListArray:
        found = self._words.ids(texts, self.max_length)
        return pa.ListArray.from_arrays(found.offsets.astype(np.int32), found.ids)


def unigram_counts(
    tokens: TokenFolder | TokenTable, column: str, size: int
) -> npt.NDArray[np.int64]:
    """[size] how often each id occurs in a column; a folder is read shard by shard.

    Args:
        tokens: what ``tokenise`` or ``tokenise_batches`` gave with a ``WordEncoder``.
        column: the column to count.
        size: number of ids, the words of the table.

    Raises:
        InvalidValue: there is no such column, or an id is not below ``size``.
    """
    if column not in tokens.columns:
        raise InvalidValue("column", column, f"use one of {', '.join(tokens.columns)}")
    counts = np.zeros(size, dtype=np.int64)
    for ids in _ids(tokens, column):
        found = np.bincount(ids, minlength=size)
        if len(found) > size:
            raise InvalidValue("size", size, f"the corpus has the id {len(found) - 1}")
        counts += found
    return counts


def _ids(tokens: TokenFolder | TokenTable, column: str) -> Iterator[npt.NDArray[np.int32]]:
    if isinstance(tokens, TokenTable):
        yield tokens.columns[column].ids
        return
    for number in range(len(tokens.shards)):
        yield ragged(pq.read_table(tokens.shard(number), columns=[column]).column(column)).ids
