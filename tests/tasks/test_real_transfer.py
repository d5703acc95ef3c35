"""SentEval's own files in the folder that SENTUNE_DATA names."""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import pytest
import torch
from torch import Tensor

from sentune.corpora import read
from sentune.geometry import Points
from sentune.tasks.base import Model
from sentune.tasks.transfer import TRANSFER, Transfer

DATA = Path(os.environ.get("SENTUNE_DATA", "no-data"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="SENTUNE_DATA names no folder of corpora")


@pytest.mark.parametrize(
    ("task", "folder", "counts"),
    [
        ("mr", "senteval", {"read": 10_662, "rows": 10_662}),
        ("cr", "senteval", {"read": 3_775, "blank": 4, "rows": 3_771}),
        ("subj", "senteval", {"read": 10_000, "rows": 10_000}),
        ("sst2", "senteval", {"train": 6_920, "dev": 872, "test": 1_821, "rows": 9_613}),
        ("trec", "senteval", {"train": 5_452, "test": 500, "rows": 5_952}),
        ("sick-e", "sick", {"train": 4_439, "dev": 495, "test": 0, "rows": 4_934}),
        ("sick-r", "sick", {"train": 4_439, "dev": 495, "test": 0, "rows": 4_934}),
        ("stsb-supervised", "stsbenchmark", {"train": 5_749, "dev": 1_500, "rows": 7_249}),
    ],
)
def test_every_row_is_read(task: str, folder: str, counts: dict[str, int]) -> None:
    corpus = read(f"senteval:{DATA / folder}?task={task}", TRANSFER[task], bad_rows="0")
    assert counts.items() <= corpus.counts.items()
    assert corpus.table.num_rows == counts["rows"]


def words(sentences: list[str]) -> Tensor:
    """Counts of words in 64 buckets."""
    counts = torch.zeros(len(sentences), 64)
    for row, sentence in zip(counts, sentences, strict=True):
        for word in sentence.lower().split():
            row[crc32(word.encode()) % 64] += 1
    return counts


def test_words_tell_questions_apart() -> None:
    """The commonest of 6 labels is right for 18.8 % of TREC's test questions."""
    corpus = read(f"senteval:{DATA}/senteval?task=trec", TRANSFER["trec"])
    task = Transfer(corpus, "trec", folds=3)
    result = task.run(Model(embed=words, geometry=Points()))
    assert task.majority() == pytest.approx(0.188)
    assert result.metrics["trec/accuracy"] > 0.5
    assert result.metrics["trec/dev_accuracy"] == pytest.approx(
        max(result.tables["trec/regularisation.json"]["dev_accuracy"]), abs=1e-4
    )
