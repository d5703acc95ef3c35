"""Every format on small files in its official shape, good rows and bad."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from sentune.corpora import Corpus, Kind, read
from sentune.errors import CorpusError

PAIRS = [
    ("A dog runs.", "An animal runs.", "entailment"),
    ("A dog runs.", "A cat sleeps.", "contradiction"),
    ("A dog runs.", "A dog moves.", "entailment"),
    ("A man sits.", "A man waits.", "neutral"),
    ("A dog runs.", "Nothing runs.", "contradiction"),
]


def snli_line(premise: str, hypothesis: str, label: str) -> str:
    fields = {"gold_label": label, "sentence1": premise, "sentence2": hypothesis, "pairID": "7"}
    return json.dumps(fields) + "\n"


def rows(corpus: Corpus) -> list[tuple]:
    return [tuple(row.values()) for row in corpus.table.to_pylist()]


@pytest.mark.parametrize("name", ["snli", "multinli"])
@pytest.mark.parametrize("packed", [False, True])
def test_nli_jsonl_plain_and_gz(tmp_path: Path, name: str, packed: bool) -> None:
    text = "".join(snli_line(*pair) for pair in [*PAIRS, ("P", "H", "-")])
    path = tmp_path / ("nli.jsonl.gz" if packed else "nli.jsonl")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    corpus = read(f"{name}:{path}", Kind.LABELLED_PAIRS)
    assert rows(corpus) == [(*pair, None) for pair in PAIRS]
    assert corpus.counts == {"read": 6, "unlabelled": 1, "rows": 5}
    assert corpus.quarantine == ()


def test_labelled_pairs_become_triplets_as_simcse_makes_them(tmp_path: Path) -> None:
    path = tmp_path / "nli.jsonl"
    path.write_text("".join(snli_line(*pair) for pair in PAIRS))
    corpus = read(f"snli:{path}", Kind.TRIPLETS)
    assert rows(corpus) == [
        ("A dog runs.", "An animal runs.", "A cat sleeps."),
        ("A dog runs.", "A dog moves.", "Nothing runs."),
    ]
    assert corpus.counts["premises"] == 2
    assert corpus.counts["premises_without_triplet"] == 1
    assert len(rows(read(f"snli:{path}?negatives=all", Kind.TRIPLETS))) == 4


def test_sentences_of_any_format_are_distinct_in_order(tmp_path: Path) -> None:
    path = tmp_path / "nli.jsonl"
    path.write_text("".join(snli_line(*pair) for pair in PAIRS))
    assert [text for (text,) in rows(read(f"snli:{path}", Kind.SENTENCES))] == [
        "A dog runs.", "An animal runs.", "A cat sleeps.", "A dog moves.", "A man sits.",
        "A man waits.", "Nothing runs.",
    ]  # fmt: skip


def test_bad_rows_of_jsonl_are_put_aside_with_line_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "nli.jsonl"
    good = snli_line(*PAIRS[0]).encode()
    bad = [
        b'{"gold_label": \n',
        b'["no", "object"]\n',
        b'{"gold_label": "neutral", "sentence1": "x"}\n',
        snli_line("x", "  ", "neutral").encode(),
        snli_line("x", "y", "maybe").encode(),
        b'{"gold_label": "neutral", "sentence1": "caf\xe9", "sentence2": "y"}\n',
        b'{"gold_label": "neutral", "sentence1": 3, "sentence2": "y"}\n',
    ]
    path.write_bytes(good + b"".join(bad) + good)
    corpus = read(f"snli:{path}", Kind.LABELLED_PAIRS)
    assert corpus.table.num_rows == 2
    assert corpus.counts == {"read": 9, "bad": 7, "rows": 2}
    assert [(b.path, b.line) for b in corpus.quarantine] == [(str(path), n) for n in range(2, 9)]
    for row, reason in zip(
        corpus.quarantine,
        ["not valid JSON", "not a JSON object", "sentence2 is missing", "sentence2 is empty",
         "'maybe'", "invalid UTF-8", "sentence1 is not a string"],
        strict=True,
    ):  # fmt: skip
        assert reason in row.reason or reason.split()[-1] in row.reason


def test_more_bad_rows_than_allowed_are_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "nli.jsonl"
    path.write_text(snli_line(*PAIRS[0]) + "broken\n" * 3)
    assert read(f"snli:{path}", Kind.LABELLED_PAIRS, bad_rows="3").counts["bad"] == 3
    with pytest.raises(CorpusError, match=rf"{path.name}:4: not valid JSON.*2 are allowed.*line 2"):
        read(f"snli:{path}", Kind.LABELLED_PAIRS, bad_rows="2")


def test_a_sentence_may_hold_a_line_separator_of_unicode(tmp_path: Path) -> None:
    path = tmp_path / "sentences.txt"
    path.write_text("one\u2028two\n\n  three \r\n")
    corpus = read(f"text:{path}", Kind.SENTENCES)
    assert rows(corpus) == [("one\u2028two",), ("three",)]
    assert corpus.counts == {"read": 3, "blank": 1, "rows": 2}


def test_latin_1_text_is_quarantined_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("plain\ncafé\n".encode("latin-1"))
    corpus = read(f"text:{path}", Kind.SENTENCES)
    assert rows(corpus) == [("plain",)]
    assert corpus.quarantine[0].line == 2


def test_simcse_csv_with_quotes_commas_and_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "nli_for_simcse.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["sent0", "sent1", "hard_neg"])
        writer.writerow(["A dog, big, runs", 'He said "no"', "two\nlines"])
        writer.writerow(["a", "", "c"])
        writer.writerow(["a", "b"])
        writer.writerow(["d", "e", "f"])
    corpus = read(f"simcse-csv:{path}", Kind.TRIPLETS)
    assert rows(corpus) == [("A dog, big, runs", 'He said "no"', "two\nlines"), ("d", "e", "f")]
    assert [(b.line, b.reason) for b in corpus.quarantine] == [
        (4, "sent1 is empty"),
        (5, "2 columns, but the header has 3"),
    ]


def test_simcse_csv_with_another_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(CorpusError, match="the header lacks sent0, sent1, hard_neg"):
        read(f"simcse-csv:{path}", Kind.TRIPLETS)


SICK_HEADER = (
    "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tentailment_AB"
    "\tentailment_BA\tSemEval_set\n"
)


def test_sick_labels_both_directions_scores_and_splits(tmp_path: Path) -> None:
    path = tmp_path / "SICK.txt"
    path.write_text(
        SICK_HEADER
        + "1\tA a\tB b\tENTAILMENT\t4.5\tA_entails_B\tB_neutral_A\tTRAIN\n"
        + "2\tC c\tD d\tNEUTRAL\t2\tA_neutral_B\tB_contradicts_A\tTEST\n"
        + "3\tC c\tD d\tNEUTRAL\thigh\tA_neutral_B\tB_mystifies_A\tTRIAL\n"
        + "4\tC c\tD d\n"
    )
    pairs = read(f"sick:{path}", Kind.LABELLED_PAIRS)
    assert rows(pairs) == [
        ("A a", "B b", "entailment", "neutral"),
        ("C c", "D d", "neutral", "contradiction"),
    ]
    assert [b.line for b in pairs.quarantine] == [4, 5]
    assert pairs.counts["read"] == 4
    scored = read(f"sick:{path}", Kind.SCORED_PAIRS)
    assert rows(scored) == [("A a", "B b", 4.5, None), ("C c", "D d", 2.0, None)]
    assert scored.quarantine[0].reason == "relatedness_score is not a number: 'high'"
    assert rows(read(f"sick:{path}?split=TEST", Kind.SCORED_PAIRS)) == [("C c", "D d", 2.0, None)]


def test_sick_without_its_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "SICK.txt"
    path.write_text("sentence_A\tsentence_B\n")
    with pytest.raises(CorpusError, match="lacks entailment_label, entailment_BA"):
        read(f"sick:{path}", Kind.LABELLED_PAIRS)


def test_stsb_quotes_are_literal_and_trailing_columns_vary(tmp_path: Path) -> None:
    path = tmp_path / "sts-dev.csv"
    path.write_text(
        'main-news\tfile\t2012\t0001\t5.000\tA "plane.\tAn air plane.\n'
        " \tfile\t2012\t0002\t0.5\ta\tb\tsource1\tsource2\n"
        "main\tfile\t2012\t0003\tnan\ta\tb\n"
        "main\tfile\t2012\t0004\t1.0\ta\n"
    )
    corpus = read(f"stsb:{path}", Kind.SCORED_PAIRS)
    assert rows(corpus) == [('A "plane.', "An air plane.", 5.0, "main-news"), ("a", "b", 0.5, None)]
    assert [(b.line, b.reason) for b in corpus.quarantine] == [
        (3, "score is not finite: 'nan'"),
        (4, "6 columns instead of at least 7"),
    ]


def test_a_missing_file_and_a_cut_gz_say_so(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file"):
        read(f"snli:{tmp_path}/none.jsonl", Kind.LABELLED_PAIRS)
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(snli_line(*PAIRS[0]).encode() * 500)[:-20])
    with pytest.raises(CorpusError, match="damaged"):
        read(f"snli:{path}", Kind.LABELLED_PAIRS)
    with pytest.raises(CorpusError, match="it is a folder; name a file"):
        read(f"text:{tmp_path}", Kind.SENTENCES)


def test_a_corpus_without_rows_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_text("\n\n")
    with pytest.raises(CorpusError, match="no sentences are left"):
        read(f"text:{path}", Kind.SENTENCES)
