"""Machines that share neither home nor temporary folder, and a head without CPUs."""

from __future__ import annotations

import json
import logging
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentune.corpora import Kind, read
from tests.end_to_end.jobs import finish
from tests.homes.machines import Machines, machines, missing
from tests.servers import HOST, Bucket, bucket
from tests.soak import SOAK

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1200)]

logger = logging.getLogger(__name__)

STREAMED = "--share-mb=0"
OPTIONS = {
    "tune_gumbel": [
        "--dev=builtin:nli?split=dev&size=60", "--encoder=builtin:tiny?layers=1&width=32",
        "--max-examples=512", "--set=batch_size=64", "--trials=1", "--finalists=0", STREAMED,
    ],
    "tune_intersent": [
        "--corpus=builtin:operations?size=600", "--dev=builtin:operations?split=dev&size=40",
        "--test=builtin:operations?split=test&size=40", "--encoder=builtin:tiny?layers=1&width=32",
        "--decoder=builtin:tiny?layers=1&width=32&inner=64", "--max-examples=512",
        "--set=batch_size=64", "--trials=1", "--finalists=0", STREAMED,
    ],
    "tune_laes": [
        "--set=form=res", "--set=a=1e-3", "--set=max_length=8", "--set=n_h=1..12", "--trials=1",
        STREAMED,
    ],
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    if lacking := missing():
        pytest.skip(lacking)


class _Forwarder(socketserver.BaseRequestHandler):
    """Passes a connection on to the S3 server and keeps the first lines of its requests."""

    server: Recorder

    def handle(self) -> None:
        with socket.create_connection((HOST, self.server.upstream)) as upstream:
            back = threading.Thread(target=self._pass, args=(upstream, self.request), daemon=True)
            back.start()
            self._pass(self.request, upstream)
            back.join()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(1 << 16):
                if target is not self.request:
                    lines = part.split(b"\r\n")
                    self.server.requests += [line for line in lines if b" HTTP/1.1" in line]
                target.sendall(part)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class Recorder(socketserver.ThreadingTCPServer):
    """The S3 server as the head reaches it.

    Attributes:
        upstream: port of the server.
        requests: their first lines, such as ``GET /bucket/name HTTP/1.1``.
    """

    allow_reuse_address = daemon_threads = True

    def __init__(self, upstream: int) -> None:
        super().__init__((HOST, 0), _Forwarder)
        self.upstream, self.requests = upstream, list[bytes]()


@contextmanager
def recorded(upstream: int) -> Iterator[Recorder]:
    with Recorder(upstream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def s3() -> Iterator[Bucket]:
    with bucket() as server:
        server.make("studies")
        server.make("corpora")
        write_sources(server.folder / "buckets" / "corpora")
        yield server


@pytest.fixture(scope="module")
def recorder(s3: Bucket) -> Iterator[Recorder]:
    with recorded(s3.port) as server:
        yield server


@pytest.fixture(scope="module")
def two(s3: Bucket, recorder: Recorder) -> Iterator[Machines]:
    """The worker talks to S3, the head through the recorder."""
    through = {"AWS_ENDPOINT_URL": f"http://{HOST}:{recorder.server_address[1]}"}
    own = {"AWS_ENDPOINT_URL": s3.address}
    with machines({**s3.variables, **through}, own) as made:
        yield made


def write_sources(folder: Path) -> None:
    """SNLI's format, STS Benchmark's and word vectors, from what ships with the package."""
    pairs = read("builtin:nli?size=600", Kind.LABELLED_PAIRS).table.to_pylist()
    with (folder / "snli.jsonl").open("w") as out:
        for number, row in enumerate(pairs):
            line = {"sentence1": row["premise"], "sentence2": row["hypothesis"], "pairID": number,
                    "gold_label": row["label"], "annotator_labels": [row["label"]]}  # fmt: skip
            out.write(json.dumps(line) + "\n")
    rng = np.random.default_rng(0)
    words = sorted({word for row in pairs for word in row["premise"].lower().split()})
    vectors = rng.normal(size=(len(words), 8))
    rows = [f"{w} {' '.join(f'{x:.5f}' for x in v)}" for w, v in zip(words, vectors, strict=True)]
    (folder / "vectors.txt").write_text("\n".join(rows) + "\n")
    for name, part in (("train", pairs[:400]), ("dev", pairs[400:])):
        lines = [
            "\t".join(["main", "made", "2026", str(i), f"{rng.uniform(0, 5):.3f}",
                       row["premise"], row["hypothesis"]])
            for i, row in enumerate(part)
        ]  # fmt: skip
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def sources(job: str, place: str) -> list[str]:
    """The options that name corpora, which lie in a folder or bucket."""
    if job == "tune_gumbel":
        return [f"--corpus=snli:{place}/snli.jsonl"]
    if job == "tune_laes":
        return [f"--corpus=stsb:{place}/train.csv", f"--dev=stsb:{place}/dev.csv",
                f"--vectors=glove:{place}/vectors.txt"]  # fmt: skip
    return []


def found(text: str) -> list[dict[str, Any]]:
    """The curves and metrics of all trials, without what depends on the clock."""
    trials = json.loads(text)["trials"]
    return [
        {
            "settings": {k: v for k, v in trial["settings"].items() if k != "vectors"},
            "readouts": trial["readouts"],
            "metrics": {k: v for k, v in trial["metrics"].items() if not k.startswith("train/")},
            "loss": trial["metrics"].get("train/loss"),
        }
        for trial in trials
    ]


@pytest.mark.parametrize("job", OPTIONS if SOAK else ["tune_gumbel"])
def test_over_s3_two_machines_train_what_one_trains(
    job: str, s3: Bucket, two: Machines, recorder: Recorder, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    recorder.requests.clear()
    given = [*sources(job, "s3://corpora"), "--study=two", f"--storage=s3://studies/{job}"]
    optuna = f"sqlite:///{two.home}/{job}.db"
    done = two.run(job, *given, f"--optuna={optuna}", f"--tracking={optuna}.mlflow", *OPTIONS[job])
    assert done.returncode == 0, done.stdout + done.stderr
    buckets = s3.folder / "buckets"
    summary = (buckets / "studies" / job / "two" / "summary.json").read_text()
    both = found(summary)
    derived = json.loads(summary)["lineage"]["chain"]["derived"]
    assert derived
    assert all(name.startswith(".cache/") for name in derived), "verify finds it in the storage"
    cache = buckets / "studies" / job / ".cache"
    kinds = {path.name for path in cache.iterdir()}
    assert "encoders" in kinds
    assert {"tokens", "sentences"} & kinds
    fetched = list((two.files("worker") / ".cache" / "sentune" / "fetched").iterdir())
    assert len(fetched) == len({path.name for path in fetched}) > 0
    for name in ("snli.jsonl", "train.csv"):
        read_here = [line for line in recorder.requests if b"GET /corpora/" + name.encode() in line]
        assert not read_here, "a worker reads the training corpus"

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    own = sources(job, str(buckets / "corpora"))
    finish(job, [*own, "--study=one", *OPTIONS[job]], tmp_path, own_ray=True)
    alone = found((tmp_path / "one" / "summary.json").read_text())
    assert len(alone[0]["metrics"]) > 1
    logger.info("%s: on two machines %s, on one %s", job, both, alone)
    assert both == alone, "bit for bit"


def test_over_a_shared_folder(two: Machines) -> None:
    done = two.run(
        "tune_gumbel", *sources("tune_gumbel", "s3://corpora"), f"--storage={two.shared}",
        *OPTIONS["tune_gumbel"],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (two.shared / ".cache" / "tokens").is_dir()
    assert json.loads((two.shared / "gumbel" / "summary.json").read_text())["state"] == "complete"


def test_a_cache_that_one_machine_sees_alone_is_one_sentence(two: Machines) -> None:
    done = two.run(
        "tune_gumbel", *sources("tune_gumbel", "s3://corpora"), f"--storage={two.shared}/other",
        f"--cache={two.home}/mine", *OPTIONS["tune_gumbel"],
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert f"node {socket.gethostname()}: {two.home}/mine/tokens/" in said
    assert "there is no such file; give --cache URI, an object store or a folder" in said
    assert "RayTaskError" not in said
    assert "Traceback" not in said
