"""A cache in an object store: workers read sources, and no machine makes what is there already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from sentune.corpora import Kind, prepare
from sentune.corpora.formats import FORMATS, open_rows
from sentune.corpora.formats.own import format
from sentune.corpora.prepare import Prepared, prepared
from sentune.corpora.tokens import TokenFolder, tokenise_batches
from sentune.io import cached_file
from sentune.io.cached_file import node_cache
from sentune.study.store.study_index import read_json
from tests.corpora.test_integrity import Lengths

TEXTS = [f"sentence number {number}" for number in range(40)]


class Machines:
    """Machines with homes of their own, of which this process is one at a time."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch) -> None:
        self._folder, self._patched = folder, patched
        self.readers: list[str] = []

    def be(self, name: str) -> None:
        """Is another machine from here on."""
        self.name = name
        self._patched.setenv("HOME", str(self._folder / name))
        cached_file._damage.cache_clear()

    def on_worker(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """As ``ray_map.on_worker`` from the driver."""
        self.be("worker")
        found = work(*arguments)
        self.be("driver")
        return found


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    made = Machines(tmp_path, monkeypatch)
    made.be("driver")

    def noted(*args: Any, **options: Any) -> object:
        made.readers.append(made.name)
        return open_rows(*args, **options)

    monkeypatch.setattr(prepare, "open_rows", noted)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """A place in an object store, with a corpus."""
    files = fsspec.filesystem("memory")
    files.pipe_file(f"/{tmp_path.name}/texts.txt", "\n".join(TEXTS).encode())
    yield f"memory://{tmp_path.name}"
    files.store.clear()


def of_job(spec: str, store: str, machines: Machines) -> Prepared:
    cache, uri = node_cache() / "sentences", f"{store}/.cache/sentences"
    return prepared(spec, Kind.SENTENCES, cache, uri=uri, run=machines.on_worker)


def tokens_of(corpus: Prepared, store: str, spread: Any = map) -> TokenFolder:
    place = node_cache() / "tokens", f"{store}/.cache/tokens"
    return tokenise_batches(
        corpus.batches(), corpus.fingerprint, Lengths(), place[0], shard_rows=16, uri=place[1],
        files=corpus.cached, spread=spread,
    )  # fmt: skip


def test_a_source_in_the_store_is_read_by_a_worker(store: str, machines: Machines) -> None:
    corpus = of_job(f"text:{store}/texts.txt", store, machines)
    assert machines.readers == ["worker"]
    assert not list(node_cache().glob("sentences/*/*.parquet"))
    assert list(corpus.texts("text")) == TEXTS
    assert corpus.load().column("text").to_pylist() == TEXTS
    assert read_json(corpus.manifest_file) == corpus.manifest, "it lies in the store"
    assert corpus.nbytes == pytest.approx(corpus.load().nbytes, rel=0.1)


def test_a_format_of_ones_own_is_read_by_the_driver(store: str, machines: Machines) -> None:
    @format("lines", "sentences")
    def lines(path: str) -> list[dict[str, str]]:
        return [{"text": line} for line in fsspec.open(path).open().read().decode().splitlines()]

    corpus = of_job(f"lines:{store}/texts.txt", store, machines)
    assert machines.readers == ["driver"]
    assert list(corpus.texts("text")) == TEXTS
    del FORMATS["lines"]


def test_a_local_source_is_read_by_the_driver(
    store: str, machines: Machines, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    corpus = of_job(f"text:{tmp_path}/texts.txt", store, machines)
    assert machines.readers == ["driver"]
    machines.be("another")
    assert list(corpus.texts("text")) == TEXTS, "it lies in the store too"


def test_a_driver_on_another_machine_makes_nothing_again(store: str, machines: Machines) -> None:
    spec = f"text:{store}/texts.txt"
    tokens = tokens_of(of_job(spec, store, machines), store)
    machines.be("another")
    again = of_job(spec, store, machines)

    def refuses(*_: Any) -> Any:
        raise AssertionError("it is tokenised already")

    found = tokens_of(again, store, refuses)
    assert machines.readers == ["worker"]
    assert found.shards == tokens.shards == (16, 16, 8)
    lengths = [len(word) for text in TEXTS for word in text.split()]
    assert np.array_equal(found.load().columns["text"].ids, lengths)


def test_shards_that_left_store_and_machine_are_made_again(store: str, machines: Machines) -> None:
    spec, files = f"text:{store}/texts.txt", fsspec.filesystem("memory")
    corpus = of_job(spec, store, machines)
    for path in files.find(f"{store.removeprefix('memory:/')}/.cache"):
        if path.endswith(".parquet"):
            files.rm_file(path)
    assert of_job(spec, store, machines) == corpus
    assert machines.readers == ["worker", "worker"]
    assert list(corpus.texts("text")) == TEXTS


def test_workers_are_given_files_and_not_texts(store: str, machines: Machines) -> None:
    given = []

    def spread(work: Callable[[Any], Any], parts: Any) -> Any:
        given.extend(parts)
        return map(work, given)

    corpus = of_job(f"text:{store}/texts.txt", store, machines)
    tokens_of(corpus, store, spread)
    assert tuple(given) == corpus.cached
