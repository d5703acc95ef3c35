"""Methods with a classifier: gradients of any workers and micro-batches, exact resumption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.encode import Encoder, WordEncoder
from sentune.encoders import prepare
from sentune.encoders.words.table import WordTable
from sentune.encoders.words.whole import load_whole, training_folder
from sentune.methods import GradientMethod, find
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.recipes import build, recipe_of
from sentune.training.settings import split
from sentune.training.trial import TrialSpec
from tests.forked import join_group, run_group
from tests.token_tables import tokenise
from tests.training.runs import run, untimed

METHODS: dict[str, dict[str, Any]] = {
    "sbert-softmax": {"pooling": "max"},
    "infersent": {"hidden_size": 5, "classifier_width": 7},
}
CASES = list(product(METHODS, (16, 13), (None, 3)))


@pytest.fixture(scope="module")
def labelled() -> Corpus:
    return read("builtin:nli?size=96", Kind.LABELLED_PAIRS)


@pytest.fixture(scope="module")
def folders(labelled: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each method is built from."""
    place = tmp_path_factory.mktemp("encoders")
    texts = [
        text for name in ("premise", "hypothesis") for text in labelled.table[name].to_pylist()
    ]
    words = tuple(dict.fromkeys(" ".join(texts).lower().replace(".", "").split()))[::2]
    vectors = np.random.default_rng(0).normal(size=(len(words), 6)).astype(np.float32)
    table = WordTable(words, vectors, np.full(len(words), 1 / len(words)))
    return {
        "sbert-softmax": prepare("builtin:tiny?layers=1&width=16&heads=2&inner=32", texts, place),
        "infersent": training_folder(table, np.zeros(len(words), np.int64), place),
    }


def made(name: str, folder: str, seed: int, **training: Any) -> tuple[GradientMethod, Any]:
    kind = find(name)
    own, settings = split({**METHODS[name], "precision": "float64", **training}, kind)
    return build(kind, own, settings, folder, seed).train(), settings


def columns(rows: int) -> dict[str, list[np.ndarray]]:
    """Sentences of one to seven tokens, some of them twice, and labels."""
    generator = np.random.default_rng(3)
    known = [generator.integers(5, 20, size).astype(np.int32) for size in range(1, 8)]
    drawn = generator.integers(len(known), size=(2, rows))
    labels = generator.integers(3, size=(rows, 1)).astype(np.int32)
    premises, hypotheses = ([known[at] for at in side] for side in drawn)
    return {"premise": premises, "hypothesis": hypotheses, "label": list(labels)}


def gradient(folders: dict[str, str], case: tuple[str, int, int | None], group: Group) -> Tensor:
    """[1 + P] loss and gradients of one global batch; the first worker's weights count."""
    name, rows, micro = case
    method, settings = made(name, folders[name], group.rank, micro_batch=micro)
    backward = recipe_of(method).backward(method, settings, group, folders[name])
    group.streams.start(1)
    loss = group.all_reduce_mean(backward(columns(rows)))
    grads = [p.grad.flatten() for p in method.parameters() if p.grad is not None]
    assert len(grads) == len(list(method.parameters()))
    return torch.cat([loss[None], *grads])


def work(rank: int, meeting: str, folders: dict[str, str]) -> None:
    group = join_group(rank, 2, meeting)
    found = [gradient(folders, case, group) for case in CASES]
    torch.save(found, Path(meeting) / f"{rank}.pt")


def test_gradients_of_two_workers_and_of_micro_batches_are_those_pair_by_pair(
    folders: dict[str, str], tmp_path: Path
) -> None:
    run_group(work, (str(tmp_path), folders), 2)
    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1)]
    alone = [gradient(folders, case, Group.single("cpu")) for case in CASES]
    for at, (name, rows, _) in enumerate(CASES):
        method, _ = made(name, folders[name], 0)
        total = torch.zeros((), dtype=torch.float64)
        for u, v, label in zip(*columns(rows).values(), strict=True):
            vectors = [method(torch.tensor([x.tolist()]), torch.ones(1, len(x))) for x in (u, v)]
            given = dict(zip(("premise", "hypothesis"), vectors, strict=True))
            given["label"] = torch.tensor(label.tolist())
            total = total + method.loss(given, lambda rows: rows) / rows
        total.backward()
        expected = torch.cat(
            [total.detach()[None], *(p.grad.flatten() for p in method.parameters())]
        )
        error = 1e-12 * float(expected.abs().max())
        for ours in (alone[at], found[0][at], found[1][at]):
            torch.testing.assert_close(ours, expected, rtol=0, atol=error)


@pytest.mark.parametrize("micro", [None, 5])
@pytest.mark.parametrize("name", METHODS)
def test_killed_and_started_again_equals_uninterrupted(
    name: str,
    micro: int | None,
    labelled: Corpus,
    folders: dict[str, str],
    make_trial: Callable[..., TrialSpec],
    tmp_path: Path,
) -> None:
    folder = folders[name]
    encode = WordEncoder(load_whole(Path(folder)), 32) if name == "infersent" else None
    whole = make_trial(
        method=name,
        settings={**METHODS[name], "micro_batch": micro},
        encoder=folder,
        corpus=Held(SharedSource(tokenise(labelled, encode or Encoder(folder, 32), None))),
        objective="rte/auc",
        directory=str(tmp_path / "whole"),
    )
    killed = replace(whole, directory=str(tmp_path / "killed"))
    expected = run(whole)
    run(killed, stop_after=2)
    torch.manual_seed(999)
    assert [untimed(p) for p in run(killed)] == [untimed(p) for p in expected[1:]]
    weights = [load_file(_last(spec) / "weights.safetensors") for spec in (whole, killed)]
    assert any(name.startswith("classifier") for name in weights[0])
    assert not any(name.startswith("encoder.vectors") for name in weights[0])
    same = map(partial(torch.equal), weights[0].values(), weights[1].values())
    assert weights[0].keys() == weights[1].keys()
    assert all(same)


def _last(spec: TrialSpec) -> Path:
    folder = CheckpointStore(spec.directory).last()
    assert folder is not None
    return folder


def test_labels_travel_as_codes(labelled: Corpus, folders: dict[str, str]) -> None:
    found = tokenise(labelled, Encoder(folders["sbert-softmax"], 32), None)
    labels = ("entailment", "neutral", "contradiction")
    codes = [found.columns["label"][row].tolist() for row in range(len(labelled.table))]
    assert [labels[code] for (code,) in codes] == labelled.table["label"].to_pylist()
    assert set(found.columns) == {"premise", "hypothesis", "label"}
