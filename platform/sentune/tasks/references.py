"""The reference sentences of interpretation embeddings, for several n at once.

GumbelCSE sections 4.4 and 5: the sentences of n triplets drawn from the training set, without
duplicates. Here the n are prefixes of one shuffled list, so that a larger n contains the smaller
ones and one pass over the references serves them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sentune.corpora.batches import drawn_rows
from sentune.errors import InvalidValue

SENTENCES = (
    "anchor", "positive", "negative", "premise", "hypothesis", "sentence1", "sentence2", "text",
)  # fmt: skip
"""Columns of sentences. Not the condition of C-STS, which names what to compare them by."""


class RowSource(Protocol):
    """Rows that can be taken by their numbers: a table, or ``corpora.prepare.Prepared``."""

    @property
    def num_rows(self) -> int: ...

    @property
    def column_names(self) -> list[str]: ...

    def take(self, rows: NDArray[np.int64]) -> pa.Table: ...


@dataclass(frozen=True)
class References:
    """Distinct reference sentences.

    Attributes:
        sentences: of the largest n.
        sizes: n -> how many of ``sentences``, from the first, the first n rows give; increasing.
    """

    sentences: tuple[str, ...]
    sizes: Mapping[int, int]

    @classmethod
    def sample(cls, table: RowSource, counts: Sequence[int], seed: int) -> References:
        """Return the sentences of the first n rows in a random order, for each n of ``counts``.

        A row gives its sentences in the order of the columns. The order of the rows does not
        depend on ``counts``. A count above the number of rows becomes that number.

        Raises:
            InvalidValue: no count, a count below 1, a table without rows or without sentences.
        """
        columns = [name for name in table.column_names if name in SENTENCES]
        if not columns or not table.num_rows:
            found = f"{table.num_rows} rows of {', '.join(table.column_names)}"
            raise InvalidValue("references", found, f"give rows with one of {', '.join(SENTENCES)}")
        usable = _usable(counts, table.num_rows)
        order = drawn_rows(table.num_rows, usable[-1], seed)
        drawn = table.take(order).select(columns).to_pydict()
        rows = zip(*drawn.values(), strict=True)
        sentences, sizes = dict[str, None](), dict[int, int]()
        for number, row in enumerate(rows, start=1):
            sentences.update(dict.fromkeys(row))
            if number in usable:
                sizes[number] = len(sentences)
        return cls(tuple(sentences), sizes)

    @property
    def counts(self) -> tuple[int, ...]:
        """Every n, increasing."""
        return tuple(sorted(self.sizes))

    def within(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Return the n that ``counts`` stand for, increasing; one above the largest n becomes it.

        Raises:
            InvalidValue: no count, or one that was not drawn.
        """
        usable = _usable(counts, self.counts[-1])
        for count in usable:
            if count not in self.sizes:
                fix = f"the references were drawn for {', '.join(map(str, self.counts))}"
                raise InvalidValue("references", count, fix)
        return usable


def _usable(counts: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the distinct counts, increasing, none above ``most``."""
    if not counts or min(counts) < 1:
        raise InvalidValue("references", list(counts), "give numbers of rows, each at least 1")
    return tuple(sorted({min(count, most) for count in counts}))
