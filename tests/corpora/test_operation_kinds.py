"""Kinds made of operations, and all newer kinds through prepared folders."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentune.corpora import Kind, read
from sentune.corpora.formats import kinds_of, read_pairs
from sentune.corpora.prepare import prepare
from sentune.corpora.schema import SCHEMAS, fingerprint
from sentune.errors import InvalidValue

ROWS = [
    ("fusion", "A b", "A c", "A b and c"),
    ("difference", "A d and e", "A d", "A e"),
    ("compression", "A b", None, "A"),
    ("reconstruction", "A", None, "A"),
    ("reconstruction", "A b", None, "B a"),
]

EXAMPLES: dict[Kind, list[tuple]] = {
    Kind.OPERATIONS: ROWS,
    Kind.SENTENCE_PAIRS: [("a", "b"), ("c d", "é")],
    Kind.ADJACENT_SENTENCES: [("a", "b"), ("b", "c")],
    Kind.CLASSIFIED: [
        ("a", None, "1", None),
        ("b", "a", "yes", "train"),
        ("c", None, "no", "test"),
    ],
    Kind.RELATED: [("a", "b", 1.5, "train"), ("a", "c", 4.0, "dev")],
    Kind.QUERIES: [("q1", "a", ["d2", "d1"]), ("q2", "b", ["d3"])],
}
SENTENCES = {
    Kind.OPERATIONS: [
        "A b", "A c", "A b and c", "A d and e", "A d", "A e", "A", "B a",
    ],
    Kind.SENTENCE_PAIRS: ["a", "b", "c d", "é"],
    Kind.ADJACENT_SENTENCES: ["a", "b", "c"],
    Kind.CLASSIFIED: ["a", "b", "c"],
    Kind.RELATED: ["a", "b", "c"],
    Kind.QUERIES: ["a", "b"],
}  # fmt: skip


def table(kind: Kind) -> pa.Table:
    columns = zip(*EXAMPLES[kind], strict=True)
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, SCHEMAS[kind], strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMAS[kind])


def own(tmp_path: Path) -> str:
    names = SCHEMAS[Kind.OPERATIONS].names
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS]
    (tmp_path / "x.jsonl").write_text("".join(lines))
    return f"operations:{tmp_path}/x.jsonl"


def test_pairs_of_the_supervised_contrastive_baseline(tmp_path: Path) -> None:
    corpus = read(own(tmp_path), Kind.SENTENCE_PAIRS)
    assert [tuple(row.values()) for row in corpus.table.to_pylist()] == [
        ("A b A c", "A b and c"), ("A d and e", "A d A e"), ("A b", "A"), ("A b", "B a"),
    ]  # fmt: skip
    assert corpus.counts == {"read": 5, "equal_pairs": 1, "rows": 4}


def test_slices_by_first_sentence_look_at_the_sentence(tmp_path: Path) -> None:
    corpus = read(f"{own(tmp_path)}?premises=0:1", Kind.OPERATIONS)
    assert [row["target"] for row in corpus.table.to_pylist()] == ["A b and c", "A", "B a"]


def test_operations_are_what_is_judged_on(tmp_path: Path) -> None:
    corpus = read_pairs(own(tmp_path))
    assert (corpus.kind, corpus.table.num_rows) == (Kind.OPERATIONS, 5)
    with pytest.raises(InvalidValue, match="read as operations, sentence-pairs, sentences"):
        read(own(tmp_path), Kind.TRIPLETS)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_newer_kinds_go_through_prepared_folders_unchanged(tmp_path: Path, kind: Kind) -> None:
    original = table(kind)
    pq.write_table(original, tmp_path / "x.parquet")
    corpus = read(f"parquet:{tmp_path}/x.parquet", kind, bad_rows="0")
    assert corpus.table.equals(original)
    assert corpus.fingerprint == fingerprint(kind, original)
    out = tmp_path / "out"
    manifest = prepare(f"parquet:{tmp_path}/x.parquet", str(out), kind=kind, shard_rows=2)
    again = read(f"parquet:{out}", kind)
    assert again.table.equals(original)
    assert again.fingerprint == corpus.fingerprint == manifest["fingerprint"]
    assert kinds_of(f"parquet:{out}")[0] is kind
    sentences = read(f"parquet:{out}", Kind.SENTENCES)
    assert sentences.table["text"].to_pylist() == SENTENCES[kind]


@pytest.mark.parametrize("kind", [Kind.OPERATIONS, Kind.CLASSIFIED, Kind.RELATED, Kind.QUERIES])
def test_kinds_that_tasks_are_made_of_are_found_again(tmp_path: Path, kind: Kind) -> None:
    pq.write_table(table(kind), tmp_path / "x.parquet")
    prepare(f"parquet:{tmp_path}/x.parquet", str(tmp_path / "out"), kind=kind)
    assert read_pairs(f"parquet:{tmp_path}/out").kind is kind


def test_builtin_operations_prepared_in_shards(tmp_path: Path) -> None:
    spec, out = "builtin:operations?size=90", str(tmp_path / "out")
    manifest = prepare(spec, out, kind=Kind.OPERATIONS, shard_rows=40)
    assert manifest["shards"] == [40, 40, 10]
    for kind in kinds_of(spec):
        assert read(f"parquet:{out}", kind).fingerprint == read(spec, kind).fingerprint


@pytest.mark.parametrize(
    ("kind", "name", "values", "reason"),
    [
        (Kind.OPERATIONS, "operation", ["merge", *(row[0] for row in ROWS[1:])],
         "unknown operation 'merge'"),
        (Kind.OPERATIONS, "second", [None, *(row[2] for row in ROWS[1:])], "second is missing"),
        (Kind.CLASSIFIED, "split", ["all", None, None],
         "split is 'all', not one of train, dev, test"),
        (Kind.CLASSIFIED, "label", ["", "1", "2"], "label is empty"),
        (Kind.RELATED, "split", [None, "dev"], "split is None, not one of train, dev, test"),
        (Kind.QUERIES, "relevant", [[], ["d"]], "relevant is not a list of ids"),
        (Kind.QUERIES, "relevant", [["d", " "], ["d"]], "an id of relevant is empty"),
    ],
)  # fmt: skip
def test_bad_values_of_foreign_parquet(
    tmp_path: Path, kind: Kind, name: str, values: list, reason: str
) -> None:
    good = table(kind)
    place = good.schema.get_field_index(name)
    column = pa.array(values, type=good.schema.field(name).type)
    pq.write_table(good.set_column(place, name, column), tmp_path / "x.parquet")
    corpus = read(f"parquet:{tmp_path}/x.parquet", kind)
    assert [(row.line, row.reason) for row in corpus.quarantine] == [(1, reason)]
    assert corpus.table.num_rows == good.num_rows - 1


def test_classes_of_foreign_parquet_may_be_numbers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"], "label": [1, 0]}), tmp_path / "x.parquet")
    spec = f"parquet:{tmp_path}/x.parquet"
    assert kinds_of(spec) == (Kind.CLASSIFIED, Kind.SENTENCES)
    assert read(spec, Kind.CLASSIFIED).table["label"].to_pylist() == ["1", "0"]
    assert read(spec, Kind.SENTENCES).table["text"].to_pylist() == ["a", "b"]


def test_pairs_with_a_condition_are_neither_scored_nor_related(tmp_path: Path) -> None:
    names = ("sentence1", "sentence2", "condition", "split")
    columns = {name: ["a"] for name in names} | {"score": [1.0]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    assert kinds_of(f"parquet:{tmp_path}/x.parquet") == (Kind.CONDITIONED_PAIRS, Kind.SENTENCES)


def test_a_null_and_an_empty_text_have_other_fingerprints() -> None:
    with_null = table(Kind.CLASSIFIED)
    place = with_null.schema.get_field_index("second")
    empty = with_null.set_column(place, with_null.schema.field(place), [["", "a", ""]])
    assert fingerprint(Kind.CLASSIFIED, empty) != fingerprint(Kind.CLASSIFIED, with_null)
