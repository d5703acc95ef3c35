"""Row counts of the real corpora in the folder that SENTUNE_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sentune.corpora import Kind, read

DATA = Path(os.environ.get("SENTUNE_DATA", "no-data"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="SENTUNE_DATA names no folder of corpora")
SNLI = f"snli:{DATA}/snli/snli_1.0_train_first100k.jsonl.gz"


@pytest.mark.parametrize(
    ("spec", "kind", "read_rows", "rows"),
    [
        (f"snli:{DATA}/snli/snli_1.0_dev.jsonl.gz", Kind.LABELLED_PAIRS, 9_842, 9_842),
        (f"multinli:{DATA}/multinli/multinli_1.0_dev_matched_first5000.jsonl.gz",
         Kind.LABELLED_PAIRS, 5_000, 5_000),
        (f"sick:{DATA}/sick/SICK.txt", Kind.LABELLED_PAIRS, 4_934, 4_934),
        (f"sick:{DATA}/sick/SICK.txt?split=TRIAL", Kind.SCORED_PAIRS, 4_934, 495),
        (f"stsb:{DATA}/stsbenchmark/sts-train.csv", Kind.SCORED_PAIRS, 5_749, 5_749),
        (f"stsb:{DATA}/stsbenchmark/sts-dev.csv", Kind.SCORED_PAIRS, 1_500, 1_500),
    ],
)  # fmt: skip
def test_every_row_is_read(spec: str, kind: Kind, read_rows: int, rows: int) -> None:
    corpus = read(spec, kind, bad_rows=0)
    assert (corpus.counts["read"], corpus.table.num_rows) == (read_rows, rows)


def test_snli_train_drops_what_has_no_gold_label() -> None:
    corpus = read(SNLI, Kind.LABELLED_PAIRS, bad_rows=0)
    assert corpus.counts == {"read": 100_000, "unlabelled": 110, "rows": 99_890}
    labels = corpus.table.column("label").value_counts().to_pylist()
    assert {row["values"]: row["counts"] for row in labels} == {
        "entailment": 33_385, "contradiction": 33_311, "neutral": 33_194,
    }  # fmt: skip


def test_head_and_tail_share_no_premise() -> None:
    head = read(f"{SNLI}?premises=0:3000", Kind.TRIPLETS)
    tail = read(f"{SNLI}?premises=-2000:", Kind.LABELLED_PAIRS)
    assert set(head.table.column("anchor").to_pylist()).isdisjoint(
        tail.table.column("premise").to_pylist()
    )
    assert head.counts["premises"] == 3_000
