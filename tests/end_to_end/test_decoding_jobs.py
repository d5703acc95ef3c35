"""InterSent's and the invertible decoders' jobs as a user runs them, on what ships."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sentune import Embedder
from sentune.summary import read_summary
from tests.end_to_end.jobs import command, finish

OPERATIONS = [
    "--quick",
    "--corpus=builtin:operations?size=1200",
    "--corpus=builtin:operations?size=600&seed=1&operations=fusion",
    "--dev=builtin:operations?split=dev&size=40",
    "--dev=builtin:scenes?split=dev&size=60",
    "--test=builtin:operations?split=test&size=40",
    "--test=builtin:scenes?split=test&size=60",
    "--encoder=builtin:tiny?layers=1&width=32",
    "--decoder=builtin:tiny?layers=1&width=32&inner=64",
    "--max-examples=1152",
    "--set=batch_size=64",
    "--study=operations",
]
STORIES = [
    "--corpus=builtin:stories?size=1000",
    "--vectors=builtin:ppmi?width=16",
    "--dev=builtin:similarity?split=dev&size=120",
    "--test=builtin:similarity?split=test&size=120",
    "--max-examples=960",
    "--trials=2",
    "--seeds=1",
    "--set=hidden_size=64",
    "--set=batch_size=64",
    "--study=stories",
]


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small InterSent study on two corpora mixed."""
    storage = tmp_path_factory.mktemp("studies")
    done = finish("tune_intersent", OPERATIONS, storage, own_ray=True)
    assert done.stderr == ""
    assert re.search(r"fusion/rouge1 .* % copying", done.stdout), done.stdout
    return storage / "operations"


def test_an_intersent_study_reports_every_operation_and_similarity(operated: Path) -> None:
    summary = read_summary(str(operated))
    operations = ("fusion", "difference", "compression", "reconstruction")
    assert {f"{name}/rouge1" for name in operations} <= set(summary["test"])
    assert {"generation/rougeL", "sts/spearman"} <= set(summary["test"])
    assert {f"{name}/copy_rouge1" for name in operations[:3]} <= set(summary["baselines"])
    assert {"corpus", "corpus-2", "dev", "dev-2"} <= set(summary["corpora"])


def test_weights_of_corpora_are_searched_and_stay_out_of_the_model(operated: Path) -> None:
    summary = read_summary(str(operated))
    assert "mix_builtin_2" in summary["space"]["settings"]
    assert summary["trials"][0]["settings"]["mix_builtin_2"] == 1.0
    settings = json.loads((operated / "model" / "settings.json").read_text())["settings"]
    assert not [name for name in settings if name.startswith("mix_")]


def test_evaluating_the_intersent_model_gives_the_study_s_figures(
    operated: Path, tmp_path: Path
) -> None:
    out = tmp_path / "figures.json"
    tasks = [
        "--task=generation=builtin:operations?split=test&size=40",
        "--task=sts=builtin:scenes?split=test&size=60",
    ]
    done = command("evaluate", str(operated / "model"), *tasks, f"--json={out}")
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())
    of_test = read_summary(str(operated))["test"]
    assert of_test.pop("sts/spearman_standard_error") > 0  # of a study's end alone
    del of_test["sts/pearson_standard_error"]
    for name, value in of_test.items():
        task, metric = name.split("/")
        assert figures[task][metric] == pytest.approx(value, abs=1e-6), name


def test_steps_on_the_command_line_are_those_in_python(operated: Path) -> None:
    model, a, b = str(operated / "model"), "the dog hid the ball", "the dog slept in the garden"
    expression = "compress(difference(fuse(A, B), A))"
    said = command("compose", model, expression, f"A={a}", f"B={b}").stdout.strip()
    e = Embedder.load(model)
    assert said == e.decode(e.compress(e.difference(e.fuse(a, b), a)))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study of invertible decoders."""
    storage = tmp_path_factory.mktemp("studies")
    done = finish("tune_invertible", STORIES, storage, own_ray=True)
    assert done.stderr == ""
    assert "of the corpus's" in done.stdout
    return storage / "stories"


def test_an_invertible_study_reads_its_representation_out(told: Path, tmp_path: Path) -> None:
    summary = read_summary(str(told))
    readouts = json.loads((told / "model" / "readouts.json").read_text())
    assert readouts["sts/representation"] in (
        "ensemble",
        "ensemble_scaled",
        "z_en",
        "z_de",
    )
    assert {"sts/pearson", "sts/words_pearson"} <= set(summary["test"])
    out = tmp_path / "figures.json"
    task = "--task=sts=builtin:similarity?split=test&size=120"
    done = command("evaluate", str(told / "model"), task, f"--json={out}")
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())["sts"]
    assert figures["pearson"] == pytest.approx(summary["test"]["sts/pearson"], abs=1e-6)


def test_what_an_invertible_model_cannot_do_is_said(told: Path) -> None:
    task = "--task=generation=builtin:operations?split=test&size=8"
    done = command("evaluate", str(told / "model"), task)
    assert done.returncode == 0, done.stderr
    assert "the model has no decoder" in done.stdout
    fused = command("fuse", str(told / "model"), "a", "b")
    assert fused.returncode == 2
    assert "neither operators nor a decoder" in fused.stderr
