"""Trials small enough to run many of them: a tiny encoder, 192 triplets, 90 pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.encode import Encoder
from sentune.encoders import prepare
from sentune.training.trial import TrialSpec
from tests.token_tables import tokenise

MakeTrial = Callable[..., TrialSpec]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def triplets() -> Corpus:
    return read("builtin:nli?size=192", Kind.TRIPLETS)


@pytest.fixture(scope="session")
def dev() -> Corpus:
    return read("builtin:nli?split=dev&size=90", Kind.LABELLED_PAIRS)


@pytest.fixture(scope="session")
def texts(triplets: Corpus) -> list[str]:
    return [text for column in triplets.table.itercolumns() for text in column.to_pylist()]


@pytest.fixture(scope="session")
def encoder(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """With dropout, so that random states matter."""
    spec = "builtin:tiny?layers=1&width=16&heads=2&inner=32&dropout=0.1"
    return prepare(spec, texts, tmp_path_factory.mktemp("encoders"))


@pytest.fixture
def make_trial(triplets: Corpus, dev: Corpus, encoder: str, tmp_path: Path) -> MakeTrial:
    """A trial of 192 examples with milestones at 64 and 128."""

    def make(**changes: Any) -> TrialSpec:
        values: dict[str, Any] = {
            "trial": "0000",
            "method": "gumbel",
            "settings": {},
            "encoder": encoder,
            "corpus": Held(SharedSource(tokenise(triplets, Encoder(encoder, 32), None))),
            "dev": Held([dev]),
            "max_examples": 192,
            "milestones": (64, 128, 192),
            "objective": "direction/accuracy",
            "directory": str(tmp_path / "checkpoints"),
        }
        settings = {"batch_size": 16, "max_length": 32, "learning_rate": 1e-3, "dimension": 4}
        values.update(changes)
        if values["method"] not in ("gauss", "gumbel"):
            del settings["dimension"]
        values["settings"] = {**settings, **values["settings"]}
        return TrialSpec(**values)

    return make


@pytest.fixture(params=["path", "uri", "memory"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://checkpoints/trial"
        fsspec.filesystem("memory").store.clear()
    else:
        yield f"file://{tmp_path}/trial" if request.param == "uri" else str(tmp_path / "a[1] trial")


@pytest.fixture
def objects() -> Iterator[str]:
    yield "memory://checkpoints/trial"
    fsspec.filesystem("memory").store.clear()
