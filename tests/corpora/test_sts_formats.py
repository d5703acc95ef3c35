"""Yearly STS folders, C-STS and LC-STS, on small files in their official shape."""

from __future__ import annotations

import csv
from pathlib import Path

import fsspec
import pytest

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.formats import kinds_of, read_pairs
from sentune.errors import CorpusError, InvalidValue

CSTS = [
    ("A ball flies.", "A ball,\n red, falls.", "The motion.", "2"),
    ("A ball flies.", 'A "ball" falls.', "The colour.", "5"),
    ("A man sits.", "A man eats.", "The man.", "-1"),
    ("A man sits.", "A man eats.", "", "4"),
    ("A man sits.", "A man eats.", "The place.", "6"),
    ("A man sits.", "A man eats.", "The number.", "1.0"),
]


def rows(corpus: Corpus) -> list[tuple]:
    return [tuple(row.values()) for row in corpus.table.to_pylist()]


def year(folder: Path) -> Path:
    folder.mkdir()
    for name, pairs, scores in (
        ("OnWN", 'a "quoted\tb\nc\td\n', "5.0\n0.25\n"),
        ("MSRpar", "e\tf\tsource 1\tsource 2\ng\th\n", "\n3\n"),
        ("SMT", "i\tj\n", "1\n"),
    ):
        (folder / f"STS.input.{name}.txt").write_text(pairs)
        (folder / f"STS.gs.{name}.txt").write_text(scores)
    (folder / "STS.gs.ALL.txt").write_text("5\n5\n5\n")
    (folder / "00-readme.txt").write_text("nothing to read")
    return folder


def test_a_year_of_sts_with_its_subsets_in_order(tmp_path: Path) -> None:
    corpus = read(f"sts:{year(tmp_path / 'STS2013')}", Kind.SCORED_PAIRS)
    assert rows(corpus) == [
        ("g", "h", 3.0, "MSRpar"), ('a "quoted', "b", 5.0, "OnWN"), ("c", "d", 0.25, "OnWN"),
    ]  # fmt: skip
    assert corpus.counts == {"read": 5, "unscored": 1, "left_out_SMT": 1, "rows": 3}


def test_subsets_are_chosen_by_name(tmp_path: Path) -> None:
    path = year(tmp_path / "x")
    assert read(f"sts:{path}?subsets=all", Kind.SCORED_PAIRS).counts == {
        "read": 5, "unscored": 1, "rows": 4,
    }  # fmt: skip
    chosen = read(f"sts:{path}?subsets=SMT+OnWN", Kind.SCORED_PAIRS)
    assert [subset for *_, subset in rows(chosen)] == ["OnWN", "OnWN", "SMT"]
    assert chosen.counts == {"read": 5, "left_out_MSRpar": 2, "rows": 3}
    with pytest.raises(InvalidValue, match="some of MSRpar, OnWN, SMT"):
        read(f"sts:{path}?subsets=OnWN+MSRvid", Kind.SCORED_PAIRS)


def test_bad_lines_of_subsets_that_are_not_chosen_are_not_reported(tmp_path: Path) -> None:
    path = year(tmp_path / "x")
    (path / "STS.input.SMT.txt").write_bytes(b"caf\xe9\tj\ni\tj\n")
    (path / "STS.gs.SMT.txt").write_bytes(b"\xff\n1\n")
    corpus = read(f"sts:{path}?bad_rows=0", Kind.SCORED_PAIRS)
    assert corpus.quarantine == ()
    assert corpus.counts == {"read": 6, "unscored": 1, "left_out_SMT": 2, "rows": 3}
    with pytest.raises(CorpusError, match=r"SMT.txt:1: invalid UTF-8"):
        read(f"sts:{path}?bad_rows=0&subsets=all", Kind.SCORED_PAIRS)
    (path / "STS.gs.OnWN.txt").write_bytes(b"5.000\nx\n")
    with pytest.raises(CorpusError, match=r"1 of 4 rows are bad"):  # of those that were chosen
        read(f"sts:{path}?bad_rows=20%", Kind.SCORED_PAIRS)


def test_a_folder_of_sts_may_be_a_uri(tmp_path: Path) -> None:
    path = year(tmp_path / "x")
    memory = fsspec.filesystem("memory")
    for file in path.iterdir():
        memory.pipe_file(f"/sts-year/{file.name}", file.read_bytes())
    local = read(f"sts:{path}", Kind.SCORED_PAIRS)
    assert read("sts:memory://sts-year/", Kind.SCORED_PAIRS).fingerprint == local.fingerprint
    assert read(f"sts:file://{path}", Kind.SCORED_PAIRS).fingerprint == local.fingerprint


