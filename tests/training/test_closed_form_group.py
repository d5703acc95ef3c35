"""Methods in closed form on a group: statistics of the workers' rows add up to one worker's fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.numpy import load_file

from sentune import beats
from sentune.corpora.batches import Held
from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.encoders.words import WordTable
from sentune.methods.sif import Sif
from sentune.training import closed_form
from sentune.training.checkpoints import CheckpointStore
from sentune.training.closed_form import fit_and_sweep
from sentune.training.closed_form_model import FIT_FILE, VECTORS, build_closed_form
from sentune.training.group import Group
from sentune.training.trial import TrialSpec
from tests.forked import join_group, run_group
from tests.rounding import rounding
from tests.training.checkpoint_scenes import progress

WORDS, WIDTH, ROWS = 40, 6, 203
SHIFT = 1e-4
"""Relative change of the word vectors that shows how much a fit magnifies what its sums err by."""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sif": ("sif", {"variant": "sif"}),
    "usif": ("sif", {"variant": "usif"}),
    "laes": ("laes", {"form": "res", "max_length": 6}),
    "laes, both ways": ("laes", {"form": "bres-cat", "max_length": 6}),
    "laes, svd": ("laes", {"form": "hid", "max_length": 6, "solver": "svd"}),
}
GRIDS = {"sif": ("components", (0, 1, 2, 3)), "laes": ("n_h", (2, 5, 9))}


def words(shift: float) -> WordTable:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(WORDS, WIDTH)) + rng.normal(size=WIDTH)
    vectors = (vectors * (1 + shift * rng.normal(size=vectors.shape))).astype(np.float32)
    p = 1 / np.arange(1, WORDS + 1) ** 1.2
    names = tuple(f"w{number}" for number in range(WORDS))
    return WordTable(names, vectors, p / p.sum(), listed=p / p.sum())


def sentences(count: int, seed: int) -> list[str]:
    """The longest ones stand at the end: workers meet different lengths."""
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.integers(1, 9, count))
    return [" ".join(f"w{i}" for i in rng.integers(0, WORDS, size)) for size in lengths]


def dev() -> Corpus:
    first, second = sentences(60, 1), sentences(60, 2)[::-1]
    scores = np.random.default_rng(3).uniform(0, 5, 60)
    columns = {"sentence1": first, "sentence2": second, "score": scores, "subset": [None] * 60}
    kind = Kind.SCORED_PAIRS
    table = pa.table(columns, schema=SCHEMAS[kind])
    return Corpus(spec="dev", kind=kind, table=table, fingerprint="dev")


def spec_of(case: str, directory: str = "") -> TrialSpec:
    method, settings = CASES[case]
    axis, grid = GRIDS[method]
    return TrialSpec(
        trial="0000", method=method, settings={VECTORS: "made", **settings}, encoder="",
        corpus=Held(pa.table({"text": sentences(ROWS, 0)})), dev=Held([dev()]), max_examples=ROWS,
        milestones=(ROWS,), objective="sts/pearson", readouts={axis: grid},
        directory=directory,
    )  # fmt: skip


def fitted(case: str, group: Group, folder: Path, shift: float = 0.0) -> dict[str, Any]:
    """Metrics of a trial, and what its first worker saves in the folder."""
    (fit,) = fit_and_sweep(spec_of(case), group, words={"made": Held(words(shift))})
    if group.is_first:
        fit.save(folder)
    metrics = {name: value for name, value in fit.metrics.items() if "seconds" not in name}
    return {"metrics": metrics, "readouts": fit.readouts}


def work(rank: int, workers: int, folder: str) -> None:
    group, found = join_group(rank, workers, folder), {}
    for number, case in enumerate(CASES):
        saved = Path(folder, f"{number}")
        saved.mkdir(exist_ok=True)
        found[case] = fitted(case, group, saved)
    # the first worker alone sees the checkpoint, as where another one has set it aside
    directory = f"{folder}/trial-of-{rank}"
    if group.is_first:
        CheckpointStore(directory).save(progress(400), 0.4)
    (again,) = fit_and_sweep(spec_of("sif", directory), group, words={})
    found["again"] = again.metrics
    torch.save(found, Path(folder, f"{rank}.pt"))


def test_beats_count_the_texts_that_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_form, "BATCH", 50)
    seen, solve = [], Sif.solve

    def solved(*given: Any) -> None:
        seen.append(beats.newest().examples)
        solve(*given)

    def added(kept: Any, texts: list[str]) -> None:
        seen.append(beats.newest().examples)
        add(kept, texts)

    statistics = type(build_closed_form("sif", words(0.0), {}).statistics())
    add = statistics.add
    monkeypatch.setattr(statistics, "add", added)
    monkeypatch.setattr(Sif, "solve", solved)
    beats.begin()
    assert list(
        fit_and_sweep(spec_of("sif"), Group.single("cpu"), words={"made": Held(words(0.0))})
    )
    assert seen == [0, 50, 100, 150, 200, ROWS]


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.long)])
def several(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[dict[str, Any]]]:
    """Folder of the fits, and what each of the workers found."""
    folder = tmp_path_factory.mktemp("group")
    run_group(work, (request.param, str(folder)), request.param)
    ranks = range(request.param)
    return folder, [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in ranks]


@pytest.mark.parametrize("case", CASES)
def test_a_group_fits_what_one_worker_fits(
    case: str, several: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    """But for the rounding of sums over all rows, as eigenvectors and metrics magnify it.

    How much they do, the same fit on other word vectors says: the change of each result by the
    relative change of the vectors. Ten times that is for the directions in which it is larger.
    """
    folder, found = several
    alone = fitted(case, Group.single("cpu"), tmp_path)
    state = load_file(tmp_path / FIT_FILE)
    shifted = fitted(case, Group.single("cpu"), tmp_path, SHIFT)
    magnified = {
        name: abs(value - alone["metrics"][name]) / SHIFT
        for name, value in shifted["metrics"].items()
    }
    assert len(alone["metrics"]) > 1
    for worker in found:
        assert worker[case]["readouts"] == alone["readouts"]
        assert worker[case]["metrics"].keys() == alone["metrics"].keys()
        for name, value in worker[case]["metrics"].items():
            limit = rounding(ROWS, 10 * max(1, magnified[name]))
            assert value == pytest.approx(alone["metrics"][name], abs=limit), name
    others = load_file(folder / f"{list(CASES).index(case)}" / FIT_FILE)
    for name, array in load_file(tmp_path / FIT_FILE).items():
        change = abs(array - state[name]).max() / SHIFT
        limit = rounding(ROWS, 10 * max(1, abs(array).max(), change))
        np.testing.assert_allclose(others[name], state[name], rtol=0, atol=limit)


def test_all_workers_repeat_the_fit_that_the_first_one_finds(
    several: tuple[Path, list[dict[str, Any]]],
) -> None:
    assert [worker["again"] for worker in several[1]] == [{"task/metric": 0.4}] * len(several[1])
