"""BEIR's layout, on small folders."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sentune.corpora import Kind, read
from sentune.corpora.formats import kinds_of
from sentune.corpora.formats.beir import passages
from sentune.corpora.formats.reading import Log
from sentune.errors import CorpusError, InvalidValue

PASSAGES = [
    {"_id": "p1", "title": "Cats", "text": "They purr."},
    {"_id": "p2", "title": "", "text": "Dogs bark. "},
    {"_id": "p3", "text": "Fish swim."},
    {"_id": "p4", "title": None, "text": "Birds fly."},
    {"_id": "p5", "title": "A title", "text": ""},
]
QUERIES = [
    {"_id": "q1", "text": " who purrs?"},
    {"_id": "q2", "text": "who barks?", "metadata": {}},
    {"_id": "q3", "text": "who sings?"},
]
JUDGED = [("q2", "p2", "1"), ("q1", "p1", "2"), ("q1", "p2", "0"), ("q3", "p3", "-1"),
          ("q1", "p9", "1"), ("gone", "p1", "1")]  # fmt: skip


def jsonl(rows: list[dict]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def folder(path: Path) -> Path:
    (path / "qrels").mkdir(parents=True)
    (path / "corpus.jsonl").write_text(jsonl(PASSAGES))
    (path / "queries.jsonl").write_text(jsonl(QUERIES))
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(row) for row in JUDGED)]
    (path / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    (path / "qrels" / "dev.tsv").write_text(f"{lines[0]}\nq3\tp4\t1\n")
    return path


def test_queries_with_their_relevant_passages(tmp_path: Path) -> None:
    corpus = read(f"beir:{folder(tmp_path)}", Kind.QUERIES)
    assert corpus.table.to_pylist() == [
        {"id": "q1", "query": "who purrs?", "relevant": ["p1", "p9"]},
        {"id": "q2", "query": "who barks?", "relevant": ["p2"]},
    ]
    assert corpus.counts == {
        "read": 3, "judged_irrelevant": 2, "without_relevant": 1, "judged_unknown": 1, "rows": 2,
    }  # fmt: skip


def test_the_split_chooses_the_judgements(tmp_path: Path) -> None:
    path = folder(tmp_path)
    dev = read(f"beir:{path}?split=dev", Kind.QUERIES)
    assert dev.table["id"].to_pylist() == ["q3"]
    assert dev.fingerprint != read(f"beir:{path}", Kind.QUERIES).fingerprint
    with pytest.raises(CorpusError, match=r"train\.tsv: there is no such file; there are: dev"):
        read(f"beir:{path}?split=train", Kind.QUERIES)
    with pytest.raises(InvalidValue, match="train, dev or test"):
        read(f"beir:{path}?split=all", Kind.QUERIES)


def test_sentences_are_the_queries(tmp_path: Path) -> None:
    spec = f"beir:{folder(tmp_path)}"
    assert kinds_of(spec) == (Kind.QUERIES, Kind.SENTENCES)
    assert read(spec, Kind.SENTENCES).table["text"].to_pylist() == ["who purrs?", "who barks?"]


def test_passages_are_title_and_text(tmp_path: Path) -> None:
    expected = [("p1", "Cats They purr."), ("p2", "Dogs bark."), ("p3", "Fish swim."),
                ("p4", "Birds fly."), ("p5", "A title")]  # fmt: skip
    path = folder(tmp_path)
    assert list(passages(f"beir:{path}?split=dev", Log("0"))) == expected
    plain = path / "corpus.jsonl"
    (path / "corpus.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert list(passages(f"beir:{path}", Log("0"))) == expected


def test_bad_passages_are_put_aside_with_their_lines(tmp_path: Path) -> None:
    path = folder(tmp_path) / "corpus.jsonl"
    rows = [{"_id": 7, "text": "a"}, {"_id": "x", "title": "", "text": " "}, {"_id": "y"},
            {"_id": "z", "title": 3, "text": "a"}]  # fmt: skip
    path.write_text(jsonl([PASSAGES[0], *rows]) + "{\n")
    log = Log("5")
    assert [name for name, _ in passages(f"beir:{tmp_path}", log)] == ["p1"]
    assert [(bad.line, bad.reason) for bad in log.bad] == [
        (2, "_id is not a string"), (3, "title and text are empty"), (4, "the key text is missing"),
        (5, "title is not a string"),
        (6, "not valid JSON: Expecting property name enclosed in double quotes at column 2"),
    ]  # fmt: skip
    with pytest.raises(CorpusError, match=r"corpus\.jsonl:6: .*bad row 5 and 4 are allowed"):
        list(passages(f"beir:{tmp_path}", Log("4")))


def test_bad_queries_and_judgements_are_put_aside(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "queries.jsonl").write_text(jsonl([QUERIES[0], QUERIES[0], {"_id": "q2", "text": ""}]))
    bad = "q1\tp1\t1\nq1\tp1\t0\nq1\tp2\nq1\tp3\thigh\n\tp1\t1\n"
    (path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + bad)
    corpus = read(f"beir:{path}", Kind.QUERIES)
    assert corpus.table.to_pylist() == [{"id": "q1", "query": "who purrs?", "relevant": ["p1"]}]
    assert [(Path(row.path).name, row.line, row.reason) for row in corpus.quarantine] == [
        ("test.tsv", 3, "the passage p1 is judged twice for q1"),
        ("test.tsv", 4, "2 columns, but the header has 3"),
        ("test.tsv", 5, "score is not a number: 'high'"),
        ("test.tsv", 6, "query-id is empty"),
        ("queries.jsonl", 2, "the query q1 is already on line 1"),
        ("queries.jsonl", 3, "text is empty"),
    ]
    assert corpus.counts == {"read": 3, "bad": 6, "rows": 1}


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="there is no such folder"):
        read(f"beir:{tmp_path / 'none'}", Kind.QUERIES)
    with pytest.raises(CorpusError, match="there is no such folder"):
        list(passages(f"beir:{tmp_path / 'none'}", Log("0")))
    with pytest.raises(InvalidValue, match="one of the formats beir"):
        list(passages(f"text:{tmp_path}", Log("0")))
    path = folder(tmp_path / "x")
    (path / "corpus.jsonl").unlink()
    with pytest.raises(CorpusError, match=r"corpus\.jsonl: there is no such file"):
        list(passages(f"beir:{path}", Log("0")))
    (path / "qrels" / "test.tsv").write_text("q1\tp1\t1\n")
    with pytest.raises(CorpusError, match=r"test\.tsv:1: the header lacks query-id"):
        read(f"beir:{path}", Kind.QUERIES)
