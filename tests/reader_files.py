"""Small files for the commands of the pages: each under the name that the page gives it.

The sentences are those of the built-in corpora. A file has rows that no other file has.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from sentune.corpora.formats import read
from sentune.corpora.schema import Kind

Row: TypeAlias = dict[str, Any]
ROWS = 240
"""Rows of a file; every other one has a premise that three people annotated."""

SMALL_CORPORA = """
from sentune.corpora.formats import builtin
for rows in (builtin.MEDIUM, builtin.LARGE):
    rows.update(train=3000, dev=100, test=100)
"""
"""First lines of a program that makes the built-in corpora small where it names no size."""


def pairs(number: int) -> list[Row]:
    corpus = read(f"builtin:nli?size={ROWS}&seed={number}", Kind.LABELLED_PAIRS)
    return cast("list[Row]", corpus.table.to_pylist())


def scored(number: int) -> list[Row]:
    corpus = read(f"builtin:scenes?size={ROWS}&seed={number}", Kind.SCORED_PAIRS)
    return cast("list[Row]", corpus.table.to_pylist())


def operations(name: str, number: int) -> list[Row]:
    corpus = read(f"builtin:operations?size={ROWS}&seed={number}", Kind.OPERATIONS)
    return [row for row in corpus.table.to_pylist() if row["operation"] == name]


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)


def _lines(file: Path, rows: Sequence[Row] | Iterator[Row]) -> None:
    _write(file, "".join(json.dumps(row) + "\n" for row in rows))


def _table(file: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    _write(file, "".join("\t".join(map(str, row)) + "\n" for row in (header, *rows) if row))


def snli(file: Path, number: int) -> None:
    """Premises that one person annotated, and others that three or four did, who do not agree."""
    made = []
    for place, row in enumerate(pairs(number)):
        two = "entailment" if row["label"] != "entailment" else "contradiction"
        others = [two, two] if place % 2 else ["neutral"]
        votes = [row["label"]] if place // 6 % 2 else [row["label"], row["label"], *others]
        texts = {"sentence1": row["premise"], "sentence2": row["hypothesis"]}
        made.append({**texts, "gold_label": row["label"], "annotator_labels": votes})
    _lines(file, made)


def chaosnli(file: Path, number: int) -> None:
    made = []
    for place, row in enumerate(pairs(number)):
        counts = {"e": 60, "n": 40} if place % 3 == 0 else {row["label"][0]: 90, "n": 10}
        example = {"premise": row["premise"], "hypothesis": row["hypothesis"]}
        made.append({"label_counter": counts, "example": example})
    _lines(file, made)


def ambient(file: Path, number: int) -> None:
    labels = ("entailment, neutral", "entailment", "contradiction", "neutral")
    made = [
        {"premise": r["premise"], "hypothesis": r["hypothesis"], "labels": labels[place % 4]}
        for place, r in enumerate(pairs(number))
    ]
    _lines(file, made)


def stsb(file: Path, number: int) -> None:
    rows = [
        ("main-captions", "made", "2026", place, row["score"], row["sentence1"], row["sentence2"])
        for place, row in enumerate(scored(number))
    ]
    _table(file, (), rows)


def sts(folder: Path, number: int) -> None:
    rows = scored(number)
    _table(folder / "STS.input.made.txt", (), [(r["sentence1"], r["sentence2"]) for r in rows])
    _table(folder / "STS.gs.made.txt", (), [(row["score"],) for row in rows])


def sick(file: Path, number: int) -> None:
    names = ("pair_ID", "sentence_A", "sentence_B", "entailment_label", "relatedness_score",
             "entailment_BA", "SemEval_set")  # fmt: skip
    rows = [
        (place, row["premise"], row["hypothesis"], row["label"].upper(), 1 + place % 5,
         ("B_neutral_A", "B_entails_A")[place % 2], ("TRAIN", "TRIAL", "TEST")[place // 3 % 3])
        for place, row in enumerate(pairs(number))
    ]  # fmt: skip
    _table(file, names, rows)


def csts(file: Path, number: int) -> None:
    """With LC-STS's labels of the same rows beside it."""
    rows = pairs(number)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("sentence1", "sentence2", "condition", "label"))
        for place, row in enumerate(rows):
            writer.writerow((row["premise"], row["hypothesis"], "the animal", 1 + place % 5))
    labels = [(place, 5 - place % 5) for place in range(len(rows))]
    _table(file.with_name("LC-STS.tsv"), ("uid", "reannotated-label"), labels)


def wikisplit(file: Path, number: int) -> None:
    rows = operations("fusion", number)
    split = [(row["target"], f"{row['first']} <::::> {row['second']}") for row in rows]
    _table(file, (), split)


