"""The jobs on word vectors as a user runs them, on files that the test makes."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from sentune import Embedder
from sentune.corpora.formats import read
from sentune.corpora.reduce import accumulate_here
from sentune.corpora.schema import Kind
from sentune.encoders.words import WordTable, open_words
from sentune.methods.laes import Laes, LaesSettings
from sentune.summary import read_summary
from sentune.tasks import Result, Task, evaluate, tasks_for
from sentune.tasks.variants import evaluate_family
from tests.end_to_end.jobs import finish
from tests.rounding import rounding

WORDS = [f"w{number}" for number in range(40)]
DIMENSIONS, TRAIN, DEV, TEST = 12, 200, 120, 80
SHIFT = 1e-4
"""Relative change of the word vectors that shows how much a fit magnifies what its sums err by."""


def same_correlation(value: float, dtype: torch.dtype = torch.float64) -> Any:
    """``value`` as another way to compute a correlation over the pairs may give it.

    Cosines of vectors of two directions' width and sums over pairs round; a correlation magnifies
    their errors by the inverse of the cosines' standard deviation, which is above a tenth here.
    """
    terms = 2 * DIMENSIONS if dtype is torch.float32 else 2 * DIMENSIONS + DEV
    return pytest.approx(value, abs=rounding(terms, 10, dtype))


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
    return write_files(tmp_path_factory.mktemp("files"))


def write_files(folder: Path) -> Path:
    """The same in an empty folder; its path."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(len(WORDS), DIMENSIONS)) + 2 * rng.normal(size=DIMENSIONS)
    rows = [f"{w} {' '.join(f'{x:.5f}' for x in v)}" for w, v in zip(WORDS, table, strict=True)]
    (folder / "vectors.txt").write_text("\n".join(rows) + "\n")
    counts = [f"{word} {1000 // (1 + place)}" for place, word in enumerate(WORDS)]
    (folder / "counts.txt").write_text("\n".join(counts) + "\n")
    for name, pairs, seed in (("train", TRAIN, 1), ("dev", DEV, 2), ("test", TEST, 3)):
        write_pairs(folder / f"{name}.csv", pairs, seed)
    return folder


def run(name: str, files: Path, storage: Path, *given: str) -> subprocess.CompletedProcess[str]:
    options = [
        f"--corpus=stsb:{files}/train.csv", f"--dev=stsb:{files}/dev.csv",
        f"--vectors=glove:{files}/vectors.txt", f"--frequencies={files}/counts.txt",
        "--concurrent=1", *given,
    ]  # fmt: skip
    return finish(name, options, storage)


def best(storage: Path, study: str) -> dict:
    """The best trial of a study."""
    trials = read_summary(str(storage / study))["trials"]
    return max(trials, key=lambda trial: trial["metrics"].get("sts/pearson", -1))


FIXED = ["--set=variant=sif", "--set=a=1e-3", "--set=components=0,1,2,3,5,8"]


