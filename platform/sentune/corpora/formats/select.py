"""Take slices of a corpus's rows, and derive one kind of rows from another.

All functions work on streams and hold rows in memory only if their docstring says so.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from itertools import groupby, islice
from operator import itemgetter
from typing import TypeVar

from sentune.corpora.formats.reading import Log, Row
from sentune.errors import InvalidValue
from sentune.io.object_store import StorageError

Item = TypeVar("Item")

_CACHED = 1 << 26
"""Bytes of SQLite's page cache for rows that are collected on disk."""


def parse_slice(option: str, text: str | None) -> slice | None:
    """Parse a slice ``A:B``; as in Python, ends are optional and may be negative."""
    if text is None:
        return None
    found = re.fullmatch(r"(-?\d{1,18})?:(-?\d{1,18})?", text)  # at most sys.maxsize
    if found is None:
        fix = "write it as A:B, such as 0:1000 or -500:"
        raise InvalidValue(f"corpus option {option}", text, fix)
    return slice(*(int(end) if end else None for end in found.groups()))


def take(items: Iterable[Item], part: slice) -> Iterator[Item]:
    """Yield ``list(items)[part]``, as a stream unless an end is negative."""
    if (part.start or 0) < 0 or (part.stop or 0) < 0:
        yield from list(items)[part]
    else:
        yield from islice(items, part.start, part.stop)


def take_premises(rows: Iterable[Row], part: slice, column: int = 0) -> Iterator[Row]:
    """Yield the rows whose premise is in a slice of the distinct premises.

    Premises are numbered in order of first appearance. Slices that do not overlap share no premise,
    even if a premise's rows are scattered over the file (as in SNLI). The premises are held in
    memory, and all rows for a slice with a negative end. ``column`` is a premise's index in a row.
    """
    if (part.start or 0) < 0 or (part.stop or 0) < 0:
        rows = list(rows)
        part = slice(*part.indices(len({row[column] for row in rows})))
    numbers: dict[str, int] = {}
    start, stop = part.start or 0, part.stop
    for row in rows:
        place = numbers.setdefault(row[column], len(numbers))
        if place >= start and (stop is None or place < stop):
            yield row


def triplets(pairs: Iterable[Row], log: Log, *, every: bool = False) -> Iterator[Row]:
    """Yield (premise, entailment, contradiction) of labelled pairs, as in SimCSE's training set.

    Every entailment of a premise gives one triplet, with a contradiction of the same premise as
    hard negative. SimCSE (section 4.2) samples it at random. Here the k-th entailment takes
    contradiction k modulo their number, in file order, which needs no seed and uses all of them.
    With ``every``, all combinations are yielded. Premises are in order of first appearance.

    The pairs are collected on disk, because a premise's rows may be scattered over the file.
    """
    with _scratch("CREATE TABLE pairs (premise TEXT, hypothesis TEXT, label TEXT)") as scratch:
        scratch.executemany("INSERT INTO pairs VALUES (?, ?, ?)", (row[:3] for row in pairs))
        counts = "SELECT COUNT(*), COUNT(DISTINCT premise) FROM pairs"
        log.counts["pairs"], log.counts["premises"] = scratch.execute(counts).fetchone()
        ordered = scratch.execute(_BY_PREMISE)
        for premise, group in groupby(ordered, key=itemgetter(0)):
            found: dict[str, list[str]] = {}
            for _, hypothesis, label in group:
                found.setdefault(label, []).append(hypothesis)
            entailed, contradicted = found.get("entailment"), found.get("contradiction")
            if not (entailed and contradicted):
                log.counts["premises_without_triplet"] += 1
                continue
            for k, positive in enumerate(entailed):
                chosen = contradicted if every else [contradicted[k % len(contradicted)]]
                for negative in chosen:
                    yield premise, positive, negative


_BY_PREMISE = """
    SELECT premise, hypothesis, label
    FROM (SELECT rowid AS number, MIN(rowid) OVER (PARTITION BY premise) AS first, * FROM pairs)
    ORDER BY first, number
"""


def sentence_pairs(rows: Iterable[Row], log: Log) -> Iterator[Row]:
    """Yield (anchor, positive) of operations, for InterSent's supervised contrastive baseline.

    The two shorter sentences of fusion and difference are concatenated (section 3.3). Fusion gives
    (first + second, target), difference (first, second + target), other operations (first, target).
    Pairs of equal texts are dropped and counted as ``equal_pairs``.
    """
    for operation, first, second, target in rows:
        if operation == "fusion":
            pair = f"{first} {second}", target
        elif operation == "difference":
            pair = first, f"{second} {target}"
        else:
            pair = first, target
        if pair[0] == pair[1]:
            log.counts["equal_pairs"] += 1
        else:
            yield pair


def sentences(rows: Iterable[Row], columns: tuple[int, ...]) -> Iterator[Row]:
    """Yield the distinct sentences of the given columns, without nulls, in order of appearance.

    A digest of 16 bytes is held on disk for each sentence.
    """
    with _scratch("CREATE TABLE seen (digest BLOB PRIMARY KEY) WITHOUT ROWID") as scratch:
        for row in rows:
            for text in (row[column] for column in columns if row[column] is not None):
                digest = blake2b(text.encode(), digest_size=16).digest()
                if scratch.execute("INSERT OR IGNORE INTO seen VALUES (?)", (digest,)).rowcount:
                    yield (text,)


@contextmanager
def _scratch(table: str) -> Iterator[sqlite3.Connection]:
    """Yield a temporary SQLite database with one table, in ``TMPDIR``.

    Raises:
        StorageError: the disk is full.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as scratch:
        scratch.execute("PRAGMA journal_mode = OFF")
        scratch.execute(f"PRAGMA cache_size = -{_CACHED >> 10}")
        scratch.execute(table)
        scratch.execute("BEGIN")  # otherwise every row is its own transaction
        try:
            yield scratch
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            place = os.environ.get("TMPDIR", "/var/tmp")  # where SQLite writes it
            raise StorageError(place, "the disk is full", "free some space", "TMPDIR") from error
