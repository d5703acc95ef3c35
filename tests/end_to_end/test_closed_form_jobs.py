"""The jobs on word vectors as a user runs them, on files that the test makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr

from sentune import Embedder
from sentune.corpora.formats import read
from sentune.corpora.schema import Kind
from sentune.summary import read_summary

ROOT = Path(__file__).resolve().parents[2]
WORDS = [f"w{number}" for number in range(40)]


def sentence(rng: np.random.Generator) -> list[str]:
    return list(rng.choice(WORDS, size=rng.integers(2, 7)))


def write_pairs(file: Path, pairs: int, seed: int) -> None:
    """STS Benchmark's format; the score is the share of words that two sentences have in common."""
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(pairs):
        first, other = sentence(rng), sentence(rng)
        second = [*first[: rng.integers(0, len(first) + 1)], *other]
        score = 5 * len({*first} & {*second}) / len({*first} | {*second})
        texts = " ".join(first), " ".join(second)
        lines.append("\t".join(["main", "made", "2026", str(number), f"{score:.3f}", *texts]))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors with a common direction, counts, and STS files of train, dev and test."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    table = rng.normal(size=(len(WORDS), 12)) + 2 * rng.normal(size=12)
    rows = [f"{w} {' '.join(f'{x:.5f}' for x in v)}" for w, v in zip(WORDS, table, strict=True)]
    (folder / "vectors.txt").write_text("\n".join(rows) + "\n")
    counts = [f"{word} {1000 // (1 + place)}" for place, word in enumerate(WORDS)]
    (folder / "counts.txt").write_text("\n".join(counts) + "\n")
    for name, pairs, seed in (("train", 200, 1), ("dev", 120, 2), ("test", 80, 3)):
        write_pairs(folder / f"{name}.csv", pairs, seed)
    return folder


def run(name: str, files: Path, storage: Path, *options: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable, str(ROOT / "jobs" / f"{name}.py"), f"--storage={storage}",
        f"--corpus=stsb:{files}/train.csv", f"--dev=stsb:{files}/dev.csv",
        f"--vectors=glove:{files}/vectors.txt", f"--frequencies={files}/counts.txt",
        "--concurrent=1", *options,
    ]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    done = subprocess.run(
        command, cwd=storage, env=environment, capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def best(storage: Path, study: str) -> dict:
    """The best trial of a study."""
    trials = read_summary(str(storage / study))["trials"]
    return max(trials, key=lambda trial: trial["metrics"].get("sts/pearson", -1))


def test_a_sif_study_leaves_a_model_whose_figures_are_the_summarys(
    files: Path, tmp_path: Path
) -> None:
    test = f"--test=stsb:{files}/test.csv"
    done = run("tune_sif", files, tmp_path, "--trials=3", "--set=components=0..11", test)
    summary = read_summary(str(tmp_path / "sif"))
    assert summary["state"] == "complete"
    assert "components" in done.stdout
    embedder = Embedder.load(tmp_path / "sif" / "model")
    assert embedder.readouts["components"] == best(tmp_path, "sif")["readouts"]["sts/components"]
    pairs = read(f"stsb:{files}/test.csv", Kind.SCORED_PAIRS).table.to_pydict()
    similar = embedder.similarity(pairs["sentence1"], pairs["sentence2"])
    assert summary["test"]["sts/pearson"] == pytest.approx(
        pearsonr(similar, pairs["score"]).statistic, abs=1e-6
    )
    sweep = json.loads((tmp_path / "sif" / "exhibits" / "sts" / "sweep.json").read_text())
    assert len(sweep["values"]) == 12
    assert (tmp_path / "sif" / "exhibits" / "sts" / "curve_components.png").stat().st_size > 5_000


def test_searching_a_readout_finds_what_the_sweep_finds_for_many_times_the_trials(
    files: Path, tmp_path: Path
) -> None:
    fixed = ["--set=variant=sif", "--set=a=1e-3", "--set=components=0,1,2,3,5,8"]
    run("tune_sif", files, tmp_path, "--study=swept", "--trials=6", *fixed)
    run("tune_sif", files, tmp_path, "--study=drawn", "--trials=6", "--sampler=grid",
        "--search-readouts", *fixed)  # fmt: skip
    swept, drawn = best(tmp_path, "swept"), best(tmp_path, "drawn")
    assert drawn["settings"]["components"] == swept["readouts"]["sts/components"]
    assert drawn["metrics"]["sts/pearson"] == pytest.approx(
        swept["metrics"]["sts/pearson"], abs=1e-12
    )
    counts = {
        name: len(read_summary(str(tmp_path / name))["trials"]) for name in ("swept", "drawn")
    }
    assert counts == {"swept": 1, "drawn": 6}
    every = {t["settings"]["components"]: t["metrics"]["sts/pearson"]
             for t in read_summary(str(tmp_path / "drawn"))["trials"]}  # fmt: skip
    table = json.loads((tmp_path / "swept" / "exhibits" / "sts" / "sweep.json").read_text())
    for value, components in zip(table["values"], table["axes"]["components"], strict=True):
        assert every[components] == pytest.approx(value, abs=1e-12)


def test_laes_streamed_through_ray_data_is_laes_shared_in_memory(
    files: Path, tmp_path: Path
) -> None:
    small = ["--trials=1", "--set=form=bres-cat", "--set=a=1e-3", "--set=max_length=10",
             "--set=units=1..20"]  # fmt: skip
    run("tune_laes", files, tmp_path, "--study=shared", *small)
    run("tune_laes", files, tmp_path, "--study=streamed", "--share-mb=0", *small)
    shared, streamed = best(tmp_path, "shared"), best(tmp_path, "streamed")
    assert shared["readouts"] == streamed["readouts"]
    assert shared["metrics"]["sts/pearson"] == pytest.approx(
        streamed["metrics"]["sts/pearson"], abs=1e-8
    )
    embedder = Embedder.load(tmp_path / "streamed" / "model")
    assert embedder.encode(["w1 w2", "w3"]).shape == (2, 24)
    assert embedder.similarity("w1 w2 w3", "w1 w2 w3") == pytest.approx(1.0)