@pytest.fixture(scope="module")
def swept(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SIF study of one trial that swept six numbers of components."""
    storage = tmp_path_factory.mktemp("swept")
    done = run("tune_sif", files, storage, "--trials=6", f"--test=stsb:{files}/test.csv", *FIXED)
    assert "sts/components (read out)" in done.stdout
    assert "± se over pairs" in done.stdout
    return storage


def test_a_sif_study_leaves_a_model_whose_figures_are_the_summarys(
    files: Path, swept: Path
) -> None:
    summary = read_summary(str(swept / "sif"))
    assert summary["state"] == "complete"
    embedder = Embedder.load(swept / "sif" / "model")
    assert embedder.readouts["components"] == best(swept, "sif")["readouts"]["sts/components"]
    for part in ("dev", "test"):
        found = evaluate(
            tasks_for(read(f"stsb:{files}/{part}.csv", Kind.SCORED_PAIRS)),
            embedder.embed,
            embedder.geometry,
        )
        said = summary["test"] if part == "test" else best(swept, "sif")["metrics"]
        assert found.metrics["sts/pearson"] == same_correlation(said["sts/pearson"], torch.float32)
    pairs = read(f"stsb:{files}/test.csv", Kind.SCORED_PAIRS).table.to_pydict()
    similar = embedder.similarity(pairs["sentence1"], pairs["sentence2"])
    assert np.std(similar) > 0.1, "as same_correlation has it"
    direct = pearsonr(similar, pairs["score"]).statistic
    assert summary["test"]["sts/pearson"] == same_correlation(direct, torch.float32)
    assert (swept / "sif" / "artifacts" / "sts" / "curve_components.png").stat().st_size > 5_000


def test_searching_a_readout_finds_what_the_sweep_finds_for_six_times_the_trials(
    files: Path, swept: Path
) -> None:
    run("tune_sif", files, swept, "--study=drawn", "--trials=6", "--sampler=grid",
        "--search-readouts", *FIXED)  # fmt: skip
    one, drawn = best(swept, "sif"), best(swept, "drawn")
    assert drawn["settings"]["components"] == one["readouts"]["sts/components"]
    assert drawn["metrics"]["sts/pearson"] == same_correlation(one["metrics"]["sts/pearson"])
    counts = {name: len(read_summary(str(swept / name))["trials"]) for name in ("sif", "drawn")}
    assert counts == {"sif": 1, "drawn": 6}
    trials = read_summary(str(swept / "drawn"))["trials"]
    every = {t["settings"]["components"]: t["metrics"]["sts/pearson"] for t in trials}
    table = json.loads((swept / "sif" / "artifacts" / "sts" / "sweep.json").read_text())
    for value, components in zip(table["values"], table["axes"]["components"], strict=True):
        assert every[components] == same_correlation(value)


def laes_here(words: WordTable, files: Path, task: Task) -> Result:
    """LAES fitted in this process on the sentences of train, with the best of its units on dev."""
    laes = Laes(words, LaesSettings(form="bres-cat", max_length=15))
    texts = read(f"stsb:{files}/train.csv", Kind.SENTENCES).table.column("text").to_pylist()
    laes.solve(accumulate_here([texts], laes.statistics), 20)
    return evaluate_family([task], laes.similarities, "n_h", tuple(range(1, 21)))


def test_laes_streamed_through_ray_data_is_laes_fitted_here(files: Path, tmp_path: Path) -> None:
    run("tune_laes", files, tmp_path, "--trials=1", "--share-mb=0", "--set=form=bres-cat",
        "--set=a=1e-3", "--set=max_length=15", "--set=n_h=1..20")  # fmt: skip
    words = open_words(f"glove:{files}/vectors.txt", f"{files}/counts.txt", tmp_path / "cache")
    (task,) = tasks_for(read(f"stsb:{files}/dev.csv", Kind.SCORED_PAIRS))
    result = laes_here(words, files, task)
    shifts = SHIFT * np.random.default_rng(0).normal(size=words.vectors.shape)
    moved = replace(words, vectors=(words.vectors * (1 + shifts)).astype(np.float32), folder="")
    change = laes_here(moved, files, task).metrics["sts/pearson"] - result.metrics["sts/pearson"]
    streamed = best(tmp_path, "laes")
    assert streamed["readouts"] == result.readouts
    # ten times for the directions of change in which it is larger
    limit = rounding(TRAIN, 10 * max(1, abs(change) / SHIFT))
    assert streamed["metrics"]["sts/pearson"] == pytest.approx(
        result.metrics["sts/pearson"], abs=limit
    )
    embedder = Embedder.load(tmp_path / "laes" / "model")
    shipped = evaluate([task], embedder.embed, embedder.geometry)
    said = streamed["metrics"]["sts/pearson"]
    assert shipped.metrics["sts/pearson"] == same_correlation(said, torch.float32)
    assert embedder.encode(["w1 w2", "w3"]).shape == (2, 24)
    assert embedder.similarity("w1 w2 w3", "w1 w2 w3") == pytest.approx(1.0)
