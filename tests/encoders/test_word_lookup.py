"""Sentences to rows of a word table."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sentune.corpora import Kind, read
from sentune.encoders.words import WordTable, open_words
from sentune.encoders.words.table import tokenise

WORDS = ("the", "cat", "NASDAQ", "nasdaq", "UN", "don", "t", "café", "2")
TABLE = WordTable(WORDS, np.zeros((len(WORDS), 2), dtype=np.float32), np.zeros(len(WORDS)))


def words_of(sentence: str, max_length: int | None = None) -> list[str]:
    return [WORDS[row] for row in TABLE.ids([sentence], max_length).ids]


def test_tokens_are_runs_of_letters_and_digits() -> None:
    text = "Don't re-enter the café, No. 2_b!"
    assert tokenise(text) == ["Don", "t", "re", "enter", "the", "café", "No", "2", "b"]
    assert tokenise(" ... -- ") == []


def test_lower_case_comes_first_then_the_word_as_written() -> None:
    assert words_of("THE Cat of NASDAQ at the UN, un") == ["the", "cat", "nasdaq", "the", "UN"]


def test_words_that_are_unknown_are_left_out_before_the_cut() -> None:
    assert words_of("A dog and the cat, 2", max_length=2) == ["the", "cat"]


def test_offsets_keep_empty_sentences() -> None:
    rows = TABLE.ids(["the cat", "", "??", "dog", "don't"])
    assert len(rows) == 5
    assert rows.lengths.tolist() == [2, 0, 0, 0, 2]
    assert (rows.lengths == 0).sum() == 3
    assert (rows.ids.dtype, rows.offsets.dtype) == (np.int32, np.int64)
    assert TABLE.ids([]).offsets.tolist() == [0]


def test_known_share_counts_words_and_no_signs() -> None:
    assert TABLE.known_share(["the cat, the dog!", "owl"]) == pytest.approx(3 / 5)
    assert TABLE.known_share(["..."]) == 1.0


DATA = Path(os.environ.get("SENTUNE_DATA", "no-data"))


@pytest.mark.skipif(not DATA.is_dir(), reason="SENTUNE_DATA names no folder of corpora")
def test_share_of_known_words_of_sts_benchmark(tmp_path: Path) -> None:
    table = open_words(
        f"glove:{DATA}/words/glove.840B.300d.33860.txt.gz",
        f"{DATA}/words/enwiki_vocab_min200.txt",
        tmp_path,
    )
    assert table.vectors.shape == (33_860, 300)
    assert len(table.listed) == 188_033
    assert table.probabilities[0] == 167_485_604 / 3_484_135_472
    corpus = read(f"stsb:{DATA}/stsbenchmark/sts-train.csv", Kind.SCORED_PAIRS)
    sentences = corpus.table.column("sentence1").to_pylist()
    assert table.known_share(sentences) > 0.96
    assert table.ids(sentences).lengths.all()
