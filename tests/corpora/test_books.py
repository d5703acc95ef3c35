"""Plain text as sentences in their order."""

from __future__ import annotations

import gzip
import os
from itertools import pairwise
from pathlib import Path

import pytest

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.formats import books
from sentune.corpora.prepare import prepare
from sentune.errors import CorpusError, InvalidValue

DATA = Path(os.environ.get("SENTUNE_DATA", "no-data"))

BOOK = """[A Book by Someone 1816]


CHAPTER I

Mr. Smith went   home.  He was
tired, and slept.\t
\x20
It rained. He
woke up!
"""
SENTENCES = [
    "[A Book by Someone 1816]", "CHAPTER I", "Mr. Smith went home.", "He was tired, and slept.",
    "It rained.", "He woke up!",
]  # fmt: skip


def adjacent(spec: str, **options: int) -> tuple[list[tuple[str, str]], Corpus]:
    corpus = read(f"books:{spec}", Kind.ADJACENT_SENTENCES, **options)
    columns = (corpus.table.column(name).to_pylist() for name in ("text", "following"))
    return list(zip(*columns, strict=True)), corpus


def texts(spec: str) -> list[str]:
    return read(f"books:{spec}", Kind.SENTENCES).table.column("text").to_pylist()


def test_sentences_follow_each_other_across_lines_and_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(BOOK)
    pairs, corpus = adjacent(str(path))
    assert pairs == list(pairwise(SENTENCES))
    assert corpus.counts == {"read": 10, "rows": 5}
    path.write_bytes(b"\xef\xbb\xbf" + BOOK.replace("\n", "\r\n").encode())
    assert adjacent(str(path))[0] == pairs
    assert texts(str(path)) == SENTENCES


def test_a_folder_is_read_whole_and_files_are_apart(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "two.txt.gz").write_bytes(gzip.compress(b"Three came. Four went."))
    (tmp_path / "a.txt").write_text("One sat. Two lay. One sat.")
    (tmp_path / "a.csv").write_text("Not this. Nor that.")
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "a-checkpoint.txt").write_text("Not this. Nor that.")
    (tmp_path / "b" / "._two.txt").write_text("Not this. Nor that.")
    expected = [("One sat.", "Two lay."), ("Two lay.", "One sat."), ("Three came.", "Four went.")]
    assert adjacent(f"{tmp_path}")[0] == adjacent(f"file://{tmp_path}/")[0] == expected
    assert texts(str(tmp_path)) == ["One sat.", "Two lay.", "Three came.", "Four went."]


def test_sentences_left_out_break_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(BOOK)
    pairs, corpus = adjacent(f"{path}?min_words=3&max_words=5")
    assert pairs == [("Mr. Smith went home.", "He was tired, and slept.")]
    assert corpus.counts == {"read": 10, "short": 2, "rows": 1}  # CHAPTER I, It rained.
    pairs, corpus = adjacent(f"{path}?max_words=4")
    assert pairs == [
        ("CHAPTER I", "Mr. Smith went home."),
        ("It rained.", "He woke up!"),
    ]
    assert corpus.counts == {"read": 10, "long": 2, "rows": 2}


def test_a_damaged_paragraph_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    text = "One came. Two\nwent.\n\nThree sl\xe6pt\nlong. Four.\n\nFive ate. Six drank."
    path.write_bytes(text.encode("latin-1"))
    pairs, corpus = adjacent(str(path))
    assert pairs == [("One came.", "Two went."), ("Five ate.", "Six drank.")]
    assert (corpus.counts["bad"], corpus.counts["damaged"]) == (1, 1)
    (bad,) = corpus.quarantine
    assert (bad.line, "encoding=latin-1" in bad.reason) == (4, True)
    with pytest.raises(CorpusError, match=r"book\.txt:4: invalid UTF-8 at byte 8"):
        adjacent(str(path), bad_rows="0")
    pairs, corpus = adjacent(f"{path}?encoding=latin-1")
    assert ("Three sl\xe6pt long.", "Four.") in pairs
    assert (len(pairs), "bad" in corpus.counts) == (5, False)


def test_long_paragraphs_are_held_in_part_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "book.txt"
    sentences = [f"The man {'walked ' * (i % 9)}to town {i}." for i in range(300)]
    words = " ".join(sentences).split()
    path.write_text("\n".join(" ".join(words[i : i + 7]) for i in range(0, len(words), 7)))
    held = []
    split = books._segments
    monkeypatch.setattr(books, "_MOST", 500)
    monkeypatch.setattr(
        books, "_segments", lambda text, o: held.append(len(text)) or split(text, o)
    )
    assert adjacent(str(path))[0] == list(pairwise(sentences))
    assert len(held) > 10
    assert max(held) < 600
    path.write_text("no end of a sentence\n" * 100)
    assert adjacent(str(path))[1].counts["cut"] == 4


def test_books_are_prepared_as_a_stream(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(BOOK)
    out = str(tmp_path / "out")
    prepare(f"books:{tmp_path}/book.txt", out, kind=Kind.ADJACENT_SENTENCES)
    again = read(f"parquet:{out}", Kind.ADJACENT_SENTENCES)
    assert again.fingerprint == adjacent(f"{tmp_path}/book.txt")[1].fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("language=English", "ISO 639"),
        ("encoding=cp1252", "utf-8 or latin-1"),
        ("min_words=5&max_words=4", "at least 5"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    tmp_path: Path, options: str, message: str
) -> None:
    (tmp_path / "book.txt").write_text(BOOK)
    with pytest.raises(InvalidValue, match=message):
        adjacent(f"{tmp_path}?{options}")


def test_folders_without_text_and_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no file in the folder ends with \.txt"):
        adjacent(str(tmp_path))
    with pytest.raises(CorpusError, match="no such file"):
        adjacent(f"{tmp_path}/book.txt")


@pytest.mark.skipif(not DATA.is_dir(), reason="SENTUNE_DATA names no folder of corpora")
def test_sixteen_books_are_read() -> None:
    pairs, corpus = adjacent(f"{DATA}/gutenberg?encoding=latin-1")
    assert corpus.counts == {"read": 238_874, "rows": 76_474}
    assert ("[Emma by Jane Austen 1816]", "VOLUME I") in pairs
    counts = adjacent(f"{DATA}/gutenberg")[1].counts
    assert (counts["bad"], counts["damaged"]) == (2, 2)  # Julius Caesar is Latin-1
