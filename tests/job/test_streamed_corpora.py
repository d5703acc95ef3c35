"""Every job that trains takes its corpus from prepared shards, shared or streamed, to one order."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from rich.console import Console

from sentune.cli.cluster_plan import options_of, read_job
from sentune.corpora import tokens
from sentune.corpora.batches import SharedSource
from sentune.corpora.stream import StreamedSource
from sentune.job.families import JobFamily, make_job
from tests.token_tables import plain

pytestmark = pytest.mark.cluster

JOBS = Path(__file__).resolve().parents[2] / "jobs"
TRAINED = {
    "tune_gauss": "builtin:nli?size=120",
    "tune_gumbel": "builtin:nli?size=120",
    "tune_simcse": "builtin:nli?size=120",
    "tune_simcse_pairs": "builtin:operations?size=120",
    "tune_simcse_unsupervised": "builtin:nli?size=120",
    "tune_sbert_softmax": "builtin:nli?size=120",
    "tune_infersent": "builtin:nli?size=120",
    "tune_intersent": "builtin:operations?size=120",
    "tune_invertible": "builtin:stories?size=120",
}
SHARD_ROWS = 40


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield
    ray.shutdown()


def job(name: str, storage: Path, *options: str) -> JobFamily:
    script = read_job(JOBS / f"{name}.py")
    given = (
        f"--corpus={TRAINED[name]}", f"--storage={storage}", "--set=batch_size=16", *options,
    )  # fmt: skip
    made = make_job(options_of(script, list(given)), script.space)
    made.prepare(Console(file=io.StringIO()))
    return made


@pytest.mark.parametrize("name", TRAINED)
def test_a_job_shares_and_streams_the_same_batches(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentune.corpora.prepare.SHARD_ROWS", SHARD_ROWS)
    monkeypatch.setitem(tokens.tokenise_batches.__kwdefaults__, "shard_rows", SHARD_ROWS)
    (shared,) = (handle.open() for handle in job(name, tmp_path).handles())
    (streamed,) = (h.open() for h in job(name, tmp_path, "--share-mb=0").handles())
    assert isinstance(shared, SharedSource)
    assert isinstance(streamed, StreamedSource)
    assert len(job(name, tmp_path).inputs.tokens[0].shards) > 1
    for start in (0, 48):
        expected = plain(shared.batches(16, 5, start), 9)
        assert plain(streamed.batches(16, 5, start), 9) == expected


def test_a_second_start_reads_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.txt"
    file.write_text("".join(f"sentence number {i}\n" for i in range(60)))
    monkeypatch.setitem(TRAINED, "tune_simcse_unsupervised", f"text:{file}")
    dev = "--dev=builtin:scenes?split=dev"
    first = job("tune_simcse_unsupervised", tmp_path, dev)

    def unread(*args: object, **options: object) -> None:
        raise AssertionError(f"read again: {args}")

    monkeypatch.setattr("sentune.corpora.prepare.open_rows", unread)
    again = job("tune_simcse_unsupervised", tmp_path, dev)
    assert again.corpora() == first.corpora()
    assert again.fingerprints() == first.fingerprints()
