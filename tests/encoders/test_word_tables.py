"""Word vectors and frequencies from their files, against what a plain reader finds."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentune.encoders.words import WordTable, open_words
from sentune.encoders.words import open as word_files
from sentune.encoders.words.open import BAD_LINES
from sentune.errors import CorpusError, InvalidValue

ROWS = {"the": [0.25, -1.5, 3.0], "cat": [1e-3, 2.0, -0.5], "Paris": [4.0, 5.0, 6.0]}
COUNTS = "the 70\ncat 20\nsat 10\n"


def text_of(rows: dict[str, list[float]]) -> str:
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items())


def glove(folder: Path, text: str, name: str = "glove.txt") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return f"glove:{folder / name}"


def counts(folder: Path, text: str = COUNTS) -> str:
    (folder / "counts.txt").write_text(text, encoding="utf-8")
    return str(folder / "counts.txt")


def test_reads_words_vectors_and_relative_frequencies(tmp_path: Path) -> None:
    table = open_words(glove(tmp_path, text_of(ROWS)), counts(tmp_path), tmp_path / "cache")
    assert table.words == tuple(ROWS)
    np.testing.assert_array_equal(table.vectors, np.array(list(ROWS.values()), dtype=np.float32))
    np.testing.assert_array_equal(table.probabilities, [0.7, 0.2, 0.0])
    np.testing.assert_array_equal(table.listed, [0.7, 0.2, 0.1])
    assert table.counts["without_count"] == 1


def test_a_word_may_contain_spaces_and_lines_end_at_newlines_alone(tmp_path: Path) -> None:
    rows = {"first": [1.0, 2.0], ". . .": [3.0, 4.0], "at name@domain.com": [5.0, 6.0]}
    rows |= {"a\u2028b": [7.0, 8.0], "\x85": [9.0, 10.0], '"': [11.0, 12.0]}
    cache = tmp_path / "cache"
    table = open_words(glove(tmp_path, text_of(rows)), None, cache)
    assert table.words == tuple(rows)
    np.testing.assert_array_equal(table.vectors, list(rows.values()))
    assert WordTable.load(table.folder).words == tuple(rows)


def test_fasttext_has_a_header_and_spaces_at_line_ends(tmp_path: Path) -> None:
    body = text_of(ROWS).replace("\n", " \n")
    (tmp_path / "v.vec").write_text(f"3 3\n{body}", encoding="utf-8")
    table = open_words(f"fasttext:{tmp_path / 'v.vec'}", None, tmp_path / "cache")
    assert table.words == tuple(ROWS)
    assert table.counts["read"] == 3


def test_a_fasttext_file_cut_short_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "v.vec").write_text(f"4 3\n{text_of(ROWS)}", encoding="utf-8")
    with pytest.raises(CorpusError, match="says 4 words, but the file has 3"):
        open_words(f"fasttext:{tmp_path / 'v.vec'}", None, tmp_path / "cache")
    assert list((tmp_path / "cache" / "words").iterdir()) == []


@pytest.mark.parametrize(
    ("form", "text", "fix"),
    [("glove", "3 3\n", "fasttext:FILE"), ("fasttext", "the 1.0 2.0\n", "glove:FILE")],
)
def test_the_wrong_format_names_the_right_one(
    tmp_path: Path, form: str, text: str, fix: str
) -> None:
    (tmp_path / "v").write_text(text)
    with pytest.raises(CorpusError, match=fix) as caught:
        open_words(f"{form}:{tmp_path / 'v'}", None, tmp_path / "cache")
    assert caught.value.line == 1


@pytest.mark.parametrize("spec", ["", "word2vec:x.bin", "glove:", "x.txt"])
def test_an_unknown_format_is_refused(tmp_path: Path, spec: str) -> None:
    with pytest.raises(InvalidValue, match="glove:FILE or fasttext:FILE"):
        open_words(spec, None, tmp_path)


def test_compressed_files_and_small_blocks_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows = {f"w{i}": rng.normal(size=5).round(4).tolist() for i in range(200)}
    plain = open_words(glove(tmp_path, text_of(rows)), None, tmp_path / "one")
    (tmp_path / "z.txt.gz").write_bytes(gzip.compress(text_of(rows).encode()))
    monkeypatch.setattr(word_files, "BLOCK", 500)
    packed = open_words(f"glove:{tmp_path / 'z.txt.gz'}", None, tmp_path / "two")
    assert packed.words == plain.words
    assert packed.fingerprint == plain.fingerprint
    np.testing.assert_array_equal(packed.vectors, plain.vectors)


def test_a_damaged_archive_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "z.txt.gz").write_bytes(gzip.compress(text_of(ROWS).encode() * 50)[:-20])
    with pytest.raises(CorpusError, match="compressed file is damaged"):
        open_words(f"glove:{tmp_path / 'z.txt.gz'}", None, tmp_path / "cache")


def test_bad_lines_are_put_aside_with_their_number_and_reason(tmp_path: Path) -> None:
    text = text_of(ROWS) + "short 1.0\nword 1.0 x 2.0\nnan 1.0 nan 2.0\n 1.0 2.0 3.0\nlast 1 2 3\n"
    cache = tmp_path / "cache"
    table = open_words(glove(tmp_path, text), None, cache)
    assert table.words == (*ROWS, "last")
    np.testing.assert_array_equal(table.vectors[-1], [1, 2, 3])
    assert table.counts["bad"] == 4
    found = [
        json.loads(row)
        for file in cache.glob("words/*/quarantine.jsonl")
        for row in file.read_text().splitlines()
    ]
    assert sorted(row["line"] for row in found) == [4, 5, 6, 7]


def test_too_many_bad_lines_are_an_error(tmp_path: Path) -> None:
    spec = glove(tmp_path, text_of(ROWS) + "short 1.0\n" * (BAD_LINES + 1))
    with pytest.raises(CorpusError, match="bad line 101 and 100 are allowed") as caught:
        open_words(spec, None, tmp_path / "cache")
    assert caught.value.line == 3 + BAD_LINES + 1


def test_the_first_of_two_lines_of_a_word_stays(tmp_path: Path) -> None:
    table = open_words(glove(tmp_path, "a 1 2\nb 3 4\na 5 6\n"), None, tmp_path / "cache")
    assert table.words == ("a", "b")
    np.testing.assert_array_equal(table.vectors, [[1, 2], [3, 4]])
    assert table.counts["duplicates"] == 1


def test_the_cache_serves_the_same_files_and_not_changed_ones(tmp_path: Path) -> None:
    spec, cache = glove(tmp_path, text_of(ROWS)), tmp_path / "cache"
    first = open_words(spec, None, cache)
    stamps = {file: file.stat().st_mtime_ns for file in cache.rglob("*")}
    again = open_words(spec, None, cache)
    assert (again.folder, again.fingerprint) == (first.folder, first.fingerprint)
    assert {file: file.stat().st_mtime_ns for file in cache.rglob("*")} == stamps
    assert isinstance(again.vectors, np.memmap)
    weighted = open_words(spec, counts(tmp_path), cache)
    assert weighted.fingerprint != first.fingerprint
    assert len(list(cache.glob("words/*/vectors.npy"))) == 1
    glove(tmp_path, text_of(ROWS) + "dog 1 1 1\n")
    assert open_words(spec, None, cache).words == (*ROWS, "dog")


def test_a_pickle_of_a_cached_table_is_a_path(tmp_path: Path) -> None:
    rows = {f"w{i}": [float(i)] * 50 for i in range(300)}
    table = open_words(glove(tmp_path, text_of(rows)), None, tmp_path / "cache")
    packed = pickle.dumps(table)
    assert len(packed) < 1000
    np.testing.assert_array_equal(pickle.loads(packed).vectors, table.vectors)
    loose = WordTable(table.words, np.array(table.vectors), table.probabilities)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loose)).vectors, table.vectors)


def test_vectors_at_an_unknown_protocol_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"path: 'nowhere://x' cannot be used"):
        open_words("glove:nowhere://x", None, tmp_path)


def test_a_table_that_a_machine_lacks_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="does not exist on this machine"):
        WordTable.load(str(tmp_path / "none"))


def test_counts_of_two_spellings_add_up_and_bad_lines_are_counted(tmp_path: Path) -> None:
    text = "The 30\nthe 50\ncat 20\nno-count\ndog 0\nowl nan\ntwo words 3\n"
    table = open_words(glove(tmp_path, text_of(ROWS)), counts(tmp_path, text), tmp_path / "cache")
    np.testing.assert_allclose(table.probabilities, [0.8, 0.2, 0.0], rtol=1e-15)
    assert table.counts["listed_bad"] == 4


def test_without_frequencies_no_word_has_a_probability(tmp_path: Path) -> None:
    table = open_words(glove(tmp_path, text_of(ROWS)), None, tmp_path / "cache")
    assert not table.probabilities.any()
    assert not len(table.listed)


def test_wordfreq_gives_its_own_frequencies(tmp_path: Path) -> None:
    wordfreq = pytest.importorskip("wordfreq", reason="wordfreq is not installed")
    spec = glove(tmp_path, text_of(ROWS))
    table = open_words(spec, "wordfreq:en", tmp_path / "cache")
    expected = [wordfreq.word_frequency(word, "en") for word in ROWS]
    np.testing.assert_allclose(table.probabilities, expected, rtol=0.01)  # rounded to 3 digits
    with pytest.raises(InvalidValue, match="use one of the languages"):
        open_words(spec, "wordfreq:xx", tmp_path / "cache")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file"):
        open_words(f"glove:{tmp_path / 'none.txt'}", None, tmp_path / "cache")
    with pytest.raises(CorpusError, match="no such file"):
        open_words(glove(tmp_path, text_of(ROWS)), str(tmp_path / "none"), tmp_path / "cache")


number = st.floats(-1e6, 1e6, width=32)
word = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1).filter(
    lambda text: text == text.strip(" ")
)


@given(st.dictionaries(word, st.tuples(number, number, number), min_size=1))
def test_any_words_and_numbers_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[str, tuple[float, ...]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    rows = {"first": (0.0, 1.0, 2.0), **rows}
    text = "".join(f"{key} {' '.join(map(repr, row))}\n" for key, row in rows.items())
    table = open_words(glove(folder, text), None, folder / "cache")
    assert table.words == tuple(rows)
    np.testing.assert_array_equal(table.vectors, np.array(list(rows.values()), dtype=np.float32))
