"""What a job trains on, selects on and tests on has to be apart, and a refusal leaves nothing."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from sentune.cli import app
from sentune.corpora.overlap import same_rows, shared_rows
from sentune.corpora.prepare import prepared
from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.errors import CorpusError, InvalidValue
from sentune.geometry import Points
from sentune.job import corpora
from sentune.job.corpora import prepared_corpora, print_overlap, refuse_equal_corpora
from sentune.job.options import JobOptions
from sentune.tasks import evaluate, read_judged, read_selected, tasks_for


def corpus(kind: Kind, *rows: tuple[object, ...], spec: str = "snli:dev") -> Corpus:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, SCHEMAS[kind], strict=True)]
    table = pa.Table.from_arrays(arrays, schema=SCHEMAS[kind])
    return Corpus(spec=spec, kind=kind, table=table, fingerprint="f")


PAIRS = corpus(
    Kind.LABELLED_PAIRS,
    ("a cat sits", "an animal sits", "entailment", None),
    ("a cat sits", "a cat runs", "contradiction", None),
    ("a cat sits", "a cat purrs", "neutral", None),
    ("an animal sits", "a cat sits", "neutral", None),
)


@pytest.mark.parametrize(
    ("kind", "rows", "shared"),
    [
        (Kind.TRIPLETS, [("a cat sits", "an animal sits", "a cat runs")], 2),
        (Kind.LABELLED_PAIRS, [("a cat sits", "an animal sits", "neutral", None)], 1),
        (Kind.SENTENCE_PAIRS, [("an animal sits", "a cat sits")], 1),
        (Kind.SENTENCES, [("a cat sits",), ("a cat runs",), ("an animal sits",)], 3),
        (Kind.OPERATIONS, [("fusion", "a cat sits", "a cat purrs", "x")], 1),
        (Kind.OPERATIONS, [("compression", "a cat sits", None, "x")], 0),
        (Kind.TRIPLETS, [("a dog sits", "an animal sits", "a cat runs")], 0),
    ],
)
def test_rows_are_shared_by_their_sentences(kind: Kind, rows: list, shared: int) -> None:
    train = corpus(kind, *rows)
    found = shared_rows(PAIRS, kind, train.table.to_batches())
    assert (found.rows, found.of, found.compared) == (shared, 4, len(rows))


def test_a_row_of_one_sentence_is_shared_with_single_sentences() -> None:
    rows = [("a cat sits", None, "yes", None), ("a dog runs", None, "no", None)]
    train = corpus(Kind.SENTENCES, ("a cat sits",))
    found = shared_rows(corpus(Kind.CLASSIFIED, *rows), Kind.SENTENCES, train.table.to_batches())
    assert (found.rows, found.of) == (1, 2)


def test_all_rows_are_compared_part_by_part(tmp_path: Path) -> None:
    """More rows than were looked at before, 300,000; those that are shared stand at both ends."""
    (tmp_path / "train.txt").write_text("".join(f"sentence {n}\n" for n in range(310_000)))
    train = prepared(f"text:{tmp_path}/train.txt", Kind.SENTENCES, tmp_path / "cache")
    ends = [("sentence 0",), ("sentence 309999",), ("sentence 310000",)]
    judged = corpus(Kind.SENTENCES, *ends)
    assert len(train.cached) > 1
    found = shared_rows(judged, Kind.SENTENCES, train.cached)
    assert (found.rows, found.of, found.compared) == (2, 3, 310_000)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in (("a", "x\n"), ("copy", "x\n"), ("b", "y\n")):
        (tmp_path / f"{name}.jsonl").write_text(text)
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    return tmp_path


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("a.jsonl", "a.jsonl", "it is the same"),
        ("a.jsonl", "link.jsonl", "it is the same file"),
        ("a.jsonl", "copy.jsonl", "the files are equal"),
        ("", ".", "it is the same folder"),
        ("a.jsonl?bad_rows=7", "a.jsonl", "it is the same"),
        ("a.jsonl?rows=0:5", "a.jsonl?rows=5:9", ""),
        ("a.jsonl?premises=0:5", "copy.jsonl?premises=5:9", ""),
        ("a.jsonl", "b.jsonl", ""),
        ("a.jsonl", "missing.jsonl", ""),
    ],
)
def test_two_names_of_the_same_rows(files: Path, first: str, second: str, why: str) -> None:
    assert same_rows(f"snli:{files}/{first}", f"snli:{files}/{second}") == why


def test_builtin_corpora_are_told_apart_by_their_split() -> None:
    assert same_rows("builtin:nli", "builtin:nli?split=dev") == ""
    assert same_rows("builtin:nli?split=dev", "builtin:nli?split=dev") == "it is the same"


@pytest.mark.parametrize(
    ("options", "field", "other"),
    [
        ({"corpus": "a", "dev": ("b", "copy")}, "--dev", "--corpus"),
        ({"corpus": "b", "dev": ("a",), "test": ("copy",)}, "--test", "--dev"),
        ({"corpus": "a", "dev": ("b",), "test": ("a",)}, "--test", "--corpus"),
    ],
)
def test_equal_corpora_are_refused_unless_that_is_wanted(
    files: Path, options: dict, field: str, other: str
) -> None:
    def spec(name: str) -> str:
        return f"snli:{files}/{name}.jsonl"

    named = {k: spec(v) if isinstance(v, str) else tuple(map(spec, v)) for k, v in options.items()}
    with pytest.raises(InvalidValue) as refused:
        refuse_equal_corpora(JobOptions(**named))
    assert refused.value.field == field
    assert f"as in {other} snli:" in str(refused.value)
    assert "--allow-overlap" in str(refused.value)
    refuse_equal_corpora(JobOptions(**named, allow_overlap=True))


def test_a_task_before_a_corpus_hides_nothing() -> None:
    given = {"corpus": "snli:b", "dev": ("my_tasks:Match=snli:a",)}
    with pytest.raises(InvalidValue, match="it is the same as in --dev my_tasks:Match=snli:a"):
        refuse_equal_corpora(JobOptions(**given, test=("rte=snli:a",)))
    refuse_equal_corpora(JobOptions(**given, test=("rte=snli:c",)))


@pytest.fixture
def trec(tmp_path: Path) -> str:
    """Questions of train and test, of which one stands in both."""
    for file, rows in (("train_5500", 30), ("TREC_10", 4)):
        lines = [f"{('HUM', 'NUM')[n % 2]}:x what {file if n else 'is'} {n} ?" for n in range(rows)]
        (tmp_path / f"{file}.label").write_text("".join(f"{line}\n" for line in lines))
    return f"senteval:{tmp_path}"


@pytest.mark.parametrize("spec", ["trec={}", "{}?task=trec"])
def test_a_study_selects_on_no_row_of_a_test_split(trec: str, spec: str) -> None:
    dev = read_selected(spec.format(trec))
    assert set(dev.table["split"].to_pylist()) == {"train"}
    assert (dev.table.num_rows, dev.counts["left_out_test"]) == (30, 4)
    assert dev.fingerprint == read_judged(spec.format(trec)).fingerprint
    (task,) = tasks_for(dev)
    result = evaluate([task], lambda texts: torch.rand(len(texts), 2), Points())
    assert result.tables["trec/regularisation.json"]["judged_on"] == "10 folds of train"


def test_the_folder_that_a_study_selects_on_may_be_its_test_corpus(trec: str) -> None:
    options = JobOptions(corpus="snli:a", dev=(f"trec={trec}",), test=(f"{trec}?task=trec",))
    refuse_equal_corpora(options)
    text = io.StringIO()
    dev, test = (read(f"trec={trec}") for read in (read_selected, read_judged))
    print_overlap([], [dev], [test], Console(file=text, width=200))
    found = f"test: 1 of 4 rows are also in {trec} (30 rows)"
    assert text.getvalue() == f"warning: {found}\n"


def test_a_folder_without_a_test_split_is_refused_as_the_test_corpus(tmp_path: Path) -> None:
    for label in ("pos", "neg"):
        (tmp_path / f"rt-polarity.{label}").write_text(f"a {label} film\n")
    same = {"dev": (f"mr=senteval:{tmp_path}",), "test": (f"mr=senteval:{tmp_path}",)}
    with pytest.raises(InvalidValue, match="it is the same as in --dev mr=senteval:"):
        refuse_equal_corpora(JobOptions(corpus="snli:a", **same))
    other = {**same, "test": (f"cr=senteval:{tmp_path}",)}
    refuse_equal_corpora(JobOptions(corpus="snli:a", **other))


def test_pairs_of_sick_are_selected_on_with_their_splits_named(tmp_path: Path) -> None:
    columns = ("sentence_A", "sentence_B", "entailment_label", "entailment_BA", "SemEval_set")
    rows = [(f"a {s}", "b", "ENTAILMENT", "B_neutral_A", s) for s in ("TRAIN", "TRIAL", "TEST")]
    file = tmp_path / "SICK.txt"
    file.write_text("".join("\t".join(row) + "\n" for row in (columns, *rows)))
    with pytest.raises(CorpusError, match=r"1 row of the test split; add .split=TRAIN\+TRIAL"):
        read_selected(f"sick:{file}")
    dev = read_selected(f"sick:{file}?split=TRAIN+TRIAL")
    assert dev.table["premise"].to_pylist() == ["a TRAIN", "a TRIAL"]
    assert read_judged(f"sick:{file}").table.num_rows == 3


def test_shared_rows_are_counted_for_each_corpus_that_is_judged_on() -> None:
    train = corpus(Kind.TRIPLETS, ("a cat sits", "an animal sits", "a cat runs"))
    prepared = SimpleNamespace(
        spec="snli:train", kind=Kind.TRIPLETS, cached=train.table.to_batches()
    )
    rows = [("a cat sits", "a cat purrs", "neutral", None), ("a", "b", "neutral", None)]
    test = corpus(Kind.LABELLED_PAIRS, *rows)
    text = io.StringIO()
    trained = prepared_corpora({"corpus": prepared, "references": prepared})
    assert len(trained) == 1
    print_overlap(trained, (PAIRS,), [test], Console(file=text, width=200))
    assert text.getvalue().splitlines() == [
        "warning: dev: 2 of 4 rows are also in snli:train (1 row)",
        "warning: test: 1 of 2 rows are also in snli:dev (4 rows)",
    ]


def test_shared_rows_of_small_files_are_told_before_a_cluster_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ("premise", "hypothesis", "label")
    rows = [("a", f"b{n // 2}", ("entailment", "contradiction")[n % 2]) for n in range(8)]
    rows = [(p, f"{h} {label}", label) for p, h, label in rows]
    for name, taken in (("train", rows), ("dev", rows[4:]), ("test", rows[:1])):
        lines = ("\t".join(row) for row in (columns, *taken))
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    given = ["tune", "gumbel", "--storage", str(tmp_path / "studies"), "--study", "s"]
    for role in ("corpus", "dev", "test"):
        name = "train" if role == "corpus" else role
        given += [f"--{role}", f"tsv:{tmp_path}/{name}.tsv"]
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # nothing answers there
    said = " ".join(CliRunner().invoke(app, given).output.split())
    assert f"warning: dev: 4 of 4 rows are also in tsv:{tmp_path}/train.tsv" in said
    assert f"warning: test: 1 of 1 rows are also in tsv:{tmp_path}/train.tsv" in said
    assert said.index("warning: dev") < said.index("127.0.0.1:1")
    monkeypatch.setattr(corpora, "SMALL", 2)
    assert "rows are also in" not in CliRunner().invoke(app, given).output


def test_a_refused_start_leaves_nothing_behind(tmp_path: Path) -> None:
    given = ["tune", "gumbel", "--storage", str(tmp_path / "studies"), "--dev", "builtin:nli"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 2
    assert "it is the same as in --corpus builtin:nli" in " ".join(done.output.split())
    assert not (tmp_path / "studies").exists()