def test_numbers_of_lines_must_agree(tmp_path: Path) -> None:
    path = year(tmp_path / "x")
    (path / "STS.gs.OnWN.txt").write_text("5.0\n")
    with pytest.raises(CorpusError, match=r"STS.gs.OnWN.txt: 1 lines, but .*OnWN.txt has 2"):
        read(f"sts:{path}", Kind.SCORED_PAIRS)
    (path / "STS.gs.OnWN.txt").unlink()
    with pytest.raises(CorpusError, match=r"STS.gs.OnWN.txt: there is no such file"):
        read(f"sts:{path}", Kind.SCORED_PAIRS)


def test_bad_lines_of_sts_do_not_shift_the_scores(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.mkdir()
    (path / "STS.input.A.txt").write_bytes(b"a\tb\ncaf\xe9\tb\nno tab\nc\td\nd\te\ne\tf\n")
    (path / "STS.gs.A.txt").write_bytes(b"1\n2\n3\nfour\n\xff\n5\n")
    corpus = read(f"sts:{path}", Kind.SCORED_PAIRS)
    assert rows(corpus) == [("a", "b", 1.0, "A"), ("e", "f", 5.0, "A")]
    assert sorted((bad.line, bad.reason) for bad in corpus.quarantine) == [
        (2, "invalid UTF-8 at byte 3"),
        (3, "1 column instead of 2 sentences"),
        (4, "score is not a number: 'four'"),
        (5, "invalid UTF-8 at byte 0"),
    ]
    assert corpus.counts == {"read": 6, "bad": 4, "rows": 2}


def test_a_folder_without_sts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no STS.input.NAME.txt"):
        read(f"sts:{tmp_path}", Kind.SCORED_PAIRS)
    with pytest.raises(CorpusError, match="no such folder"):
        read(f"sts:{tmp_path}/none", Kind.SCORED_PAIRS)


def csts(path: Path, header: str = "sentence1,sentence2,condition,label") -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header.split(","))
        writer.writerows(CSTS)
    return path


def test_csts_with_line_breaks_hidden_labels_and_bad_rows(tmp_path: Path) -> None:
    path = csts(tmp_path / "csts_train.csv")
    corpus = read(f"csts:{path}", Kind.CONDITIONED_PAIRS)
    assert rows(corpus) == [
        ("A ball flies.", "A ball,\n red, falls.", "The motion.", 2.0),
        ("A ball flies.", 'A "ball" falls.', "The colour.", 5.0),
        ("A man sits.", "A man eats.", "The number.", 1.0),
    ]
    assert corpus.counts == {"read": 6, "unscored": 1, "bad": 2, "rows": 3}
    assert [(bad.line, bad.reason) for bad in corpus.quarantine] == [
        (6, "condition is empty"),
        (7, "label is '6', neither from 1 to 5 nor -1"),
    ]
    assert kinds_of(f"csts:{path}") == (Kind.CONDITIONED_PAIRS, Kind.SENTENCES)
    assert read_pairs(f"csts:{path}").table.num_rows == 3
    with pytest.raises(CorpusError, match="the header lacks condition"):
        read(f"csts:{csts(tmp_path / 'x.csv', 'sentence1,sentence2,c,label')}", corpus.kind)


def test_lc_sts_replaces_the_labels_by_row(tmp_path: Path) -> None:
    path, again = csts(tmp_path / "csts.csv"), tmp_path / "again.tsv"
    again.write_text("uid\treannotated-label\n5\t4\n0\t3\n1\t-1\n2\t5\n")
    corpus = read(f"csts:{path}?labels={again}", Kind.CONDITIONED_PAIRS)
    assert [(condition, score) for *_, condition, score in rows(corpus)] == [
        ("The motion.", 3.0), ("The man.", 5.0), ("The number.", 4.0),
    ]  # fmt: skip
    # row 3 has no condition; row 4 has a wrong label in the file, which is not looked at
    assert corpus.counts == {
        "read": 6, "unscored": 1, "bad": 1, "not_reannotated": 1, "rows": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id\tlabel\n", "not uid and reannotated-label"),
        ("uid\treannotated-label\n0\t3\n0\t4\n", "again.tsv:3: uid 0 comes twice"),
        ("uid\treannotated-label\n0\t9\n", "neither from 1 to 5 nor -1"),
        ("uid\treannotated-label\n0\n", "not a row number and a label with"),
        ("uid\treannotated-label\n6\t3\n", "it labels row 6, but .* has only 6 rows"),
    ],
)
def test_damaged_or_foreign_labels_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    path, again = csts(tmp_path / "csts.csv"), tmp_path / "again.tsv"
    again.write_text(text)
    with pytest.raises(CorpusError, match=reason):
        read(f"csts:{path}?labels={again}", Kind.CONDITIONED_PAIRS)
