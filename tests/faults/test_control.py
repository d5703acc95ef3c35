"""A real job, stopped, interrupted and resumed by its user: exit codes, and what goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JOB = [
    sys.executable, "jobs/tune_simcse.py", "--study", "s", "--corpus", "builtin:nli?size=3000",
    "--dev", "builtin:nli?split=dev&size=200", "--trials", "2", "--max-examples", "6000",
    "--finalists", "1", "--seeds", "1", "--concurrent", "1", "--scheduler", "none",
    "--set", "batch_size=32", "--validate-every", "1000",
]  # fmt: skip
SENTUNE = [sys.executable, "-m", "sentune", "study"]
MILESTONE = re.compile(r"trial \d at [\d,]+ examples")
PATIENCE = 400
"""Seconds that anything here may take; nothing is judged by them."""


class Started:
    """A process whose output can be waited for."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform"), "OMP_NUM_THREADS": "1"}
        with log.open("w") as out:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=environment
            )

    def until(self, said: Callable[[str], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not said(self.log.read_text()):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def end(self) -> tuple[int, str]:
        code = self.process.wait(PATIENCE)
        return code, self.log.read_text()


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform")}
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, env=environment,
        check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_job_is_stopped_interrupted_and_resumed_and_ends_with_a_model(tmp_path: Path) -> None:
    storage = ["--storage", str(tmp_path)]
    first = Started([*JOB, *storage], tmp_path / "first.log")
    first.until(MILESTONE.search)
    second = run([*JOB, *storage])
    assert second.returncode == 2
    assert "is driven by another process" in second.stderr
    assert str(first.process.pid) in second.stderr
    listed = run([*SENTUNE, "ls", *storage])
    assert "running" in listed.stdout, listed.stderr
    asked = run([*SENTUNE, "stop", "s", *storage])
    assert asked.returncode == 0, asked.stderr
    code, said = first.end()
    assert code == 3, said
    assert "stopped by `sentune study stop`" in said
    assert json.loads((tmp_path / "s" / "summary.json").read_text())["state"] == "stopped"

    again = Started([*JOB, *storage], tmp_path / "second.log")
    again.until(MILESTONE.search)
    again.process.send_signal(signal.SIGINT)
    code, said = again.end()
    assert code == 130, said
    assert "the same command resumes the study" in said

    last = run([*SENTUNE, "resume", "s", *storage])
    assert last.returncode == 0, last.stdout + last.stderr
    summary = json.loads((tmp_path / "s" / "summary.json").read_text())
    assert summary["state"] == "complete"
    assert [t["state"] for t in summary["trials"]] == ["complete"] * 2
    assert all(t["examples"] == 6000 for t in summary["trials"])
    assert summary["spent"]["trials"] == 2
    assert (tmp_path / "s" / "model" / "model.safetensors").is_file()
    assert "# s (complete)" in (tmp_path / "s" / "report.md").read_text()
