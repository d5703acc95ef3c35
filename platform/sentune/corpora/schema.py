"""What a corpus looks like once it is read: its kinds of Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Self

import pyarrow as pa


class Kind(StrEnum):
    """The kinds of tables that every format is turned into."""

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
"""InterSent section 2.1; their places here are the codes that batches carry."""

PAIR_OPERATIONS = ("fusion", "difference")
"""Those that take two sentences."""

SPLITS = ("train", "dev", "test")


SCHEMAS: dict[Kind, pa.Schema] = {
    Kind.TRIPLETS: pa.schema(
        [
            pa.field("anchor", pa.string(), nullable=False),
            pa.field("positive", pa.string(), nullable=False),
            pa.field("negative", pa.string(), nullable=False),
        ]
    ),
    # reverse_label: the label of (hypothesis, premise) where a corpus annotates both directions
    Kind.LABELLED_PAIRS: pa.schema(
        [
            pa.field("premise", pa.string(), nullable=False),
            pa.field("hypothesis", pa.string(), nullable=False),
            pa.field("label", pa.string(), nullable=False),
            pa.field("reverse_label", pa.string()),
        ]
    ),
    # subset: the part of a collection that a pair belongs to (MSRpar, ...), where there are parts
    Kind.SCORED_PAIRS: pa.schema(
        [
            pa.field("sentence1", pa.string(), nullable=False),
            pa.field("sentence2", pa.string(), nullable=False),
            pa.field("score", pa.float64(), nullable=False),
            pa.field("subset", pa.string()),
        ]
    ),
    # labels: the distinct labels that enough annotators gave, in the order of LABELS; never empty
    Kind.SEVERAL_LABELS: pa.schema(
        [
            pa.field("premise", pa.string(), nullable=False),
            pa.field("hypothesis", pa.string(), nullable=False),
            pa.field("labels", pa.list_(pa.string()), nullable=False),
        ]
    ),
    Kind.CONDITIONED_PAIRS: pa.schema(
        [
            pa.field("sentence1", pa.string(), nullable=False),
            pa.field("sentence2", pa.string(), nullable=False),
            pa.field("condition", pa.string(), nullable=False),
            pa.field("score", pa.float64(), nullable=False),
        ]
    ),
    # operation: one of OPERATIONS; second: null where the operation takes one sentence
    Kind.OPERATIONS: pa.schema(
        [
            pa.field("operation", pa.string(), nullable=False),
            pa.field("first", pa.string(), nullable=False),
            pa.field("second", pa.string()),
            pa.field("target", pa.string(), nullable=False),
        ]
    ),
    # two sentences that mean the same, without hard negatives
    Kind.SENTENCE_PAIRS: pa.schema(
        [
            pa.field("anchor", pa.string(), nullable=False),
            pa.field("positive", pa.string(), nullable=False),
        ]
    ),
    # a sentence and the one that follows it in the same text
    Kind.ADJACENT_SENTENCES: pa.schema(
        [
            pa.field("text", pa.string(), nullable=False),
            pa.field("following", pa.string(), nullable=False),
        ]
    ),
    # second: null for single sentences; split: one of SPLITS, null where there are no splits
    Kind.CLASSIFIED: pa.schema(
        [
            pa.field("text", pa.string(), nullable=False),
            pa.field("second", pa.string()),
            pa.field("label", pa.string(), nullable=False),
            pa.field("split", pa.string()),
        ]
    ),
    Kind.RELATED: pa.schema(
        [
            pa.field("sentence1", pa.string(), nullable=False),
            pa.field("sentence2", pa.string(), nullable=False),
            pa.field("score", pa.float64(), nullable=False),
            pa.field("split", pa.string(), nullable=False),
        ]
    ),
    # relevant: ids of the passages that answer the query; never empty
    Kind.QUERIES: pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("query", pa.string(), nullable=False),
            pa.field("relevant", pa.list_(pa.string()), nullable=False),
        ]
    ),
    Kind.SENTENCES: pa.schema([pa.field("text", pa.string(), nullable=False)]),
}

LABELS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, kw_only=True)
class BadRow:
    """A row that could not be used: where it stands and why."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus as it was read.

    Attributes:
        spec: ``FORMAT:PATH`` with its options, as the user wrote it.
        table: rows with the schema of ``kind``.
        fingerprint: hash of kind and content; equal for equal rows, whatever the format.
        counts: what was read, kept and dropped, by name.
        quarantine: the rows that could not be used.
    """

    spec: str
    kind: Kind
    table: pa.Table
    fingerprint: str
    counts: dict[str, int] = field(default_factory=dict)
    quarantine: tuple[BadRow, ...] = ()


class Statistics(Protocol):
    """What one pass over a corpus adds up: picklable, and small against the corpus."""

    def add(self, texts: Sequence[str]) -> None:
        """Add some sentences."""

    def merge(self, other: Self) -> None:
        """Add what another pass has added up; the order does not matter beyond rounding."""
