"""A real job, stopped, interrupted and resumed by its user: exit codes, and what goes on.

On a disk, and with storage, corpora, trials and tracking on servers, as on a cluster.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from sentune import Embedder
from sentune.corpora import Kind
from sentune.corpora.prepare import prepare
from sentune.errors import InvalidValue
from sentune.io.atomic import read_document
from sentune.io.object_store import files_at
from sentune.study.store.driver_lock import backend_of
from sentune.summary import read_summary
from tests import forked
from tests.faults.conftest import Place, environment_of

ROOT = Path(__file__).parents[2]
CORPUS, DEV = "builtin:nli?size=3000", "builtin:nli?split=dev&size=200"
JOB = [
    "jobs/tune_simcse.py", "--study", "s", "--trials", "2",
    "--max-examples", "6000", "--finalists", "1", "--seeds", "1", "--concurrent", "1",
    "--scheduler", "none", "--set", "batch_size=32", "--validate-every", "1000",
    "--test", "builtin:nli?split=test&size=60",
]  # fmt: skip
SENTUNE = ["-m", "sentune", "study"]
MILESTONE = re.compile(r"trial \d at [\d,]+ examples")
PATIENCE = 400
"""Seconds that anything here may take; nothing is judged by them."""


class Started:
    """A process whose output can be waited for."""

    def __init__(self, command: list[str], log: Path, place: Place) -> None:
        self.log = log
        paths = {"PYTHONPATH": str(ROOT / "platform"), "OMP_NUM_THREADS": "1"}
        environment = environment_of(place, **paths)
        self.process = forked.Program(command, cwd=ROOT, env=environment, log=log)

    def until(self, said: Callable[[str], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not said(self.log.read_text()):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def end(self) -> tuple[int, str]:
        code = self.process.wait(PATIENCE)
        return code, self.log.read_text()


def run(command: list[str], place: Place) -> subprocess.CompletedProcess[str]:
    environment = environment_of(place, PYTHONPATH=str(ROOT / "platform"))
    return forked.run(command, cwd=ROOT, env=environment, timeout=PATIENCE)


def corpora_in(place: Place) -> list[str]:
    """The corpora as options; over servers they are read from the bucket."""
    if place.servers is None:
        return ["--corpus", CORPUS, "--dev", DEV]
    here, there = place.scratch / "corpora", f"{place.storage}-corpora"
    prepare(CORPUS, str(here / "train"), kind=Kind.TRIPLETS)
    prepare(DEV, str(here / "dev"), kind=Kind.LABELLED_PAIRS)
    files, root = files_at(there)
    for file in here.rglob("*.*"):
        files.put_file(str(file), f"{root}/{file.relative_to(here)}")
    return ["--corpus", f"parquet:{there}/train", "--dev", f"parquet:{there}/dev"]


def check_model(place: Place, summary: dict[str, Any]) -> None:
    """The model, taken to this machine where it is elsewhere, gives vectors."""
    folder = Path(place.scratch, "taken")
    files, root = files_at(f"{place.storage}/s/model")
    files.get(root, str(folder), recursive=True)
    first, second = Embedder.load(folder).encode(["A dog runs.", "A dog is running."])
    assert first.shape == second.shape
    assert summary["winner"] is not None


@pytest.mark.timeout(1800)
def test_a_job_is_stopped_interrupted_and_resumed_and_ends_with_a_model(
    place: Place, tmp_path: Path
) -> None:
    job = [*JOB, *corpora_in(place), *place.options]
    where = place.options[:4] if place.optuna else place.options
    first = Started(job, tmp_path / "first.log", place)
    first.until(MILESTONE.search)
    second = run(job, place)
    assert second.returncode == 2
    assert "is driven by another process" in second.stderr
    assert str(first.process.pid) in second.stderr
    listed = run([*SENTUNE, "ls", *where], place)
    assert "running" in listed.stdout, listed.stderr
    asked = run([*SENTUNE, "stop", "s", *where], place)
    assert asked.returncode == 0, asked.stderr
    code, said = first.end()
    assert code == 3, said
    assert "stopped by `sentune study stop`" in said
    assert read_summary(f"{place.storage}/s")["state"] == "stopped"

    again = Started(job, tmp_path / "second.log", place)
    again.until(MILESTONE.search)
    again.process.send_signal(signal.SIGINT)
    code, said = again.end()
    assert code == 130, said
    assert "the same command resumes the study" in said

    last = run([*SENTUNE, "resume", "s", *place.options], place)
    assert last.returncode == 0, last.stdout + last.stderr
    summary = read_summary(f"{place.storage}/s")
    assert summary["state"] == "complete"
    assert [t["state"] for t in summary["trials"]] == ["complete"] * 2
    assert all(t["examples"] == 6000 for t in summary["trials"])
    assert summary["spent"]["trials"] == 2
    shown = run([*SENTUNE, "show", "s", *where], place)
    assert "complete" in shown.stdout, shown.stderr
    assert "# s (complete)" in (read_document(f"{place.storage}/s", "report.md") or "")
    check_model(place, summary)
    check_runs(place)
    verified = run(["-m", "sentune", "verify", "s", *where], place)
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.timeout(1800)
def test_a_driver_whose_lock_was_taken_ends_with_3_and_writes_nothing_more(
    place: Place, tmp_path: Path
) -> None:
    started = Started([*JOB, *corpora_in(place), *place.options], tmp_path / "late.log", place)
    started.until(MILESTONE.search)
    lock = backend_of(place.trials_of("s"), "s")
    assert lock is not None
    lock.break_lock()
    code, said = started.end()
    assert code == 3, said
    assert "this driver has lost its study and has stopped" in said
    assert "Traceback" not in said
    assert read_document(f"{place.storage}/s", "summary.json") is None
    with pytest.raises(InvalidValue, match="no such folder"):
        Embedder.load(f"{place.storage}/s/model")


def check_runs(place: Place) -> None:
    """One run each, whichever start told of it."""
    client = MlflowClient(place.tracking)
    (experiment,) = [e for e in client.search_experiments() if e.name == "sentune/s"]
    names = sorted(r.info.run_name for r in client.search_runs([experiment.experiment_id]))
    assert len(names) == len(set(names)) == 1 + 2 + 1, names
