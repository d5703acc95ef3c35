"""Statistics of a corpus: rows of its shards, in bounded memory."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from sentune.corpora import reduce
from sentune.io.cached_file import CachedFile, CacheError

SHARDS = (300, 120, 1, 4_500, 50)


class Letters:
    """Counts and second moments of letters: small, and sensitive to every text."""

    def __init__(self) -> None:
        self.texts = 0
        self.batches = 0
        self.moments = np.zeros((26, 26))

    def add(self, texts: Sequence[str]) -> None:
        self.texts += len(texts)
        self.batches += 1
        counts = np.array([[text.count(chr(97 + i)) for i in range(26)] for text in texts]) / 7
        self.moments += counts.T @ counts


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def texts() -> list[str]:
    rng = np.random.default_rng(0)
    return ["".join(map(chr, 97 + rng.integers(26, size=9))) for _ in range(sum(SHARDS))]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> list[CachedFile]:
    folder, names, start = tmp_path_factory.mktemp("sentences"), [], 0
    for number, rows in enumerate(SHARDS):
        path = folder / f"part-{number:05d}.parquet"
        pq.write_table(pa.table({"text": texts[start : start + rows]}), path)
        names.append(CachedFile(str(path)))
        start += rows
    return names


@pytest.mark.cluster
@pytest.mark.parametrize("rows", [slice(0, 1), slice(299, 302), slice(0, 4_971), slice(420, 420)])
def test_the_rows_of_a_slice_are_added_in_order(
    cluster: None, files: list[CachedFile], texts: list[str], rows: slice
) -> None:
    there = reduce.accumulate(files, SHARDS, Letters, rows)
    here = reduce.accumulate_here([texts[rows]] if texts[rows] else [], Letters)
    assert there.texts == here.texts == rows.stop - rows.start
    np.testing.assert_allclose(there.moments, here.moments, rtol=1e-12)
    assert there.batches >= there.texts // reduce._ROWS, "a corpus is never there at once"


@pytest.mark.cluster
def test_two_passes_give_the_same_bits(cluster: None, files: list[CachedFile]) -> None:
    first, second = (reduce.accumulate(files, SHARDS, Letters).moments for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.cluster
def test_a_cluster_without_a_whole_free_cpu_still_adds_up(
    cluster: None, files: list[CachedFile]
) -> None:
    @ray.remote(num_cpus=1)
    def inside() -> int:
        return reduce.accumulate(files, SHARDS, Letters).texts

    assert ray.get(inside.remote(), timeout=600) == sum(SHARDS)


@pytest.mark.cluster
def test_a_file_that_a_node_cannot_open_is_one_sentence(
    cluster: None, files: list[CachedFile]
) -> None:
    gone = CachedFile("/nowhere/part-00000.parquet")
    with pytest.raises(CacheError) as caught:
        reduce.accumulate([*files, gone], [*SHARDS, 5], Letters)
    said = f"node {socket.gethostname()}: /nowhere/part-00000.parquet: there is no such file; "
    assert str(caught.value).startswith(said)
    assert "give --cache URI" in str(caught.value)


class Texts(list):
    """A batch that counts how many of its kind are alive."""

    alive = most = 0

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(texts)
        Texts.alive += 1
        Texts.most = max(Texts.most, Texts.alive)

    def __del__(self) -> None:
        Texts.alive -= 1


@pytest.mark.parametrize("count", [4, 40])
def test_a_corpus_of_any_length_holds_one_batch_at_a_time(count: int) -> None:
    Texts.most = 0
    batches = (Texts([f"{number} {row}" for row in range(5)]) for number in range(count))
    assert reduce.accumulate_here(batches, Letters).texts == 5 * count
    assert Texts.most <= 2  # the one that is added, and the next


@pytest.mark.parametrize(("first", "end"), [(0, 4_500), (7, 2_050), (2_048, 2_049)])
def test_a_shard_is_read_in_parts(files: list[CachedFile], first: int, end: int) -> None:
    task = {"file": asdict(files[3]), "column": "text", "first": first, "end": end}
    sizes = [part.num_rows for part in reduce._read(pa.Table.from_pylist([task]))]
    assert sum(sizes) == end - first
    assert max(sizes) <= reduce._ROWS
