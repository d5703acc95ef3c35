"""Shared and streamed corpora through Ray give the same batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from sentune.corpora import Kind, ray_map, read, stream
from sentune.corpora.batches import BatchSource, Example, SharedSource
from sentune.corpora.encode import Encoder
from sentune.corpora.mixing import MixedHandle
from sentune.corpora.tokens import TokenFolder, shard_name, tokenise_batches
from sentune.encoders import prepare
from tests.token_tables import plain

pytestmark = pytest.mark.cluster

SHARDS = (40, 25, 40, 7)
COLUMNS = ("anchor", "positive")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> TokenFolder:
    return write_folder(tmp_path_factory.mktemp("tokens"), SHARDS)


def write_folder(path: Path, shards: tuple[int, ...]) -> TokenFolder:
    rng, nbytes = np.random.default_rng(0), 0
    for number, rows in enumerate(shards):
        ids = {
            name: pa.array([rng.integers(9, size=rng.integers(2, 7)) for _ in range(rows)],
                           pa.list_(pa.int32()))
            for name in COLUMNS
        }  # fmt: skip
        table = pa.table(ids)
        nbytes += table.nbytes
        pq.write_table(table, path / shard_name(number))
    return TokenFolder(path, COLUMNS, shards, "random", nbytes)


@pytest.mark.parametrize("start", [0, 3, 10, 11, 27])
def test_shared_and_streamed_give_the_same_batches(folder: TokenFolder, start: int) -> None:
    shared = stream.hand_out(folder).open()
    streamed = stream.hand_out(folder, share_up_to=0).open()
    assert isinstance(shared, SharedSource)
    assert isinstance(streamed, stream.StreamedSource)
    assert shared.num_rows == streamed.num_rows == sum(SHARDS)
    assert shared.column_names == streamed.column_names == COLUMNS
    args = (10, 5, start * 10)
    assert plain(streamed.batches(*args), 14) == plain(shared.batches(*args), 14)


def test_a_batch_may_span_shards(folder: TokenFolder) -> None:
    sources: list[BatchSource] = [SharedSource(folder.load()), stream.StreamedSource(folder)]
    one, other = (plain(source.batches(100, 1), 3) for source in sources)
    assert one == other


@pytest.mark.parametrize("start", [0, 30, 112, 130])
def test_shared_and_streamed_give_the_same_rows(folder: TokenFolder, start: int) -> None:
    def plain_rows(rows: Iterator[Example]) -> list:
        return [{k: ids.tolist() for k, ids in row.items()} for row in islice(rows, 150)]

    shared, streamed = SharedSource(folder.load()), stream.StreamedSource(folder)
    assert plain_rows(streamed.rows(5, start)) == plain_rows(shared.rows(5, start))


@pytest.mark.parametrize("start", [0, 12])
def test_mixtures_of_shared_and_streamed_are_the_same(
    folder: TokenFolder, tmp_path: Path, start: int
) -> None:
    other = write_folder(tmp_path, (13, 9))
    batches = []
    for limits in [(1 << 30, 1 << 30), (0, 1 << 30), (0, 0)]:
        handles = [stream.hand_out(f, share_up_to=limit)
                   for f, limit in zip((folder, other), limits, strict=True)]  # fmt: skip
        mixture = MixedHandle(tuple(handles), (1.0, 3.0)).open()
        batches.append(plain(mixture.batches(10, 5, start * 10), 8))
    assert batches[0] == batches[1] == batches[2]


@ray.remote(num_cpus=1.5)
def _read(handle: stream.Streamed) -> int:
    return len(list(islice(handle.open().batches(10, 0), 15)))


def test_a_trial_that_holds_nearly_all_cpus_still_gets_its_batches(folder: TokenFolder) -> None:
    assert ray.get(_read.remote(stream.Streamed(folder)), timeout=600) == 15


def test_a_resume_reads_no_shard_that_was_done(folder: TokenFolder) -> None:
    source = stream.StreamedSource(folder)
    everything, later = source._tasks(0, 0, 0), source._tasks(0, 0, 100)
    assert len(everything) == len(SHARDS)
    assert [task["file"] for task in later] == [t["file"] for t in everything[-len(later) :]]
    assert len(later) < len(everything)
    assert sum(SHARDS) - 100 == sum(
        SHARDS[task["shard"]] - task["skip"] for task in later
    )  # what is left of the epoch


def test_shared_values_are_views_of_the_object_store() -> None:
    handle = stream.share({"x": np.arange(1 << 17)})
    first, second = handle.open()["x"], handle.open()["x"]
    assert np.shares_memory(first, second)
    assert not first.flags.writeable


class Processes:
    """A ``TableEncoder`` of the process that encodes."""

    fingerprint, max_length = "processes", 1

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.table({"text": pa.array([[os.getpid()]] * len(batch), pa.list_(pa.int32()))})


def test_a_cluster_tokenises_as_this_process_does(tmp_path: Path) -> None:
    corpus = read("builtin:nli?size=200", Kind.TRIPLETS)
    texts = (text for column in corpus.table.itercolumns() for text in column.to_pylist())
    encoder = Encoder(prepare("builtin:tiny", texts, tmp_path), 16)
    batches = corpus.table.to_batches(max_chunksize=30)
    made = [
        tokenise_batches(batches, "corpus", encoder, tmp_path / name, shard_rows=50, spread=spread)
        for name, spread in (("here", map), ("there", ray_map.in_turn))
    ]
    here, there = ({f.name: f.read_bytes() for f in folder.path.iterdir()} for folder in made)
    assert here == there
    assert len(here) == 5  # four shards and the manifest
    spread = tokenise_batches(
        batches, "corpus", Processes(), tmp_path, shard_rows=50, spread=ray_map.in_turn
    )
    assert os.getpid() not in spread.load().columns["text"].ids


def test_a_stream_is_spread_a_few_parts_ahead() -> None:
    taken = []

    def parts() -> Iterator[int]:
        for part in range(100):
            taken.append(part)
            yield part

    found = ray_map.in_turn(abs, parts())
    assert next(found) == 0
    assert len(taken) <= ray_map.AHEAD
    assert list(found) == list(range(1, 100))
