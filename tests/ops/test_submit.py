"""`ray job submit` against a cluster with token authentication, as a user does it.

Three versions of the code take part: one is mounted on the nodes, an older one is installed there,
and a third one is submitted. Each names itself in ``sentune.errors.MARK``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentune.beats import repeated
from sentune.code import read_code

pytestmark = pytest.mark.cluster

WITH_UPLOAD = ("--working-dir", ".", "--", "python")
WITHOUT_UPLOAD = ("--", "python")


@pytest.fixture(scope="module")
def project(
    tmp_path_factory: pytest.TempPathFactory, new_project: Callable[[Path, str], Path]
) -> Path:
    return new_project(tmp_path_factory.mktemp("user") / "project", "submitted")


def _fingerprint(project: Path) -> str:
    return read_code(project / "platform/sentune").fingerprint


def test_driver_and_worker_run_the_submitted_code(
    cluster: Any, project: Path, tmp_path: Path
) -> None:
    """The job fails at its end, and says so; a log grows in the folder while it is uploaded."""
    out = str(tmp_path / "out")
    log = (project / "run.log").open("a")
    with log, repeated(lambda: print("grows", file=log, flush=True), 0.01, "log"):
        done = cluster.submit(*WITH_UPLOAD, "jobs/which_code.py", out, "--fail", cwd=project)
    assert done.returncode == 1
    assert "exit code 3" in done.stdout + done.stderr
    assert "driver runs submitted" in done.stdout
    seen = json.loads((tmp_path / "out").read_text())
    assert seen["driver"]["mark"] == seen["worker"]["mark"] == "submitted"
    assert seen["driver"]["fingerprint"] == seen["worker"]["fingerprint"] == _fingerprint(project)
    assert not [name for name in seen["cwd"] if re.match(r"(\.git|\.venv|data)(/|$)", name)]


def test_a_job_in_the_mounted_project_runs_the_mounted_code(
    cluster: Any, project: Path, tmp_path: Path
) -> None:
    done = cluster.submit(*WITHOUT_UPLOAD, "jobs/which_code.py", str(tmp_path / "out"), cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads((tmp_path / "out").read_text())
    assert seen["driver"]["mark"] == seen["worker"]["mark"] == "mounted"
    assert seen["worker"]["fingerprint"] == _fingerprint(cluster.mounted) != _fingerprint(project)


def test_workers_with_other_code_are_refused(cluster: Any, project: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    done = cluster.submit(*WITH_UPLOAD, "jobs/which_code.py", out, "--naive", cwd=project)
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert not Path(out).exists()
    assert f"the driver runs code {_fingerprint(project)}" in said
    assert "sentune/errors.py" in said
    assert "older/platform/sentune" in said


def test_without_the_bootstrap_the_installed_code_would_run(
    cluster: Any, project: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    done = cluster.submit(*WITH_UPLOAD, "jobs/no_bootstrap.py", out, cwd=project)
    assert "driver runs installed" in done.stdout


@pytest.mark.parametrize("token", [None, "another-token-0123456789"])
def test_without_the_token_nothing_is_accepted(
    cluster: Any, project: Path, tmp_path: Path, token: str | None
) -> None:
    env = cluster.env | {"HOME": str(tmp_path)}
    del env["RAY_AUTH_MODE"]
    if token is not None:
        env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    out = tmp_path / "out"
    done = cluster.submit(*WITH_UPLOAD, "jobs/which_code.py", str(out), cwd=project, env=env)
    assert done.returncode != 0
    assert "token" in (done.stdout + done.stderr).lower()
    assert not out.exists()


@pytest.mark.timeout(1200)
def test_a_stopped_job_leaves_checkpoints_and_goes_on(
    cluster: Any, project: Path, tmp_path: Path
) -> None:
    """``ray job stop`` sends SIGTERM; the cluster lets the job write what its trials have."""
    options = "--trials 1 --max-examples 12000 --finalists 0 --set batch_size=32 --study s"
    job = ["jobs/tune_gumbel.py", *options.split(), "--storage", str(tmp_path)]
    begun = cluster.submit("--no-wait", "--submission-id=first", *WITH_UPLOAD, *job, cwd=project)
    assert begun.returncode == 0, begun.stdout + begun.stderr
    deadline = time.monotonic() + 600
    while not list(tmp_path.glob("s/trials/*/*/progress.json")):
        assert time.monotonic() < deadline, cluster.job("logs", "first").stdout[-3000:]
        time.sleep(0.2)
    stopped = cluster.job("stop", "first")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    logs = cluster.job("logs", "first").stdout
    assert "ended by a signal; the same command resumes the study" in logs
    summary = json.loads((tmp_path / "s/summary.json").read_text())
    assert summary["state"] == "interrupted"
    [before] = summary["trials"]
    assert 0 < before["examples"] < 12000
    done = cluster.submit(*WITH_UPLOAD, *job, cwd=project, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "s/summary.json").read_text())
    assert (summary["state"], summary["trials"][0]["examples"]) == ("complete", 12000)
    assert summary["spent"]["examples"] == 12000, "no example was trained on twice"
    assert "direction/accuracy" in summary["trials"][0]["metrics"]
    assert "direction/accuracy" in done.stdout


@pytest.mark.timeout(1200)
def test_a_wrong_option_ends_a_job_before_the_cluster_is_used(cluster: Any, project: Path) -> None:
    done = cluster.submit(*WITH_UPLOAD, "jobs/tune_gumbel.py", "--trials", "0", cwd=project)
    assert done.returncode == 1
    assert "--trials" in done.stdout + done.stderr
