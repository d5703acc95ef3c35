"""``sentune cluster check`` on a real small cluster."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import ray
from rich.console import Console

from sentune.cli.cluster import check_cluster
from sentune.cluster.findings import Finding, findings_of
from sentune.study.planning import cluster_doctor
from sentune.study.planning.cluster_doctor import ask_nodes

pytestmark = pytest.mark.cluster

VERSIONS = {"ray": ray.__version__, "python": platform.python_version()}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_JOB_STOP_WAIT_TIME_S", "300")
        ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level="ERROR")
        yield
        ray.shutdown()


def test_a_node_that_answers_once_alone_is_left_after_the_stated_time(
    cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> None:
        time.sleep(3600)

    monkeypatch.setattr(cluster_doctor, "clock", silent)
    monkeypatch.setattr(cluster_doctor, "CLOCK_PATIENCE", 2.0)
    (answer,) = ask_nodes({})
    assert answer.trouble == "no second answer within 2 s"


def test_a_real_node_answers(cluster: None, tmp_path: Path) -> None:
    places = {"storage": f"{tmp_path}/studies", "Optuna": f"sqlite:///{tmp_path}/optuna.db"}
    [answer] = ask_nodes(places)
    assert not [found for found in findings_of([answer], **VERSIONS) if not found.ok], answer
    assert answer.reach == {"storage": "", "Optuna": ""}
    assert (answer.cpus, answer.gpus) == (1, answer.gpus_seen)
    low, high = answer.clock
    assert low <= 0 <= high  # driver and node share a clock
    assert not (tmp_path / "studies").exists(), "the check left a folder behind"
    one_more = replace(answer, gpus=answer.gpus + 1)
    assert [f.subject for f in findings_of([one_more], **VERSIONS) if not f.ok] == ["GPUs"]


def test_what_the_driver_cannot_write_is_a_cross_of_the_storage(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command, but for joining: this process has joined already."""
    (tmp_path / "file").write_text("")
    reachable = Finding("reachable", "")
    monkeypatch.setattr(cluster_doctor, "joined", lambda address: [reachable])
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    console = Console(record=True, width=300)
    places = {"storage": f"{tmp_path}/file"}
    assert not check_cluster("127.0.0.1:1", places, console)
    printed = console.export_text()
    assert printed.count("✗") == 1
    assert "the driver cannot write it" in printed


def test_the_command_joins_and_leaves_a_cluster(cluster: None, tmp_path: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    places = ["--storage", str(tmp_path), "--optuna", f"sqlite:///{tmp_path}/optuna.db"]
    command = [sys.executable, "-m", "sentune", "cluster", "check", "--address", address, *places]
    good = subprocess.run(command, capture_output=True, text=True, check=False)
    assert good.returncode == 0, good.stdout + good.stderr
    assert "✗" not in good.stdout
    assert "✓  authentication  token on every node" in good.stdout
