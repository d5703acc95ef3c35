"""Parquet, Hugging Face datasets, prepared folders and fingerprints."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import datasets
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentune.corpora import SCHEMAS, Kind, read
from sentune.corpora.formats import kinds_of, read_pairs
from sentune.corpora.formats.arrow import MANIFEST
from sentune.corpora.prepare import prepare
from sentune.corpora.schema import Fingerprint, fingerprint
from sentune.errors import CorpusError, InvalidValue
from sentune.io.bounded_read import LINE_BYTES

TEXT = st.text(alphabet="aé好 ", max_size=4)


def pairs_table(rows: list[tuple[str, str, str, str | None]]) -> pa.Table:
    schema = SCHEMAS[Kind.LABELLED_PAIRS]
    return pa.table(dict(zip(schema.names, zip(*rows, strict=True), strict=True)), schema=schema)


@given(
    st.lists(st.tuples(TEXT, TEXT, TEXT, st.none() | TEXT), min_size=1, max_size=9),
    st.integers(1, 9),
)
def test_a_fingerprint_does_not_depend_on_chunks(rows: list, size: int) -> None:
    table, state = pairs_table(rows), Fingerprint(Kind.LABELLED_PAIRS)
    for batch in table.to_batches(max_chunksize=size):
        state.update(batch)
    assert state.hexdigest() == fingerprint(Kind.LABELLED_PAIRS, table)


def test_a_fingerprint_sees_every_difference() -> None:
    tables = [
        [("ab", "c", "neutral", None)],
        [("a", "bc", "neutral", None)],
        [("ab", "c", "neutral", "")],
        [("ab", "c", "neutral", None), ("", "", "", None)],
    ]
    made = {fingerprint(Kind.LABELLED_PAIRS, pairs_table(rows)) for rows in tables}
    assert len(made) == len(tables)


LABEL_LISTS = st.lists(st.lists(TEXT, max_size=3), min_size=1, max_size=9)


def labels_table(labels: list[list[str]]) -> pa.Table:
    columns = {"premise": ["p"] * len(labels), "hypothesis": ["h"] * len(labels), "labels": labels}
    return pa.table(columns, schema=SCHEMAS[Kind.SEVERAL_LABELS])


@given(LABEL_LISTS, LABEL_LISTS, st.integers(1, 9), st.integers(0, 8))
def test_a_fingerprint_sees_lists_but_not_their_chunks(
    labels: list, others: list, size: int, start: int
) -> None:
    kind, whole = Kind.SEVERAL_LABELS, labels_table(labels)
    state = Fingerprint(kind)
    for batch in whole.to_batches(max_chunksize=size):
        state.update(batch)
    assert state.hexdigest() == fingerprint(kind, whole)
    assert (fingerprint(kind, labels_table(others)) == state.hexdigest()) == (others == labels)
    part = whole.slice(start)  # an array that does not begin at its buffer's beginning
    assert fingerprint(kind, part) == fingerprint(kind, labels_table(labels[start:] or []))


SIX_KINDS: dict[Kind, list[tuple]] = {
    Kind.TRIPLETS: [("a", "b", "c")],
    Kind.LABELLED_PAIRS: [("a", "b", "neutral", None), ("a", "c", "neutral", "entailment")],
    Kind.SCORED_PAIRS: [("a", "b", 1.0, "news"), ("a", "c", 2.5, None)],
    Kind.SEVERAL_LABELS: [("a", "b", ["entailment", "neutral"]), ("a", "c", ["contradiction"])],
    Kind.CONDITIONED_PAIRS: [("a", "b", "colour", 1.0), ("a", "c", "size", 5.0)],
    Kind.SENTENCES: [("a",), ("b",), ("c",)],
}


@pytest.mark.parametrize("kind", SIX_KINDS)
def test_every_kind_goes_to_parquet_and_back(tmp_path: Path, kind: Kind) -> None:
    columns = dict(zip(SCHEMAS[kind].names, zip(*SIX_KINDS[kind], strict=True), strict=True))
    table = pa.table({name: list(values) for name, values in columns.items()}, SCHEMAS[kind])
    pq.write_table(table, tmp_path / "x.parquet")
    spec = f"parquet:{tmp_path}/x.parquet"
    assert kinds_of(spec)[0] is kind
    corpus = read(spec, kind)
    assert corpus.table == table
    manifest = prepare(spec, str(tmp_path / "out"), kind=kind, shard_rows=1)
    again = read(f"parquet:{tmp_path}/out", kind)
    assert again.table == table
    assert again.fingerprint == corpus.fingerprint == manifest["fingerprint"]
    found = read(spec, Kind.SENTENCES).table.column("text").to_pylist()
    assert found == ["a", "b", "c"]
    of_a = 1 if kind is Kind.SENTENCES else len(table)
    assert read(f"{spec}?premises=0:1", kind).table == table.slice(0, of_a)


def test_pairs_to_judge_on_by_preference(tmp_path: Path) -> None:
    columns = {"premise": ["a"], "hypothesis": ["b"], "labels": [["neutral"]]}
    columns |= {"sentence1": ["a"], "sentence2": ["b"], "score": [1.0]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    spec = f"parquet:{tmp_path}/x.parquet"
    assert read_pairs(spec).kind is Kind.SEVERAL_LABELS
    assert read_pairs(spec, prefer=Kind.SCORED_PAIRS).kind is Kind.SCORED_PAIRS
    assert read_pairs(spec, prefer=Kind.LABELLED_PAIRS).kind is Kind.SEVERAL_LABELS
    with pytest.raises(InvalidValue, match="labelled-pairs"):
        read_pairs("text:x")


def test_labels_of_foreign_parquet_are_checked(tmp_path: Path) -> None:
    labels = [["neutral", "entailment", "neutral"], [], ["maybe"], None]
    columns = {"premise": ["p"] * 4, "hypothesis": ["h"] * 4, "labels": labels}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    corpus = read(f"parquet:{tmp_path}/x.parquet", Kind.SEVERAL_LABELS)
    assert corpus.table["labels"].to_pylist() == [["entailment", "neutral"]]
    assert [(bad.line, bad.reason) for bad in corpus.quarantine] == [
        (2, "labels is not a list of labels"),
        (3, "unknown label 'maybe'"),
        (4, "labels is not a list of labels"),
    ]


def test_a_prepared_folder_reads_back_with_the_same_fingerprint(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    manifest = prepare("builtin:nli?size=100", out, kind=Kind.TRIPLETS, shard_rows=30)
    assert manifest["shards"] == [30, 30, 30, 10]
    assert manifest == json.loads(Path(out, MANIFEST).read_text(encoding="utf-8"))
    original = read("builtin:nli?size=100", Kind.TRIPLETS)
    again = read(f"parquet:{out}", Kind.TRIPLETS)
    assert again.table == original.table
    assert again.fingerprint == original.fingerprint == manifest["fingerprint"]
    assert read(f"parquet:{out}/part-00001.parquet", Kind.TRIPLETS).table.num_rows == 30
    with pytest.raises(InvalidValue, match="read as triplets, sentences"):
        read(f"parquet:{out}", Kind.SCORED_PAIRS)


def test_preparing_again_changes_nothing_and_other_content_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare("builtin:nli?size=20", str(out), kind=Kind.TRIPLETS)
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    prepare("builtin:nli?size=20", str(out), kind=Kind.TRIPLETS)
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
    with pytest.raises(CorpusError, match=r"another corpus .*size=20.*20 rows"):
        prepare("builtin:nli?size=21", str(out), kind=Kind.TRIPLETS)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(CorpusError, match="no prepared corpus"):
        prepare("builtin:nli?size=20", str(tmp_path / "other"), kind=Kind.TRIPLETS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]  # no drafts left


def test_quarantine_is_written_beside_the_shards(tmp_path: Path) -> None:
    source, out = tmp_path / "s.txt", tmp_path / "out"
    source.write_bytes(b"good\n\xff\nfine\n")
    manifest = prepare(f"text:{source}", str(out), kind=Kind.SENTENCES)
    assert manifest["counts"] == {"read": 3, "bad": 1, "rows": 2}
    (row,) = map(json.loads, (out / "quarantine.jsonl").read_text().splitlines())
    assert row == {"path": str(source), "line": 2, "reason": "invalid UTF-8 at byte 0"}
    reasons = {"invalid UTF-8 at byte 0": 1}
    assert manifest["quarantine"] == {"rows": 1, "reasons": reasons, "first": row}


def test_a_folder_may_be_a_uri(tmp_path: Path) -> None:
    prepare("builtin:nli?size=10", f"file://{tmp_path}/out", kind=Kind.TRIPLETS)
    assert read(f"parquet:file://{tmp_path}/out", Kind.TRIPLETS).table.num_rows == 10
    prepare("builtin:nli?size=10", "memory://corpora/out", kind=Kind.TRIPLETS)
    assert read("parquet:memory://corpora/out", Kind.TRIPLETS).table.num_rows == 10


def test_bad_rows_of_foreign_parquet_are_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    columns = {
        "premise": ["a", None, "c", "d"],
        "hypothesis": ["b", "b", "", "e"],
        "label": ["neutral", "neutral", "neutral", "other"],
        "more": [1, 2, 3, 4],
    }
    pq.write_table(pa.table(columns), path)
    corpus = read(f"parquet:{path}", Kind.LABELLED_PAIRS)
    assert corpus.table.to_pylist() == [
        {"premise": "a", "hypothesis": "b", "label": "neutral", "reverse_label": None}
    ]
    assert [(b.line, b.reason) for b in corpus.quarantine] == [
        (2, "premise is missing"), (3, "hypothesis is empty"), (4, "unknown label 'other'"),
    ]  # fmt: skip


def test_another_program_s_manifest_is_none_of_ours(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a cat"]}), tmp_path / "a.parquet")
    for content in ('{"name": "app"}', '{"files": []}', '[{"url": "a.parquet"}]'):
        (tmp_path / "manifest.json").write_text(content)
        assert read(f"parquet:{tmp_path}", Kind.SENTENCES).table["text"].to_pylist() == ["a cat"]
        with pytest.raises(CorpusError, match=r"no prepared corpus .*another program"):
            prepare("builtin:stories?size=2", str(tmp_path), kind=Kind.SENTENCES)


def test_no_parquet_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="there is no Parquet file"):
        read(f"parquet:{tmp_path}", Kind.SENTENCES)
    (tmp_path / "x.parquet").write_text("no such thing")
    with pytest.raises(CorpusError, match="not a Parquet file"):
        read(f"parquet:{tmp_path}", Kind.SENTENCES)


def test_a_dataset_folder_with_names_of_its_own(tmp_path: Path) -> None:
    rows = [
        {"a": "A dog runs.", "b": "An animal runs.", "gold": "Entailment"},
        {"a": "A dog runs.", "b": "Nothing runs.", "gold": "contradiction"},
        {"a": "A dog runs.", "b": "A dog barks.", "gold": "-"},
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = f"hf:{tmp_path}?columns=premise:a,hypothesis:b,label:gold"
    corpus = read(spec, Kind.LABELLED_PAIRS)
    assert corpus.table.column("label").to_pylist() == ["entailment", "contradiction"]
    assert corpus.counts == {"read": 3, "unlabelled": 1, "rows": 2}
    assert read(spec, Kind.TRIPLETS).table.num_rows == 1
    with pytest.raises(InvalidValue, match="the dataset has a, b, gold"):
        read(f"hf:{tmp_path}?columns=text:sentence", Kind.SENTENCES)
    with pytest.raises(InvalidValue, match="our columns are anchor"):
        read(f"hf:{tmp_path}?columns=premises:a", Kind.SENTENCES)
    with pytest.raises(InvalidValue, match="map its columns"):
        read(f"hf:{tmp_path}", Kind.SENTENCES)


def test_integer_labels_take_their_names_from_the_dataset(tmp_path: Path) -> None:
    label = datasets.ClassLabel(names=["entailment", "neutral", "contradiction", "-"])
    features = datasets.Features(
        {"premise": datasets.Value("string"), "hypothesis": datasets.Value("string"),
         "label": label}
    )  # fmt: skip
    rows = {"premise": [*"abcg"], "hypothesis": [*"defh"], "label": [2, 0, -1, 3]}
    folder = tmp_path / "data"
    folder.mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / "train.parquet")
    corpus = read(f"hf:{folder}", Kind.LABELLED_PAIRS)
    assert corpus.table.column("label").to_pylist() == ["contradiction", "entailment"]
    assert corpus.counts["unlabelled"] == 2


def test_lists_of_labels_of_a_dataset_are_named(tmp_path: Path) -> None:
    rows = [{"premise": "a", "hypothesis": "b", "labels": n} for n in ([1, 0], [2], [])]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = f"hf:{tmp_path}?labels=0:entailment,1:neutral,2:contradiction"
    corpus = read(spec, Kind.SEVERAL_LABELS)
    assert corpus.table["labels"].to_pylist() == [["entailment", "neutral"], ["contradiction"]]
    assert corpus.quarantine[0].reason == "labels is not a list of labels"


def test_integer_labels_without_names_need_the_option(tmp_path: Path) -> None:
    rows = [{"premise": "a", "hypothesis": "b", "label": n} for n in (0, 1, 2)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(CorpusError, match="give labels=0=entailment"):
        read(f"hf:{tmp_path}", Kind.LABELLED_PAIRS, bad_rows="0")
    spec = f"hf:{tmp_path}?labels=0:entailment,1:neutral,2:contradiction"
    labels = read(spec, Kind.LABELLED_PAIRS).table.column("label").to_pylist()
    assert labels == ["entailment", "neutral", "contradiction"]


CLASSES = [1, 0, 12, -1]
CLASS_FILES = {
    "csv": "text,label\n" + "".join(f"t{n},{n}\n" for n in CLASSES),
    "tsv": "text\tlabel\n" + "".join(f"t{n}\t{n}\n" for n in CLASSES),
    "jsonl": "".join(f'{{"text": "t{n}", "label": {n}}}\n' for n in CLASSES),
}


@pytest.mark.parametrize("name", CLASS_FILES)
def test_classes_of_sentences_are_numbers_or_any_names(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"classes.{name}"
    file.write_text(CLASS_FILES[name])
    pq.write_table(
        pa.table({"text": [f"t{n}" for n in CLASSES], "label": CLASSES}), tmp_path / "classes"
    )
    corpus = read(f"{name}:{file}", Kind.CLASSIFIED)
    assert corpus.table["label"].to_pylist() == ["1", "0", "12", "-1"]
    assert corpus.fingerprint == read(f"parquet:{tmp_path}/classes", Kind.CLASSIFIED).fingerprint
    named = read(f"{name}:{file}?labels=0=Angry,1=Glad", Kind.CLASSIFIED)
    assert named.table["label"].to_pylist() == ["Glad", "Angry", "12", "-1"]


def test_classes_of_a_dataset_keep_their_names(tmp_path: Path) -> None:
    label = datasets.ClassLabel(names=["Angry", "Glad"])
    features = datasets.Features({"text": datasets.Value("string"), "label": label})
    rows = {"text": ["a", "b", "c"], "label": [1, 0, -1]}
    folder = tmp_path / "data"
    folder.mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / "train.parquet")
    corpus = read(f"hf:{folder}", Kind.CLASSIFIED)
    assert corpus.table["label"].to_pylist() == ["Glad", "Angry"]
    assert corpus.counts["unlabelled"] == 1


def test_labels_of_pairs_are_ours(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("premise,hypothesis,label\na,b,1\n")
    with pytest.raises(InvalidValue, match=r"Glad.*our labels are entailment"):
        read(f"csv:{file}?labels=1=Glad", Kind.LABELLED_PAIRS)


def test_a_dataset_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="datasets cannot load it"):
        read(f"hf:{tmp_path}/none", Kind.SENTENCES)


FILES = {
    "csv": 'a,b,gold\n"A dog, old, runs.",NA,0\nIt rains.,"12",1\nA cat.,,0\n',
    "tsv": "a\tb\tgold\nA dog, old, runs.\tNA\t0\nIt rains.\t12\t1\nA cat.\t\t0\n",
    "jsonl": '{"a": "A dog, old, runs.", "b": "NA", "gold": 0}\n'
    '{"a": "It rains.", "b": "12", "gold": 1}\n{"a": "A cat.", "b": "", "gold": 0}\n',
    "json": '[{"a": "A dog, old, runs.", "b": "NA", "gold": 0},'
    '{"a": "It rains.", "b": "12", "gold": 1}, {"a": "A cat.", "b": "", "gold": 0}]',
}
NAMED = "columns=premise=a,hypothesis=b,label=gold&labels=0=entailment,1=contradiction"


@pytest.mark.parametrize("name", FILES)
def test_any_file_with_named_columns_is_a_corpus(tmp_path: Path, name: str) -> None:
    """Cells are texts as they stand; a bad row is told by its line, in an array by its number."""
    file = tmp_path / f"pairs.{name}"
    file.write_text(FILES[name])
    corpus = read(f"{name}:{file}?{NAMED}", Kind.LABELLED_PAIRS)
    assert corpus.table["premise"].to_pylist() == ["A dog, old, runs.", "It rains."]
    assert corpus.table["hypothesis"].to_pylist() == ["NA", "12"]
    assert corpus.table["label"].to_pylist() == ["entailment", "contradiction"]
    assert [row.line for row in corpus.quarantine] == [4 if name in ("csv", "tsv") else 3]
    with pytest.raises(InvalidValue, match="the dataset has a, b, gold"):
        read(f"{name}:{file}?columns=premise=x", Kind.LABELLED_PAIRS)


SCORES = "sentence1,sentence2,score\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("csv", b"a,b,c\n1,2,0\n1,2,3,0\n", r":3: 4 columns, but the header has 3"),
        ("csv", b"a,b,c\n1,2,0\n\xe9,2,0\n", r":3: invalid UTF-8 at byte 0"),
        ("csv", "a,b\n".encode("utf-16"), r":1: the file is UTF-16; convert it"),
        ("csv", b'a,b,c\n"1,2,0\n1,2,0\n', r":2: the quotes are damaged.*ends in line 3"),
        ("csv", b'a,b,c\n"1,2,0\nx,y,0\n"1,2",0\n', r":2: the quotes are damaged.*ends in line 4"),
        ("csv", b'a,b,c\n"1,2,0\nx,y,0\n",1,2",0\n', r":2: .*4 columns, but the header has 3"),
        ("csv", b"a,a,b,c\n", "the header has a more than once"),
        ("csv", b"a,b,c\n", "no labelled-pairs are left of 0 rows"),
        ("jsonl", b'{"a": 1\n', r":1: not valid JSON"),
        ("jsonl", b"", "the file is empty"),
        ("tsv", b"", "the file is empty"),
        ("json", b"\xff\xfe", "the file is UTF-16"),
        ("json", b'[{"a": 1}', "not valid JSON: Expecting"),
        ("json", b'[{"a": "\xe9"}]', "invalid UTF-8 at byte 8"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_one_error(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    file = tmp_path / f"pairs.{name}"
    file.write_bytes(content)
    spec = f"{name}:{file}?columns=premise=a,hypothesis=b,label=c&bad_rows=0"
    with pytest.raises(CorpusError, match=f"pairs.{name}.*{said}"):
        read(f"{spec}&labels=0=neutral", Kind.LABELLED_PAIRS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("csv", "a;b;c\n1;2;0\n", r"its header is one column, 'a;b;c'; csv: needs commas, and tsv"),
        ("tsv", "a,b,c\n1,2,0\n", r"its header is one column, 'a,b,c'"),
        ("csv", "z,b,c\n1,2,0\n", r"map its columns \(z, b, c\) to ours, such as columns=premise="),
    ],
)  # fmt: skip
def test_columns_of_no_kind_are_named_with_the_fix(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / "pairs").write_text(content)
    with pytest.raises(InvalidValue, match=said):
        read(f"{name}:{tmp_path}/pairs", Kind.LABELLED_PAIRS)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"premise,hypothesis,label\na,b,1.0\n", r"label 1\.0 has no name; give labels=1\.0="),
        (b"premise,hypothesis,label\na,b,\n", "label is missing"),
        (b"premise,hypothesis,label\n\xe9,b,neutral\n", "Latin-1, convert it: iconv -f LATIN1"),
    ],
)
def test_typical_bad_rows_are_named_with_the_fix(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "pairs").write_bytes(content)
    with pytest.raises(CorpusError, match=f"pairs:2: .*{said}"):
        read(f"csv:{tmp_path}/pairs?bad_rows=0", Kind.LABELLED_PAIRS)


def test_rows_of_another_width_never_shift_columns(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(SCORES + "a,b,1,\nc,d,2\n")
    corpus = read(f"csv:{file}", Kind.SCORED_PAIRS)
    assert corpus.table["sentence1"].to_pylist() == ["c"]
    assert [str(row) for row in corpus.quarantine] == [f"{file}:2: 4 columns, but the header has 3"]


def test_quotes_of_tsv_are_literal(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text(SCORES.replace(",", "\t") + '"Start\tb\t1\n\nc\td\t2\n"Again\te\t3\n')
    corpus = read(f"tsv:{file}", Kind.SCORED_PAIRS)
    assert corpus.table["sentence1"].to_pylist() == ['"Start', "c", '"Again']
    assert corpus.counts == {"read": 4, "blank": 1, "rows": 3}


def test_objects_of_a_file_may_differ(tmp_path: Path) -> None:
    """Types, keys and blank lines: each object counts for itself."""
    file = tmp_path / "pairs.jsonl"
    rows = [
        {"sentence1": "2020-01-01", "sentence2": "b", "score": 1, "subset": None},
        {"sentence1": "c", "sentence2": "d", "score": 1.5, "more": {}},
        {"sentence1": "e", "sentence2": "f", "score": "2", "subset": "x"},
        {"sentence1": "g", "sentence2": "h"},
        ["no object"],
    ]
    file.write_text("\n\n".join(map(json.dumps, rows)))
    corpus = read(f"jsonl:{file}", Kind.SCORED_PAIRS)
    assert corpus.table["score"].to_pylist() == [1, 1.5, 2]
    assert corpus.table["subset"].to_pylist() == [None, None, "x"]
    assert [row.line for row in corpus.quarantine] == [7, 9]


def test_a_cell_and_an_array_may_be_long(tmp_path: Path) -> None:
    """Longer than the csv module's limit of a field, than the longest line that is read."""
    csv_file, array = tmp_path / "pairs.csv", tmp_path / "pairs.json"
    csv_file.write_text(SCORES + f"{'a' * 200_000},b,1\n")
    assert read(f"csv:{csv_file}", Kind.SCORED_PAIRS).table.num_rows == 1
    row = {"sentence1": "a" * LINE_BYTES, "sentence2": "b", "score": 1}
    array.write_text(json.dumps([row, row]))
    assert read(f"json:{array}", Kind.SCORED_PAIRS).table.num_rows == 2


