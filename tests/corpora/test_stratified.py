"""A part of a corpus: every stratum has its share, and the part poses the corpus's tasks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentune.corpora import SCHEMAS, Corpus, Kind
from sentune.corpora.stratified import stratified_part, stratified_rows
from sentune.tasks import tasks_for


def corpus(kind: Kind, **columns: list[Any]) -> Corpus:
    rows = len(next(iter(columns.values())))
    texts = {name: [f"{name} {i}" for i in range(rows)] for name in SCHEMAS[kind].names}
    given = {name: columns.get(name, text) for name, text in texts.items()}
    table = pa.table(given, schema=SCHEMAS[kind])
    return Corpus(spec="snli:made", kind=kind, table=table, fingerprint="")


def labelled(labels: list[str]) -> Corpus:
    return corpus(Kind.LABELLED_PAIRS, label=labels, reverse_label=[None] * len(labels))


@given(
    st.lists(st.sampled_from(["entailment", "neutral", "contradiction"]), min_size=1, max_size=300),
    st.integers(1, 300),
    st.integers(0, 3),
)
def test_a_stratum_has_its_share_and_at_least_one_row(labels: list[str], rows: int, seed: int):
    places = stratified_rows(labelled(labels), rows, seed)
    assert places.tolist() == sorted(set(places.tolist()))
    if rows >= len(labels):
        assert len(places) == len(labels)
        return
    counts, found = Counter(labels), Counter(labels[i] for i in places)
    # a label is one of the strata here, and up to three by length; each is off by less than one
    for label, count in counts.items():
        assert found[label] >= 1
        assert abs(found[label] - count * rows / len(labels)) < 4


def test_rare_labels_keep_enough_rows_for_nested_folds():
    labels = ["rare"] * 20 + ["rarer"] * 13 + ["usual"] * 5_000
    rows = corpus(Kind.CLASSIFIED, split=[None] * len(labels), label=labels)
    part = stratified_part(rows, 500)
    counts = Counter(part.table["label"].to_pylist())
    assert (counts["rare"], counts["rarer"]) == (12, 12)
    assert abs(counts["usual"] - 500) <= 5


def test_the_same_size_and_seed_take_the_same_rows():
    one = labelled(["entailment", "neutral"] * 200)
    assert stratified_rows(one, 50, 1).tolist() == stratified_rows(one, 50, 1).tolist()
    assert stratified_rows(one, 50, 1).tolist() != stratified_rows(one, 50, 2).tolist()


def test_scores_are_taken_evenly():
    scores = np.random.default_rng(0).exponential(size=2_000)
    pairs = corpus(Kind.SCORED_PAIRS, score=scores.tolist(), subset=[None] * 2_000)
    taken = scores[stratified_rows(pairs, 200)]
    edges = np.quantile(scores, np.linspace(0, 1, 11)[1:-1])
    deciles = np.bincount(np.searchsorted(edges, taken), minlength=10)
    assert set(deciles) <= {19, 20, 21, 22}, "an even share, and the first of each stratum"


def test_rows_of_a_transfer_task_keep_shares_of_splits_and_labels():
    splits, labels = ["train"] * 800 + ["test"] * 200, ["a", "b", "b", "b"] * 250
    part = stratified_part(corpus(Kind.CLASSIFIED, split=splits, label=labels), 100).table
    found = Counter(zip(part["split"].to_pylist(), part["label"].to_pylist(), strict=True))
    assert abs(found["train", "b"] - 60) <= 1
    assert abs(found["test", "a"] - 5) <= 1
    related = corpus(Kind.RELATED, split=splits, score=[i % 5 for i in range(1000)])
    assert Counter(stratified_part(related, 100).table["split"].to_pylist())["test"] in range(
        15, 26
    )


@pytest.mark.parametrize("odd", [0.0, 5.0])
def test_the_only_row_of_another_score_or_label_is_in_the_part(odd: float):
    scores = [2.5] * 999 + [odd]
    part = stratified_part(corpus(Kind.SCORED_PAIRS, score=scores, subset=[None] * 1000), 10)
    assert set(part.table["score"].to_pylist()) == {2.5, odd}
    pairs = stratified_part(labelled(["neutral"] * 999 + ["entailment"]), 10)
    assert [task.name for task in tasks_for(pairs)] == ["rte", "direction"]


def test_a_corpus_of_another_kind_or_of_no_more_rows_stays_as_it_is():
    queries = corpus(Kind.QUERIES, relevant=[["a"]] * 50)
    few = labelled(["entailment", "neutral"])
    assert stratified_part(queries, 10) is queries
    assert stratified_part(few, 2) is few
