"""The whole system once, on one small Ray cluster.

One study through each launcher, a Train group that is stopped, a driver that is killed and resumed,
and a job through ``ray job submit`` whose MLflow server is down when it starts.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from mlflow import MlflowClient

from tests.ray_nodes import BIN
from tests.servers import HOST, folder_of, free_port, mlflow_server
from tests.smoke.conftest import ROOT, Head

JOB = (
    "jobs/tune_gumbel.py --trials 1 --max-examples 256 --limit 256 --finalists 0"
    " --set batch_size=32 --set dimension=8 --study smoke"
)
OBJECTIVE = "direction/accuracy"


@pytest.fixture(scope="module")
def inline(head: Head, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The toy study, each trial in one process."""
    return head.run(tmp_path_factory.mktemp("inline"))


@pytest.fixture(scope="module")
def train(head: Head, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The toy study, each trial in a group of Ray Train of both CPUs."""
    return head.run(tmp_path_factory.mktemp("train"), "train")


def test_a_study_of_trials_in_one_process(inline: dict[str, Any]) -> None:
    assert inline["state"] == "complete"
    assert inline["rows"] == [
        ["complete", {"x": 3}, {"100": 0.1 - 3, "300": 0.3 - 3}],
        ["pruned", {"x": 7}, {"100": 0.1 - 7}],
    ]


def test_a_study_of_ray_train_groups_has_the_same_metrics(
    inline: dict[str, Any], train: dict[str, Any]
) -> None:
    assert train["state"] == "complete"
    assert train["rows"] == inline["rows"]


def test_a_train_group_that_is_stopped_gives_back_what_it_held(train: dict[str, Any]) -> None:
    assert train["rows"][1][0] == "pruned"
    assert (train["cpus"], train["groups"]) == (2.0, 0)


def test_a_study_whose_driver_is_killed_goes_on_from_its_checkpoint(
    head: Head, inline: dict[str, Any], tmp_path: Path
) -> None:
    wait = tmp_path / "wait"
    wait.touch()
    driver = head.start(tmp_path)
    until(lambda: bool(wait.read_text()), driver)
    assert any((tmp_path / "toy/trials").glob("*/*/progress.json"))
    driver.kill()
    driver.communicate()
    worker = int(wait.read_text())
    until(lambda: not psutil.pid_exists(worker))  # Ray ends it; until then it would go on
    wait.unlink()
    resumed = head.run(tmp_path)
    assert (resumed["state"], resumed["rows"]) == ("complete", inline["rows"])
    worked = (tmp_path / "worked").read_text().splitlines()
    assert worked == ["0000 100", "0000 300", "0001 100"], "no milestone was worked at twice"


def until(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Wait until a condition holds, while a process runs."""
    deadline = time.monotonic() + 300
    while not condition():
        if process is not None and process.poll() is not None:
            pytest.fail(f"it ended: {process.communicate()[0]}")
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A job that was submitted while its MLflow server was down, and what it left.

    Attributes:
        code: exit code of ``ray job submit``.
        output: what the job and the command printed.
        storage: folder of its study.
        runs: MLflow's run name -> steps of the objective, once the server was up.
        states: MLflow's run name -> state.
    """

    code: int
    output: str
    storage: Path
    runs: dict[str, list[int]]
    states: dict[str, str]


def submit(head: Head, storage: Path, tracking: str) -> subprocess.Popen[str]:
    """Start ``ray job submit`` of a small study, this project's folder uploaded."""
    command = [str(BIN / "ray"), "job", "submit", "--working-dir", str(ROOT), "--", "python"]
    command += [*JOB.split(), "--storage", str(storage), "--tracking", tracking]
    return subprocess.Popen(
        command, env={**head.env, "RAY_ADDRESS": head.dashboard}, cwd=storage,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def submitted(head: Head, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitted]:
    """The server starts once the study has; what it misses is sent by the same command again."""
    storage, port = tmp_path_factory.mktemp("studies"), free_port()
    tracking = f"http://{HOST}:{port}"
    with folder_of("mlflow", None) as folder:
        job = submit(head, storage, tracking)
        until(lambda: (storage / "smoke/trials").exists(), job)
        database = f"sqlite:///{folder}/mlflow.db"
        with mlflow_server(folder, port, backend=database, artifacts=str(folder / "files")):
            output, _ = job.communicate(timeout=500)
            if "MLflow has not received everything" in output:
                submit(head, storage, tracking).communicate(timeout=500)
            client = MlflowClient(tracking)
            found = client.search_runs([e.experiment_id for e in client.search_experiments()])
            runs = {
                run.data.tags["sentune.run"]: [
                    point.step for point in client.get_metric_history(run.info.run_id, OBJECTIVE)
                ]
                for run in found
            }
            states = {run.data.tags["sentune.run"]: run.info.status for run in found}
            yield Submitted(
                code=job.returncode, output=output, storage=storage, runs=runs, states=states
            )


def test_a_submitted_job_leaves_a_study_and_a_model(submitted: Submitted) -> None:
    assert submitted.code == 0, submitted.output[-6000:]
    summary = json.loads((submitted.storage / "smoke/summary.json").read_text())
    assert summary["state"] == "complete"
    assert OBJECTIVE in summary["trials"][0]["metrics"]
    assert (submitted.storage / "smoke/model/model.safetensors").exists()
    assert OBJECTIVE in submitted.output


def test_mlflow_has_what_happened_while_its_server_was_down(submitted: Submitted) -> None:
    assert "does not answer" in submitted.output
    assert submitted.states == {"study": "FINISHED", "trial-0000": "FINISHED"}
    assert submitted.runs["trial-0000"] == [86, 256]