def test_compressed_and_remote_files_with_named_columns(tmp_path: Path) -> None:
    content = gzip.compress((SCORES + "a,b,1\n" * 5_000).encode())
    with fsspec.open("memory://named/pairs.csv.gz", "wb") as stream:
        stream.write(content)
    remote = read("csv:memory://named/pairs.csv.gz", Kind.SCORED_PAIRS)
    assert remote.table.num_rows == 5_000
    (tmp_path / "pairs.csv.gz").write_bytes(content[:-20])
    with pytest.raises(CorpusError, match="the compressed file is damaged"):
        read(f"csv:{tmp_path}/pairs.csv.gz", Kind.SCORED_PAIRS)


UNLABELLED = {
    "csv": "premise,hypothesis,label\na,b,0\nc,d,-1\ne,f,-\n",
    "tsv": "premise\thypothesis\tlabel\na\tb\t0\nc\td\t-1\ne\tf\t-\n",
    "jsonl": "".join(
        f'{{"premise": "a", "hypothesis": "b", "label": {label}}}\n'
        for label in ("0", "-1", '"-1"', '"-"')
    ),
}


@pytest.mark.parametrize("name", UNLABELLED)
def test_minus_one_is_no_label_in_any_file(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"pairs.{name}"
    file.write_text(UNLABELLED[name])
    corpus = read(f"{name}:{file}?labels=0=neutral", Kind.LABELLED_PAIRS)
    rows = len(UNLABELLED[name].splitlines()) - (name != "jsonl")
    assert corpus.counts == {"read": rows, "unlabelled": rows - 1, "rows": 1}


def test_rows_of_parquet_without_a_label(tmp_path: Path) -> None:
    columns = {"premise": ["a", "c", "e"], "hypothesis": ["b", "d", "f"]}
    pq.write_table(pa.table({**columns, "label": ["-", "neutral", "-1"]}), tmp_path / "texts")
    counts = read(f"parquet:{tmp_path}/texts", Kind.LABELLED_PAIRS).counts
    assert counts == {"read": 3, "unlabelled": 2, "rows": 1}
    pq.write_table(pa.table({**columns, "label": [-1, 0, 1]}), tmp_path / "numbers")
    with pytest.raises(CorpusError, match=r"1 unlabelled.*label 0 has no name.*texts"):
        read(f"parquet:{tmp_path}/numbers", Kind.LABELLED_PAIRS)


def test_parquet_without_the_columns_of_a_kind_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": ["a"], "y": ["b"]}), tmp_path / "foreign")
    with pytest.raises(InvalidValue, match=r"foreign.*its columns \(x, y\)"):
        kinds_of(f"parquet:{tmp_path}/foreign")


def test_hidden_files_of_a_folder_of_parquet_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / ".data"
    folder.mkdir()
    pq.write_table(pa.table({"text": ["a"]}), folder / "a.parquet")
    (folder / "._a.parquet").write_bytes(b"no such thing")
    assert read(f"parquet:{folder}", Kind.SENTENCES).table.num_rows == 1


def test_a_dataset_that_was_saved_to_disk(tmp_path: Path) -> None:
    label = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    rows = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [2, -1]}
    text = datasets.Value("string")
    features = datasets.Features({"premise": text, "hypothesis": text, "label": label})
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "saved")
    corpus = read(f"hf:{tmp_path}/saved", Kind.LABELLED_PAIRS)
    assert corpus.table["label"].to_pylist() == ["contradiction"]
    assert corpus.counts == {"read": 2, "unlabelled": 1, "rows": 1}
    with pytest.raises(CorpusError, match="saved using `save_to_disk`") as error:
        read(f"hf:{tmp_path}/saved?split=test", Kind.LABELLED_PAIRS)
    assert str(error.value).count("datasets cannot load it") == 1


@pytest.mark.parametrize("name", ["text", "csv", "jsonl", "parquet"])
def test_a_protocol_that_nothing_knows(name: str) -> None:
    with pytest.raises(InvalidValue, match=r"foo://x.*Protocol not known"):
        read(f"{name}:foo://x", Kind.SENTENCES)


def test_a_file_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="there is no such file"):
        read(f"csv:{tmp_path}/none.csv", Kind.SENTENCES)
