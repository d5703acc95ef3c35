"""Row counts of the real corpora in the folder that SENTUNE_DATA names."""

from __future__ import annotations

import os
from collections import Counter
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
        (f"sts:{DATA}/sts/STS2012-gold", Kind.SCORED_PAIRS, 3_108, 3_108),
        (f"sts:{DATA}/sts/STS2013-gold", Kind.SCORED_PAIRS, 2_250, 1_500),
        (f"sts:{DATA}/sts/STS2013-gold?subsets=all", Kind.SCORED_PAIRS, 2_250, 2_250),
        (f"sts:{DATA}/sts/STS2014-gold", Kind.SCORED_PAIRS, 3_750, 3_750),
        (f"ambient:{DATA}/ambient/dev.jsonl", Kind.SEVERAL_LABELS, 100, 100),
        (f"chaosnli:{DATA}/chaosnli/chaosNLI_snli.jsonl", Kind.SEVERAL_LABELS, 1_514, 1_514),
    ],
)  # fmt: skip
def test_every_row_is_read(spec: str, kind: Kind, read_rows: int, rows: int) -> None:
    corpus = read(spec, kind, bad_rows="0")
    assert (corpus.counts["read"], corpus.table.num_rows) == (read_rows, rows)


def test_snli_train_drops_what_has_no_gold_label() -> None:
    corpus = read(SNLI, Kind.LABELLED_PAIRS, bad_rows="0")
    assert corpus.counts == {"read": 100_000, "unlabelled": 110, "rows": 99_890}
    labels = corpus.table.column("label").value_counts().to_pylist()
    assert {row["values"]: row["counts"] for row in labels} == {
        "entailment": 33_385, "contradiction": 33_311, "neutral": 33_194,
    }  # fmt: skip


def labels_of(spec: str) -> Counter[str]:
    """How many rows have which labels, each by its first letter."""
    lists = read(spec, Kind.SEVERAL_LABELS, bad_rows="0").table.column("labels").to_pylist()
    return Counter("".join(label[0] for label in labels) for labels in lists)


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        (f"ambient:{DATA}/ambient/dev.jsonl",
         {"n": 40, "en": 19, "e": 17, "nc": 13, "c": 7, "ec": 2, "enc": 2}),
        (f"chaosnli:{DATA}/chaosnli/chaosNLI_snli.jsonl",
         {"en": 449, "n": 397, "nc": 299, "e": 211, "c": 117, "ec": 22, "enc": 19}),
        (f"{SNLI}?votes=2",
         {"c": 2196, "e": 2042, "n": 1936, "en": 407, "nc": 307, "ec": 45}),
    ],
)  # fmt: skip
def test_labels_of_several_annotators(spec: str, counts: dict[str, int]) -> None:
    assert labels_of(spec) == counts


def test_annotated_rows_of_snli_are_held_out_with_their_premises() -> None:
    corpus = read(f"{SNLI}?annotators=none", Kind.LABELLED_PAIRS, bad_rows="0")
    assert corpus.counts == {
        "read": 100_000, "unlabelled": 110, "of_annotated_premises": 20_395, "rows": 79_495,
    }  # fmt: skip
    annotated = read(f"{SNLI}?votes=1", Kind.SEVERAL_LABELS, bad_rows="0").table
    assert annotated.num_rows == 6_933
    premises = set(annotated["premise"].to_pylist())
    assert len(premises) == 6_798
    assert premises.isdisjoint(corpus.table["premise"].to_pylist())


def test_subsets_of_real_files() -> None:
    year = read(f"sts:{DATA}/sts/STS2014-gold", Kind.SCORED_PAIRS).table["subset"].to_pylist()
    assert Counter(year) == {
        "OnWN": 750, "deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750,
        "tweet-news": 750,
    }  # fmt: skip
    dev = read(f"stsb:{DATA}/stsbenchmark/sts-dev.csv", Kind.SCORED_PAIRS).table["subset"]
    assert Counter(dev.to_pylist()) == {
        "main-captions": 625, "main-forums": 375, "main-news": 500,
    }  # fmt: skip


def test_head_and_tail_share_no_premise() -> None:
    head = read(f"{SNLI}?premises=0:3000", Kind.TRIPLETS)
    tail = read(f"{SNLI}?premises=-2000:", Kind.LABELLED_PAIRS)
    assert set(head.table.column("anchor").to_pylist()).isdisjoint(
        tail.table.column("premise").to_pylist()
    )
    assert head.counts["premises"] == 3_000
