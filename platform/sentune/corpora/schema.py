"""Kinds of corpora with their Arrow schemas, the corpus in memory, and content fingerprints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sentune.formatting import counted

T = TypeVar("T")


class Kind(StrEnum):
    """The kinds of tables that formats are converted to; ``SCHEMAS`` has the columns."""

    TRIPLETS = "triplets"
    LABELLED_PAIRS = "labelled-pairs"
    SCORED_PAIRS = "scored-pairs"
    SEVERAL_LABELS = "pairs-of-several-labels"
    CONDITIONED_PAIRS = "conditioned-pairs"
    OPERATIONS = "operations"
    SENTENCE_PAIRS = "sentence-pairs"
    ADJACENT_SENTENCES = "adjacent-sentences"
    CLASSIFIED = "classified-sentences"
    RELATED = "related-pairs"
    QUERIES = "queries"
    SENTENCES = "sentences"


OPERATIONS = ("fusion", "difference", "compression", "reconstruction")
"""Operations of InterSent section 2.1; batches encode them as indices of this tuple."""

PAIR_OPERATIONS = ("fusion", "difference")
"""Operations that take two sentences."""

SPLITS = ("train", "dev", "test")

_TYPES = {"score": pa.float64(), "labels": pa.list_(pa.string()), "relevant": pa.list_(pa.string())}


def _schema(*columns: str) -> pa.Schema:
    """Return a schema of text columns, or of types from ``_TYPES``; ``NAME?`` is nullable."""
    names = {column: column.rstrip("?") for column in columns}
    fields = [pa.field(n, _TYPES.get(n, pa.string()), nullable=n != c) for c, n in names.items()]
    return pa.schema(fields)


SCHEMAS: dict[Kind, pa.Schema] = {
    Kind.TRIPLETS: _schema("anchor", "positive", "negative"),
    # reverse_label: label of (hypothesis, premise), if the corpus annotates both directions
    Kind.LABELLED_PAIRS: _schema("premise", "hypothesis", "label", "reverse_label?"),
    # subset: part of a collection that the pair belongs to (MSRpar, ...), if it has parts
    Kind.SCORED_PAIRS: _schema("sentence1", "sentence2", "score", "subset?"),
    # labels: the distinct labels that enough annotators gave, in the order of LABELS; never empty
    Kind.SEVERAL_LABELS: _schema("premise", "hypothesis", "labels"),
    Kind.CONDITIONED_PAIRS: _schema("sentence1", "sentence2", "condition", "score"),
    # operation: one of OPERATIONS; second: null if the operation takes one sentence
    Kind.OPERATIONS: _schema("operation", "first", "second?", "target"),
    # two sentences that mean the same, without hard negatives
    Kind.SENTENCE_PAIRS: _schema("anchor", "positive"),
    # a sentence and the one that follows it in the same text
    Kind.ADJACENT_SENTENCES: _schema("text", "following"),
    # second: null for single sentences; split: one of SPLITS, null if the task has none
    Kind.CLASSIFIED: _schema("text", "second?", "label", "split?"),
    Kind.RELATED: _schema("sentence1", "sentence2", "score", "split"),
    # relevant: ids of the passages that answer the query; never empty
    Kind.QUERIES: _schema("id", "query", "relevant"),
    Kind.SENTENCES: _schema("text"),
}

LABELS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, kw_only=True)
class BadRow:
    """An unusable row: its file, line number and the reason."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus in memory.

    Attributes:
        spec: ``FORMAT:PATH`` with its options, as the user wrote it.
        kind: kind of the rows.
        table: rows with the schema of the kind.
        fingerprint: hash of kind and content; equal for equal rows, whatever the format.
        counts: number of rows that were read, kept and dropped, by name.
        quarantine: the bad rows.
        task: the only task to evaluate; empty: all that the corpus is suitable for.
        prior: class prior by which ``ambiguous-rte`` weights pairs when it selects readouts, as in
            ``readouts.three_way.class_weights``; empty: unweighted.
    """

    spec: str
    kind: Kind
    table: pa.Table
    fingerprint: str
    counts: dict[str, int] = field(default_factory=dict)
    quarantine: tuple[BadRow, ...] = ()
    task: str = ""
    prior: str = ""

    def described(self) -> dict[str, Any]:
        """Return the corpus's entry in ``summary.json``."""
        return {
            "spec": f"{self.task}={self.spec}" if self.task else self.spec,
            "fingerprint": self.fingerprint,
            "rows": self.table.num_rows,
            "kind": self.kind.value,
            "counts": dict(self.counts),
            **({"task": self.task} if self.task else {}),
            **({"prior": self.prior} if self.prior else {}),
            **({"first_bad": str(self.quarantine[0])} if self.quarantine else {}),
        }


