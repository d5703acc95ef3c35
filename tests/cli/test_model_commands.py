"""``sentune evaluate`` and ``sentune encode`` as a user types them."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import sentune
from sentune.cli import main
from sentune.embedder.embedder import Embedder
from sentune.encoders import load, load_tokenizer, prepare
from sentune.methods import REGISTRY

ROWS = [
    ("A poodle runs.", "A dog runs.", "entailment"),
    ("A dog runs.", "An animal moves.", "entailment"),
    ("A dog runs.", "A cat sleeps.", "contradiction"),
    ("An animal moves.", "A poodle runs.", "neutral"),
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = [text for row in ROWS for text in row[:2]]
    return prepare("builtin:tiny", texts, tmp_path_factory.mktemp("encoders"))


@pytest.fixture
def models(encoder: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Embedder]:
    """Models by the name that the command line calls them by."""
    made = {}
    readouts: dict[str, object] = {"rte/threshold": 0.25, "direction/by": "similarity"}
    for name in ("gumbel", "simcse"):
        torch.manual_seed(0)
        method = REGISTRY[name](load(encoder), REGISTRY[name].settings_type())
        tokenizer = load_tokenizer(encoder)
        made[name] = Embedder(method, tokenizer, settings={}, readouts=readouts, device="cpu")
    monkeypatch.setattr(Embedder, "load", lambda source, device=None: made[source])
    return made


@pytest.fixture
def snli(tmp_path: Path) -> str:
    path = tmp_path / "dev.jsonl"
    names = ("sentence1", "sentence2", "gold_label")
    path.write_text("".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in ROWS))
    return f"snli:{path}"


@pytest.fixture
def stsb(tmp_path: Path) -> str:
    path = tmp_path / "sts-dev.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t")
        for i, (a, b, _) in enumerate(ROWS):
            writer.writerow(["main-captions", "made", "2012", i, f"{i / 2:.3f}", a, b])
    return f"stsb:{path}"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit code of ``sentune ARGUMENTS``."""
    monkeypatch.setattr(sys, "argv", ["sentune", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


@pytest.mark.usefixtures("models")
def test_evaluate_writes_fractions_by_task(
    snli: str,
    stsb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "new" / "out.json"
    tasks = ["--task", f"rte={snli}", "--task", f"direction={snli}", "--task", f"sts={stsb}"]
    assert run(monkeypatch, "evaluate", "gumbel", *tasks, "--json", str(out)) == 0
    found = json.loads(out.read_text())
    assert set(found) == {"rte", "direction", "sts"}
    assert set(found["rte"]) == {"accuracy", "auc", "average_precision", "majority"}
    assert {"spearman", "pearson", "pearson_weighted_mean"} < set(found["sts"])
    assert found["direction"]["length"] == 0.5  # one premise is a character longer, one shorter
    assert all(-1 <= value <= 1 for metrics in found.values() for value in metrics.values())
    screen = capsys.readouterr().out
    lines = [line.split() for line in screen.splitlines()]
    assert ["direction", "length", "50.00%", "2"] in lines
    assert ["direction", "longer"] in [line[:2] for line in lines if line[3:] == ["1"]]
    assert "readout rte/threshold: 0.25" in screen


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["encode", "gumbel", "in.txt", "file/sub/out.parquet"], "OUT.parquet"),
        (["encode", "gumbel", "in.txt", "file/out.parquet"], "OUT.parquet"),
        (["index", "gumbel", "in.txt", "file/sub/index"], "INDEX"),
        (["evaluate", "gumbel", "--task", "rte=SNLI", "--json", "file/sub/out.json"], "--json"),
    ],
)
def test_an_output_that_cannot_be_written_is_one_line(
    command: list[str],
    named: str,
    snli: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a dog runs\n")
    Path("file").touch()
    assert run(monkeypatch, *(part.replace("SNLI", snli) for part in command)) == 2
    said = capsys.readouterr().err
    assert "a parent of the path is a file, not a folder" in said
    assert said.endswith(f"or give another {named}\n")


@pytest.mark.usefixtures("models")
def test_a_task_that_a_model_cannot_do_is_listed_with_the_reason(
    snli: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    tasks = ["--task", f"rte={snli}", "--task", f"direction={snli}"]
    assert run(monkeypatch, "evaluate", "simcse", *tasks, "--json", str(out)) == 0
    assert set(json.loads(out.read_text())) == {"rte"}
    assert "not measured: direction: the geometry is symmetric" in capsys.readouterr().out


def test_the_threshold_comes_from_dev_where_the_model_has_none(
    snli: str,
    tmp_path: Path,
    models: dict[str, Embedder],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del models["gumbel"].readouts["rte/threshold"]
    out = tmp_path / "out.json"
    asked = ["evaluate", "gumbel", "--task", f"rte={snli}", "--json", str(out)]
    assert run(monkeypatch, *asked) == 0
    assert "accuracy" not in json.loads(out.read_text())["rte"]
    assert "not measured: rte/accuracy: no threshold" in capsys.readouterr().out
    assert run(monkeypatch, *asked, "--dev", f"rte={snli}") == 0
    found = json.loads(out.read_text())["rte"]
    assert found["accuracy"] >= found["majority"]  # chosen on the same rows


@pytest.mark.usefixtures("models")
def test_of_several_dev_corpora_a_task_takes_the_threshold_of_its_own_format(
    snli: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = tmp_path / "other.csv", tmp_path / "out.json"
    turned = [(a, b, "neutral" if label == "entailment" else "entailment") for a, b, label in ROWS]
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([("premise", "hypothesis", "label"), *turned])
    dev = ["--dev", f"rte={snli}", "--dev", f"rte=csv:{file}"]
    task = ["--task", f"rte=csv:{file}", "--json", str(out)]
    assert run(monkeypatch, "evaluate", "gumbel", *dev, *task) == 0
    found = json.loads(out.read_text())
    assert set(found) == {"rte-csv"}
    assert found["rte-csv"]["accuracy"] >= found["rte-csv"]["majority"]  # chosen on the same rows
    rows = sentune.evaluate("gumbel", {"rte": f"csv:{file}"}, dev={"rte": [snli, f"csv:{file}"]})
    assert rows.loc["rte-csv/accuracy", "value"] == found["rte-csv"]["accuracy"]


@pytest.mark.usefixtures("models")
def test_encode_writes_text_and_vectors(
    tmp_path: Path,
    models: dict[str, Embedder],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sentune.embedder.index.ROWS", 2)
    source, out = tmp_path / "in.txt", tmp_path / "out.parquet"
    source.write_bytes("\ufeffA dog runs.\r\n\n\n\nAn “animal” moves.\nA poodle runs.".encode())
    assert run(monkeypatch, "encode", "gumbel", str(source), str(out)) == 0
    table = pq.read_table(out)
    texts = ["A dog runs.", "An “animal” moves.", "A poodle runs."]
    assert table["text"].to_pylist() == texts
    width = len(models["gumbel"].encode("A dog runs."))
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), width)
    np.testing.assert_allclose(
        np.stack(table["embedding"].to_numpy()), models["gumbel"].encode(texts), atol=1e-5
    )
    assert "3 sentences, 3 empty lines skipped" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.parquet"]


@pytest.mark.usefixtures("models")
def test_a_file_that_is_not_text_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(b"A dog runs.\n\xff\xfe\n")
    assert run(monkeypatch, "encode", "gumbel", str(source), str(tmp_path / "out.parquet")) == 2
    assert "in.txt:2: not UTF-8" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "gumbel", "--task", "parsing=snli:x"], "--task: 'parsing' cannot"),
        (["evaluate", "gumbel", "--task", "snli:x"], "one of rte, direction, ambiguous-rte"),
        (["evaluate", "gumbel", "--task", "rte=snli:/nowhere.jsonl"], "/nowhere.jsonl"),
        (["evaluate", "gumbel", "--task", "builtin:nli?split=dev"], "write TASK=FORMAT:PATH"),
        (["train", "--method", "nope", "--out", "new"], "unsupervised, laes, sif, or MODULE:CLASS"),
        (["train", "--method", "simcse", "--out", __file__], "it is a file; give a folder"),
        (["encode", "gumbel", __file__, "out.npy"], "end it in .parquet"),
        (["search", "gumbel", "index", "A cat.", ""], "SENTENCE: missing; give a sentence"),
        (["interpret", "gumbel", "  "], "SENTENCE: missing; give a sentence"),
        (["encode", "gumbel", "/nowhere.txt", "out.parquet"], "/nowhere.txt"),
        (["evaluate", "gumbel", "--task", "rte=snli:x", "--count", "5"], "--count: 5 cannot"),
        (["evaluate", "gumbel", "--task", "rte=snli:x", "--set", "alpha_1=0.3"], "swept on --dev"),
        (["evaluate", "gumbel", "--task", "rte=snli:x", "--prior", "balanced"], "pairs of --dev"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("sentune: ")
    assert error.count("\n") == 1
    assert message in error


def test_bad_rows_that_are_not_shown_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dev.jsonl"
    row = json.dumps(dict(zip(("sentence1", "sentence2", "gold_label"), ROWS[0], strict=True)))
    path.write_text("\n".join([row, *["{"] * 23]) + "\n")
    assert run(monkeypatch, "corpora", "show", f"snli:{path}") == 0
    shown = capsys.readouterr().out
    assert shown.count("bad row: ") == 20
    assert "and 3 more bad rows" in shown
