"""A group reads each row of a streamed corpus once in all, and takes the batches of one worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray
import torch
from safetensors.torch import load_file

from sentune.corpora import Corpus, stream
from sentune.corpora.batches import Batch, BatchSource, Held, SharedSource
from sentune.corpora.encode import Encoder
from sentune.corpora.mixing import Mixture
from sentune.corpora.tokens import TokenFolder, tokenise_batches
from sentune.io.cached_file import CachedFile
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.trial import TrialSpec
from tests.forked import join_group, run_group
from tests.soak import SOAK

pytestmark = pytest.mark.cluster

ROWS, SHARD_ROWS, BATCH, SEED = 192, 24, 10, 3
EPOCH = ROWS // BATCH
"""Batches of an epoch, which leave 2 rows out."""
STARTS = (0, 70, 180)
"""Examples after which a group takes over; the last one is 1 batch before the end of an epoch."""
DROPOUT_SHARDS = 4


@dataclass(frozen=True)
class Scene:
    """What the workers are given."""

    folder: Path
    tokens: TokenFolder
    spec: TrialSpec
    address: str


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    context = ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield context.address_info["gcs_address"]
    ray.shutdown()


@pytest.fixture
def scene(
    triplets: Corpus, encoder: str, make_trial: Callable[..., TrialSpec], tmp_path: Path,
    address: str,
) -> Scene:  # fmt: skip
    batches = triplets.table.to_batches()
    tokens = tokenise_batches(
        batches, "triplets", Encoder(encoder, 32), tmp_path / "tokens", shard_rows=SHARD_ROWS
    )
    spec = make_trial(
        corpus=Held(SharedSource(tokens.load())),
        settings={"precision": "float64"},
        milestones=(64, 192),
    )
    return Scene(tmp_path, tokens, spec, address)


def taken(source: BatchSource, start: int, count: int = EPOCH) -> list[Any]:
    def plain(batch: Batch) -> Any:
        rows = {k: [ids.tolist() for ids in v] for k, v in batch.columns.items()}
        return batch.epoch, batch.first, rows

    return [plain(batch) for batch in islice(source.batches(BATCH, SEED, start), count)]


def run(spec: TrialSpec, group: Group, stop_after: int | None = None) -> None:
    store = CheckpointStore(spec.directory)
    for progress in islice(train(spec, group), stop_after):
        if group.is_first:
            store.save(progress, progress.metrics[spec.objective])


def weights(spec: TrialSpec) -> dict[str, torch.Tensor]:
    folder = CheckpointStore(spec.directory).last()
    assert folder is not None
    return load_file(folder / "weights.safetensors")


def counted(log: Path) -> Callable[[pa.Table], pa.Table]:
    """The reading task, with a line for each shard that it has read: its bytes and its rows."""
    read = stream._read_shard

    def noted(task: pa.Table) -> pa.Table:
        table = read(task)
        file = CachedFile(**task["file"][0].as_py())
        size = Path(file.here()).stat().st_size
        with log.open("a") as lines:
            lines.write(f"{size} {len(table)}\n")
        return table

    return noted


def work(rank: int, workers: int, scene: Scene) -> None:
    ray.init(address=scene.address, logging_level="ERROR")
    group = join_group(rank, workers, scene.folder, "cpu", DROPOUT_SHARDS)
    reading = stream._read_shard

    def opened() -> stream.StreamedSource:
        source = stream.StreamedSource(scene.tokens)
        source.join(group)
        return source

    stream._read_shard = counted(scene.folder / f"epoch-{rank}.log")
    epoch = taken(opened(), 0)
    stream._read_shard = reading
    found: dict[Any, Any] = {start: taken(opened(), start, 4) for start in STARTS}
    mixture = Mixture([stream.StreamedSource(scene.tokens) for _ in range(2)], [1.0, 3.0])
    mixture.join(group)
    found["mixed"] = taken(mixture, 0, 12)
    # one worker has trained on 64 examples; now there are more
    run(replace(scene.spec, corpus=stream.Streamed(scene.tokens)), group)
    torch.save({"epoch": epoch, **found}, scene.folder / f"{rank}.pt")
    ray.shutdown()


@pytest.mark.parametrize("workers", [2, 4] if SOAK else [4])
def test_a_group_reads_each_row_once_and_trains_as_one_worker_does(
    scene: Scene, workers: int
) -> None:
    shared = SharedSource(scene.tokens.load())
    whole = replace(scene.spec, directory=str(scene.folder / "whole"))
    run(whole, Group.single("cpu", DROPOUT_SHARDS))
    run(scene.spec, Group.single("cpu", DROPOUT_SHARDS), stop_after=1)

    run_group(work, (workers, scene), workers)

    expected: dict[Any, Any] = {start: taken(shared, start, 4) for start in STARTS}
    expected["mixed"] = taken(Mixture([shared, shared], [1.0, 3.0]), 0, 12)
    expected["epoch"] = taken(shared, 0)
    for rank in range(workers):
        assert torch.load(scene.folder / f"{rank}.pt", weights_only=False) == expected

    read: Counter[str] = Counter()
    for rank in range(workers):
        lines = (scene.folder / f"epoch-{rank}.log").read_text().splitlines()
        assert len(lines) == len(scene.tokens.shards) / workers, "workers share the reading"
        for line in lines:
            size, rows = map(int, line.split())
            read["bytes"], read["rows"] = read["bytes"] + size, read["rows"] + rows
    shards = map(scene.tokens.cached, range(len(scene.tokens.shards)))
    corpus = sum(Path(shard.path).stat().st_size for shard in shards)
    assert ROWS <= read["rows"] <= 1.1 * ROWS
    assert corpus <= read["bytes"] <= 1.1 * corpus

    alone, together = weights(whole), weights(scene.spec)
    for name, right in alone.items():
        assert (together[name] - right).abs().max() <= 1e-9 * right.abs().max().clamp(min=1e-3)