def left_out(corpus: Mapping[str, Any]) -> str:
    """Return a warning on the bad rows of a corpus's entry in a summary; empty if it has none."""
    if not (first := corpus.get("first_bad")):
        return ""
    return f"{counted(corpus['counts']['bad'], 'bad row')} left out, the first: {first}"


class Statistics(Protocol):
    """Statistics that are accumulated in one pass over a corpus; picklable and small."""

    def add(self, texts: Sequence[str]) -> None:
        """Add a batch of sentences."""

    def all_reduce(self, workers: Reducer) -> None:
        """Sum the statistics of all workers, so that every worker has the total."""


class Reducer(Protocol):
    """The workers of a pass over a corpus; all call the same methods in the same order."""

    def add_up(self, array: NDArray[Any]) -> None:
        """Replace an array in place by the sum of all workers' arrays, in the array's dtype."""

    def collect(self, value: T) -> list[T]:
        """Return every worker's picklable value, in the order of the workers."""


class Fingerprint:
    """Hashes a corpus batch by batch.

    Each column has a hash of its values' bytes and one of their lengths (-1 for a null), both
    little-endian. A column of lists has a third one, of the lists' lengths. Equal rows have equal
    fingerprints, however they are divided into batches.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._hashes = {
            field.name: tuple(sha256() for _ in range(3 if pa.types.is_list(field.type) else 2))
            for field in SCHEMAS[kind]
        }

    def update(self, batch: pa.RecordBatch) -> None:
        """Add rows that have the kind's schema."""
        for name, (values, lengths, *lists) in self._hashes.items():
            column = batch.column(name)
            for counts in lists:
                counts.update(_sizes(pc.list_value_length(column)))
                column = column.flatten()
            if pa.types.is_floating(column.type):
                values.update(column.to_numpy(zero_copy_only=False).astype("<f8").tobytes())
                continue
            lengths.update(_sizes(pc.binary_length(column)))
            values.update(_bytes(pc.fill_null(column, "")))

    def hexdigest(self) -> str:
        """Return the hash of the rows added so far, 32 hexadecimal digits."""
        whole = sha256(self._kind.value.encode())
        for name, hashes in self._hashes.items():
            whole.update(name.encode() + b"".join(part.digest() for part in hashes))
        return whole.hexdigest()[:32]


def fingerprint(kind: Kind, table: pa.Table) -> str:
    """Return the fingerprint of a whole table of the kind's schema."""
    state = Fingerprint(kind)
    for batch in table.to_batches():
        state.update(batch)
    return state.hexdigest()


def _sizes(lengths: pa.Array) -> bytes:
    """Return lengths as little-endian int32, -1 for a null."""
    sizes = pc.fill_null(lengths, -1).to_numpy(zero_copy_only=False)
    return bytes(sizes.astype("<i4").tobytes())


def _bytes(column: pa.Array) -> bytes:
    """Return the concatenated UTF-8 of a string array without nulls."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return b""
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    return bytes(memoryview(data)[int(ends[0]) : int(ends[-1])])
