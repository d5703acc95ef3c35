"""Statistics of a corpus: workers add up to what one pass gives, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from sentune.corpora import reduce
from sentune.errors import CorpusError, InvalidValue

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

    def merge(self, other: Letters) -> None:
        self.texts += other.texts
        self.batches += other.batches
        self.moments += other.moments


class Refuses(Letters):
    def add(self, texts: Sequence[str]) -> None:
        raise InvalidValue("text", texts[0], "refused")


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
def paths(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> list[str]:
    folder, names, start = tmp_path_factory.mktemp("sentences"), [], 0
    for number, rows in enumerate(SHARDS):
        path = folder / f"part-{number:05d}.parquet"
        pq.write_table(pa.table({"text": texts[start : start + rows]}), path)
        names.append(str(path))
        start += rows
    return names


@pytest.mark.cluster
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_add_up_to_one_pass(
    cluster: None, paths: list[str], texts: list[str], workers: int
) -> None:
    here = reduce.accumulate_here([texts[:100], texts[100:]], Letters)
    there = reduce.accumulate(paths, Letters, workers=workers)
    assert there.texts == here.texts == sum(SHARDS)
    np.testing.assert_allclose(there.moments, here.moments, rtol=1e-12)
    assert there.batches >= sum(SHARDS) // reduce._ROWS  # no worker saw a whole corpus at once


@pytest.mark.cluster
def test_a_cluster_without_a_whole_free_cpu_still_adds_up(cluster: None, paths: list[str]) -> None:
    @ray.remote(num_cpus=1)
    def inside() -> int:
        return reduce.accumulate(paths, Letters, workers=2).texts

    assert ray.get(inside.remote(), timeout=120) == sum(SHARDS)


@pytest.mark.cluster
def test_an_error_of_the_statistics_arrives(cluster: None, paths: list[str]) -> None:
    with pytest.raises(InvalidValue, match="refused"):
        reduce.accumulate(paths, Refuses, workers=2)


def test_what_cannot_be_read_is_named(paths: list[str]) -> None:
    with pytest.raises(CorpusError, match=r"part-00000\.parquet.*'sentence' but text"):
        reduce.accumulate(paths, Letters, column="sentence")
    with pytest.raises(InvalidValue, match="workers"):
        reduce.accumulate(paths, Letters, workers=0)
    with pytest.raises(InvalidValue, match="paths"):
        reduce.accumulate([], Letters)


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


def test_a_shard_is_read_in_parts(paths: list[str]) -> None:
    task = pa.table({"path": [paths[3]], "column": ["text"]})
    sizes = [part.num_rows for part in reduce._read(task)]
    assert sum(sizes) == SHARDS[3]
    assert max(sizes) <= reduce._ROWS
