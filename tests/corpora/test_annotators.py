"""Corpora that several people annotated, on small files in their official shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.formats import kinds_of, read_pairs
from sentune.errors import CorpusError, InvalidValue

E, N, C = "entailment", "neutral", "contradiction"
# premise, gold label, labels of the annotators
ANNOTATED = [
    ("A dog runs.", E, [E]),
    ("A man sits.", N, [N, N, E, E, C]),
    ("A man sits.", C, [C]),
    ("A cat sleeps.", "-", [N, C, E, "", ""]),
    ("A cat sleeps.", E, [E]),
    ("A bird sings.", C, [C, C, C, C, N]),
    ("A dog runs.", C, [C]),
    ("A fish swims.", "-", [""]),
]


def rows(corpus: Corpus) -> list[tuple]:
    return [tuple(row.values()) for row in corpus.table.to_pylist()]


def write(path: Path, objects: list[object]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in objects), encoding="utf-8")
    return path


def nli_file(folder: Path, *more: object) -> Path:
    lines = [
        {"gold_label": gold, "sentence1": premise, "sentence2": f"h{n}", "annotator_labels": given}
        for n, (premise, gold, given) in enumerate(ANNOTATED)
    ]
    return write(folder / "nli.jsonl", [*lines, *more])


def test_ambient_labels_stand_in_our_order(tmp_path: Path) -> None:
    path = write(
        tmp_path / "ambient.jsonl",
        [
            {"id": 1, "premise": " P ", "hypothesis": "H", "labels": "neutral, entailment"},
            {"id": 2, "premise": "P", "hypothesis": "H", "labels": "contradiction"},
            {"id": 3, "premise": "P", "hypothesis": "H", "labels": "neutral, perhaps"},
            {"id": 4, "premise": "P", "hypothesis": "H", "labels": ""},
            {"id": 5, "premise": "P", "hypothesis": "", "labels": "neutral"},
            {"id": 6, "premise": "P", "hypothesis": "H"},
        ],
    )
    corpus = read(f"ambient:{path}", Kind.SEVERAL_LABELS)
    assert rows(corpus) == [("P", "H", [E, N]), ("P", "H", [C])]
    assert corpus.counts == {"read": 6, "bad": 4, "rows": 2}
    assert [bad.reason for bad in corpus.quarantine] == [
        "unknown label 'perhaps'", "labels is empty", "hypothesis is empty",
        "the key labels is missing",
    ]  # fmt: skip
    assert rows(read(f"ambient:{path}", Kind.SENTENCES)) == [("P",), ("H",)]


def test_chaosnli_keeps_labels_with_enough_votes(tmp_path: Path) -> None:
    example = {"uid": "1", "premise": "P", "hypothesis": "H"}
    counters = [{"n": 70, "e": 30}, {"n": 80, "c": 19, "e": 1}, {"c": 20, "e": 40, "n": 40}]
    path = write(
        tmp_path / "chaos.jsonl",
        [
            *({"label_counter": counter, "example": example} for counter in counters),
            {"label_counter": {"1": 60, "2": 40}, "example": example},
            {"label_counter": {"n": "many"}, "example": example},
            {"label_counter": [1], "example": example},
            {"label_counter": {"n": 100}, "example": {"premise": "P"}},
        ],
    )
    corpus = read(f"chaosnli:{path}", Kind.SEVERAL_LABELS)
    assert [labels for *_, labels in rows(corpus)] == [[E, N], [N], [E, N, C]]
    assert [bad.line for bad in corpus.quarantine] == [4, 5, 6, 7]
    strict = read(f"chaosnli:{path}?votes=50", Kind.SEVERAL_LABELS)
    assert [labels for *_, labels in rows(strict)] == [[N], [N]]
    assert strict.counts["no_label_with_votes"] == 1


@pytest.mark.parametrize("name", ["snli", "multinli"])
def test_votes_of_annotators(tmp_path: Path, name: str) -> None:
    path = nli_file(tmp_path, {"gold_label": E, "sentence1": "P", "sentence2": "H"})
    corpus = read(f"{name}:{path}?votes=2", Kind.SEVERAL_LABELS)
    assert rows(corpus) == [("A man sits.", "h1", [E, N]), ("A bird sings.", "h5", [C])]
    assert corpus.counts == {
        "read": 9, "bad": 1, "fewer_annotators": 5, "no_label_with_votes": 1, "rows": 2,
    }  # fmt: skip
    assert corpus.quarantine[0].reason == "the key annotator_labels is missing"
    assert [labels for *_, labels in rows(read(f"{name}:{path}?votes=1", Kind.SEVERAL_LABELS))] == [
        [E, N, C], [E, N, C], [N, C],
    ]  # fmt: skip
    assert kinds_of(f"{name}:{path}?votes=2") == (Kind.SEVERAL_LABELS, Kind.SENTENCES)
    assert read_pairs(f"{name}:{path}?votes=2").kind is Kind.SEVERAL_LABELS


def test_annotated_rows_are_held_out_with_their_premises(tmp_path: Path) -> None:
    path = nli_file(tmp_path)
    corpus = read(f"snli:{path}?annotators=none", Kind.LABELLED_PAIRS)
    assert rows(corpus) == [("A dog runs.", "h0", E, None), ("A dog runs.", "h6", C, None)]
    assert corpus.counts == {"read": 8, "unlabelled": 2, "of_annotated_premises": 4, "rows": 2}
    held_out = set(read(f"snli:{path}?votes=1", Kind.SENTENCES).table["text"].to_pylist())
    for kind in (Kind.TRIPLETS, Kind.SENTENCES):
        texts = {t for row in rows(read(f"snli:{path}?annotators=none", kind)) for t in row}
        assert texts == {"A dog runs.", "h0", "h6"}
        assert held_out.isdisjoint(texts)
    everything = read(f"snli:{path}?annotators=any", Kind.LABELLED_PAIRS)
    assert everything.table == read(f"snli:{path}", Kind.LABELLED_PAIRS).table


def test_a_file_that_does_not_say_who_annotated_holds_nothing_out(tmp_path: Path) -> None:
    """Else all its rows would pass for rows of one annotator."""
    path = write(tmp_path / "x.jsonl", [{"gold_label": E, "sentence1": "P", "sentence2": "H"}] * 3)
    assert read(f"snli:{path}", Kind.LABELLED_PAIRS).table.num_rows == 3
    with pytest.raises(CorpusError, match="the key annotator_labels is missing"):
        read(f"snli:{path}?annotators=none", Kind.LABELLED_PAIRS, bad_rows="2")


def test_options_that_contradict_or_are_unknown_are_refused(tmp_path: Path) -> None:
    path = nli_file(tmp_path)
    with pytest.raises(InvalidValue, match="votes reads the annotated rows"):
        read(f"snli:{path}?votes=2&annotators=none", Kind.SEVERAL_LABELS)
    with pytest.raises(InvalidValue, match="at least 1"):
        read(f"snli:{path}?votes=0", Kind.SEVERAL_LABELS)
    with pytest.raises(InvalidValue, match="any or none"):
        read(f"snli:{path}?annotators=some", Kind.LABELLED_PAIRS)
    with pytest.raises(InvalidValue, match="read as pairs-of-several-labels, sentences"):
        read(f"snli:{path}?votes=2", Kind.LABELLED_PAIRS)
    with pytest.raises(InvalidValue, match="ambient allows"):
        read(f"ambient:{path}?votes=2", Kind.SEVERAL_LABELS)