def discofuse(file: Path, number: int) -> None:
    names = [f"{which}_{place}_sentence" for which in ("incoherent", "coherent")
             for place in ("first", "second")]  # fmt: skip
    rows = operations("fusion", number)
    _table(file, names, [(row["first"], row["second"], row["target"], "") for row in rows])


def compression(file: Path, number: int) -> None:
    rows = [(row["first"], row["target"]) for row in operations("compression", number)]
    if ".json" not in file.name:
        _table(file, (), rows)
        return
    records = [
        json.dumps({"graph": {"sentence": whole}, "compression": {"text": short}}, indent=1)
        for whole, short in rows
    ]
    _write(file, "\n\n".join(records) + "\n")


def books(folder: Path, number: int) -> None:
    texts = read(f"builtin:stories?size={ROWS}&seed={number}", Kind.SENTENCES).table.to_pylist()
    text = " ".join(f"{row['text'].capitalize().rstrip(' .')}." for row in texts)
    _write(folder / "book.txt", f"{text}\n")


def senteval(folder: Path, number: int) -> None:
    rows = pairs(number)
    for name, label in (("pos", "entailment"), ("neg", "contradiction")):
        texts = [row["hypothesis"] for row in rows if row["label"] == label]
        _write(folder / f"rt-polarity.{name}", "\n".join(texts) + "\n")
    kinds = ("ABBR", "DESC")
    for name, part in (("train_5500", rows[40:]), ("TREC_10", rows[:40])):
        texts = [f"{kinds[i % 2]}:one {row['premise']}" for i, row in enumerate(part)]
        _write(folder / f"{name}.label", "\n".join(texts) + "\n")
    sick(folder / "SICK.txt", number)


def beir(folder: Path, number: int) -> None:
    rows = pairs(number)
    _lines(folder / "corpus.jsonl",
           ({"_id": f"p{i}", "text": row["premise"]} for i, row in enumerate(rows)))  # fmt: skip
    _lines(folder / "queries.jsonl",
           ({"_id": f"q{i}", "text": row["hypothesis"]} for i, row in enumerate(rows)))  # fmt: skip
    judged = [(f"q{place}", f"p{place}", 1) for place in range(len(rows))]
    _table(folder / "qrels" / "test.tsv", ("query-id", "corpus-id", "score"), judged)


def named_columns(file: Path, number: int) -> None:
    """Labelled pairs in columns a, b and c, with numbers for labels: docs/own-data.md."""
    labels = ("entailment", "neutral", "contradiction")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("a", "b", "c"))
        for row in pairs(number):
            writer.writerow((row["premise"], row["hypothesis"], labels.index(row["label"])))


def _words() -> list[str]:
    texts = [*pairs(0), *pairs(1)]
    scenes = [row["sentence1"] for row in scored(0)]
    sentences = [row[side] for row in texts for side in ("premise", "hypothesis")]
    return sorted({word for text in (*sentences, *scenes) for word in re.findall("[a-z]+", text)})


def glove(file: Path, number: int) -> None:
    words = _words()
    vectors = np.random.default_rng(number).normal(size=(len(words), 16))
    rows = [f"{w} {' '.join(f'{x:.4f}' for x in v)}" for w, v in zip(words, vectors, strict=True)]
    _write(file, "\n".join(rows) + "\n")


def frequencies(file: Path) -> None:
    _write(file, "".join(f"{word} {200 + 7 * at}\n" for at, word in enumerate(_words())))


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "ambient": ambient,
    "beir": beir,
    "books": books,
    "chaosnli": chaosnli,
    "compression": compression,
    "csts": csts,
    "csv": named_columns,
    "discofuse": discofuse,
    "glove": glove,
    "multinli": snli,
    "senteval": senteval,
    "sick": sick,
    "snli": snli,
    "sts": sts,
    "stsb": stsb,
    "wikisplit": wikisplit,
}
"""Format -> what writes a file or folder of it; the number chooses the rows."""


def write_named(command: str, folder: Path) -> None:
    """Write what a command names as ``FORMAT:PATH`` or ``--frequencies FILE`` and is not there."""
    numbers = count(len([*folder.rglob("*")]))
    for kind, name in re.findall(rf"\b({'|'.join(WRITERS)}):([\w./-]+)", command):
        if not (place := folder / name).exists():
            WRITERS[kind](place, next(numbers))
    for name in re.findall(r"--frequencies ([\w./-]+)", command):
        if not (place := folder / name).exists() and ":" not in name:
            frequencies(place)
