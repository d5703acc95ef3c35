"""Reference sentences: prefixes of one shuffled list, without duplicates."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.tasks.references import References, kind_of_references


def triplets(rows: int) -> pa.Table:
    """Each anchor twice, each negative everywhere."""
    return pa.table(
        {
            "anchor": [f"a{i // 2}" for i in range(rows)],
            "positive": [f"p{i}" for i in range(rows)],
            "negative": ["none"] * rows,
        }
    )


def test_a_corpus_that_has_triplets_gives_those() -> None:
    assert kind_of_references("snli:any.jsonl") is Kind.TRIPLETS
    assert kind_of_references("builtin:nli") is Kind.TRIPLETS
    assert kind_of_references("csts:any.csv") is Kind.CONDITIONED_PAIRS


def test_a_larger_n_contains_the_smaller_ones() -> None:
    table = triplets(50)
    some, more = (References.sample(table, counts, seed=3) for counts in [(4, 10), (30, 4, 10)])
    assert some.counts == (4, 10)
    assert more.counts == (4, 10, 30)
    assert more.sentences[: some.sizes[10]] == some.sentences
    assert {n: more.sizes[n] for n in (4, 10)} == some.sizes
    assert len(more.sentences) == more.sizes[30] == len(set(more.sentences))


def test_the_sentences_of_n_are_those_of_n_rows() -> None:
    found = References.sample(triplets(50), (7, 50), seed=0)
    first = set(found.sentences[: found.sizes[7]])
    assert sum(s.startswith("p") for s in first) == 7
    assert "none" in first
    rows = [int(s[1:]) for s in first if s.startswith("p")]
    assert {f"a{i // 2}" for i in rows} == {s for s in first if s.startswith("a")}
    assert rows != sorted(rows)
    assert len(found.sentences) == found.sizes[50] == 50 + 25 + 1


def test_the_seed_decides_the_order() -> None:
    one, same, other = (References.sample(triplets(50), (20,), seed) for seed in (1, 1, 2))
    assert one == same
    assert one.sentences != other.sentences


def test_a_row_gives_its_sentences_in_order_and_neither_labels_nor_conditions() -> None:
    labelled = pa.table({"premise": ["p"], "hypothesis": ["h"], "label": ["entailment"]})
    assert References.sample(labelled, (1,), 0).sentences == ("p", "h")
    conditioned = pa.table({"sentence1": ["s"], "sentence2": ["t"], "condition": ["c"]})
    assert References.sample(conditioned, (1,), 0).sentences == ("s", "t")


def test_counts_above_the_rows_become_the_rows_once() -> None:
    found = References.sample(triplets(8), (5, 10, 100), seed=0)
    assert found.counts == (5, 8)
    assert found.within((5, 9, 1000)) == (5, 8)
    assert found.within((1000,)) == (8,)


def test_what_cannot_be() -> None:
    found = References.sample(triplets(8), (5, 8), seed=0)
    with pytest.raises(InvalidValue, match="drawn for 5, 8"):
        found.within((6,))
    for counts in [(), (0, 5)]:
        with pytest.raises(InvalidValue, match="references"):
            References.sample(triplets(8), counts, seed=0)
    for table in [triplets(0), pa.table({"label": ["entailment"]})]:
        with pytest.raises(InvalidValue, match="references"):
            References.sample(table, (5,), seed=0)
