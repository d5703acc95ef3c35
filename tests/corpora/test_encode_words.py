"""Sentences as rows of a word table, and how often each row occurs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sentune.corpora.encode import WordEncoder
from sentune.corpora.tokens import tokenise_batches, unigram_counts
from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue

NAMES = ("the", "dog", "barks", "cat", "sleeps")
TEXTS = ["The dog barks.", "xyzzy", "the cat, the dog", "cat cat cat sleeps"]
NEXT = ["the cat sleeps", "the dog", "", "barks the the"]


def make_words(fingerprint: str = "five") -> WordTable:
    vectors = np.eye(len(NAMES), dtype=np.float32)
    return WordTable(NAMES, vectors, np.full(5, 0.2), fingerprint=fingerprint)


def batch() -> pa.RecordBatch:
    return pa.record_batch({"text": pa.array(TEXTS), "following": pa.array(NEXT)})


def test_sentences_are_rows_of_their_known_words() -> None:
    table = WordEncoder(make_words(), 3).table(batch())
    assert table.column("text").to_pylist() == [[0, 1, 2], [], [0, 3, 0], [3, 3, 3]]
    assert table.column("following").to_pylist() == [[0, 3, 4], [0, 1], [], [2, 0, 0]]
    assert set(map(str, table.schema.types)) == {"list<item: int32>"}


@pytest.mark.parametrize("shard_rows", [1, 3, 10])
def test_counts_are_those_of_a_loop(tmp_path: Path, shard_rows: int) -> None:
    encoder = WordEncoder(make_words(), 3)
    folder = tokenise_batches([batch()], "corpus", encoder, tmp_path, shard_rows=shard_rows)
    for column in ("text", "following"):
        seen = Counter(i for ids in encoder.table(batch()).column(column).to_pylist() for i in ids)
        expected = [seen[i] for i in range(6)]
        counts = unigram_counts(folder, column, 6)
        assert counts.dtype == np.int64
        assert counts.tolist() == expected


def test_what_cannot_be_counted_is_refused(tmp_path: Path) -> None:
    tokens = tokenise_batches([batch()], "corpus", WordEncoder(make_words(), 3), tmp_path)
    with pytest.raises(InvalidValue, match=r"column: 'anchor' .* text, following"):
        unigram_counts(tokens, "anchor", 5)
    with pytest.raises(InvalidValue, match=r"size: 2 .* id 3"):
        unigram_counts(tokens, "text", 2)


def test_tables_without_a_name_are_refused() -> None:
    with pytest.raises(InvalidValue, match="fingerprint of the word table"):
        WordEncoder(make_words(fingerprint=""), 3)
    with pytest.raises(InvalidValue, match="max_length: 0"):
        WordEncoder(make_words(), 0)
    assert (
        WordEncoder(make_words("a"), 3).fingerprint != WordEncoder(make_words("b"), 3).fingerprint
    )
