"""A GumbelCSE study that is judged on ambiguous pairs, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentune import Embedder
from sentune.corpora.formats import read
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.summary import read_summary
from sentune.tasks import References, evaluate
from sentune.tasks.choose import make_tasks, with_prior
from tests.end_to_end.jobs import command, finish

VOTES = {
    "entailment": ["entailment"] * 5,
    "neutral": ["entailment"] * 2 + ["neutral"] * 3,
    "contradiction": ["contradiction"] * 4 + ["neutral"],
}


def write_annotated(file: Path, split: str, pairs: int) -> str:
    """The builtin pairs in SNLI's format; neutral ones have labels of both sorts."""
    table = read(f"builtin:nli?split={split}&size={pairs}", Kind.LABELLED_PAIRS).table
    rows = [
        {
            "gold_label": row["label"],
            "annotator_labels": VOTES[row["label"]],
            "sentence1": row["premise"],
            "sentence2": row["hypothesis"],
        }
        for row in table.to_pylist()
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return f"snli:{file}?votes=2"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A small study with ambiguous pairs on dev and test, and the test corpus."""
    storage = tmp_path_factory.mktemp("studies")
    dev = write_annotated(storage / "dev.jsonl", "dev", 60)
    test = write_annotated(storage / "test.jsonl", "test", 60)
    options = [
        "--corpus=builtin:nli?size=1000", "--dev=builtin:nli?split=dev&size=120", f"--dev={dev}",
        f"--test={test}", "--objective=ambiguous-rte/macro_f1", "--trials=1", "--finalists=0",
        "--max-examples=576", "--concurrent=1", "--set=batch_size=64", "--set=references=10,30",
        "--set=alpha_1=0.2,0.3,0.4", "--set=alpha_2=0.4,0.6,1.0", "--prior=both=0.5",
    ]  # fmt: skip
    finish("tune_gumbel", options, storage)
    return storage / "gumbel", test


def test_the_sweep_is_reported_drawn_and_sent_to_the_trials_run(study) -> None:
    folder, _ = study
    (trial,) = read_summary(str(folder))["trials"]
    readouts = {k.removeprefix("ambiguous-rte/"): v for k, v in trial["readouts"].items()}
    assert readouts["alpha_1"] in (0.2, 0.3, 0.4)
    assert readouts["references"] in (10, 30)
    assert readouts["intersection"] in ("gumbel", "hard")
    table = json.loads((folder / "artifacts" / "ambiguous-rte" / "sweep.json").read_text())
    assert table["best"]["value"] == trial["metrics"]["ambiguous-rte/prior_macro_f1"]
    assert (folder / "artifacts" / "ambiguous-rte" / "heat.png").stat().st_size > 5_000
    sent = list((folder.parent / "mlartifacts").rglob("readouts/ambiguous-rte/heat.png"))
    assert len(sent) == 1


def test_the_prior_is_of_the_pairs_of_several_labels_and_of_the_study(study) -> None:
    corpora = read_summary(str(study[0]))["corpora"]
    assert corpora["dev-2"]["prior"] == "both=0.5"
    assert "prior" not in corpora["dev"]
    with pytest.raises(InvalidValue, match=r"--prior: 'balanced' .*pairs of several labels"):
        with_prior([read("builtin:nli?size=30", Kind.LABELLED_PAIRS)], "balanced")


def test_evaluate_shows_the_best_of_each_alpha_1_on_dev_as_seen(study, monkeypatch) -> None:
    folder, test = study
    dev, out = folder.parent / "dev.jsonl", folder / "rows.json"
    options = [
        f"--task=ambiguous-rte={test}", f"--dev=ambiguous-rte=snli:{dev}?votes=2",
        "--prior=balanced", "--set=alpha_1=0.2,0.4", f"--json={out}",
    ]  # fmt: skip
    monkeypatch.setenv("COLUMNS", "200")
    done = command("evaluate", str(folder / "model"), *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert list(found) == ["ambiguous-rte", "ambiguous-rte@0.2", "ambiguous-rte@0.4"]
    title, table = done.stdout.split("ambiguous-rte with the best readouts on dev for each alpha_1")
    assert "@" not in title
    always = found["ambiguous-rte"]["always_both"]
    assert f"when always answering both: {always:.2%}" in table
    for alpha in ("0.2", "0.4"):
        (row,) = [line for line in table.splitlines() if line.split()[:1] == [alpha]]
        metrics = found[f"ambiguous-rte@{alpha}"]
        shown = [f"{metrics[name]:.2%}" for name in ("macro_f1", "f1_both", "accuracy")]
        assert row.split()[-3:] == shown
    chosen = title.partition("readout ambiguous-rte/alpha_1: ")[2].split()[0]
    assert found["ambiguous-rte"]["macro_f1"] == found[f"ambiguous-rte@{chosen}"]["macro_f1"]


def test_the_model_keeps_its_references_and_gives_the_same_figures_on_test(study) -> None:
    folder, test = study
    summary = read_summary(str(folder))
    embedder = Embedder.load(folder / "model")
    stored = embedder.references
    assert stored is not None
    rows = int(embedder.readouts["ambiguous-rte/references"])
    train = read("builtin:nli?size=1000", Kind.TRIPLETS).table
    drawn = References.sample(train, [rows], seed=0)
    assert tuple(stored.sentences) == drawn.sentences
    assert dict(stored.sizes) == dict(drawn.sizes)
    out = folder / "again.json"
    options = [f"--task=ambiguous-rte={test}", f"--json={out}"]
    done = command("evaluate", str(folder / "model"), *options)
    assert done.returncode == 0, done.stderr
    by_command = json.loads(out.read_text())["ambiguous-rte"]
    assert by_command["macro_f1"] == pytest.approx(
        summary["test"]["ambiguous-rte/macro_f1"], abs=1e-6
    )
    corpus = read(test, Kind.SEVERAL_LABELS)
    tasks = make_tasks([("ambiguous-rte", corpus)], references=drawn)
    again = evaluate(tasks, embedder.embed_known, embedder.geometry, embedder.readouts).metrics
    for name in ("macro_f1", "accuracy", "sen_macro_f1", "empty_sets"):
        key = f"ambiguous-rte/{name}"
        assert again[key] == pytest.approx(summary["test"][key], abs=1e-6)


def test_the_model_interprets_a_sentence(study) -> None:
    folder, _ = study
    embedder = Embedder.load(folder / "model")
    found = embedder.interpretations("A dog runs.", 3, alpha_1=0.0, alpha_2=1.0)
    assert 1 <= len(found) <= 3
    assert {one.reference for one in found} <= set(embedder.references.sentences)
    assert all(0 < one.coverage < 1 for one in found)
