"""One Ray cluster for all smoke tests: a head with two CPUs, a token and a dashboard."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.ray_nodes import BIN, end, node
from tests.servers import free_port

ROOT = Path(__file__).resolve().parents[2]
STUDY = Path(__file__).with_name("toy_study.py")
TOKEN = "a-token-of-the-smoke-tests-0123456789"


@dataclass(frozen=True, kw_only=True)
class Head:
    """A running head.

    Attributes:
        address: ``HOST:PORT`` that a driver connects to.
        dashboard: URL of the job server.
        env: of a process that may use it.
    """

    address: str
    dashboard: str
    env: Mapping[str, str]

    def start(self, storage: Path, launcher: str = "inline") -> subprocess.Popen[str]:
        """Start a driver of the toy study."""
        command = [sys.executable, str(STUDY), self.address, str(storage), launcher]
        return subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, storage: Path, launcher: str = "inline") -> dict[str, Any]:
        """Run the toy study to its end; return what its driver prints as JSON."""
        driver = self.start(storage, launcher)
        said, errors = driver.communicate(timeout=400)
        assert driver.returncode == 0, errors[-4000:]
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """The cluster; its processes carry a mark in their environment, and only these are ended."""
    work = tmp_path_factory.mktemp("smoke")
    temporary = Path(tempfile.mkdtemp(prefix="k", dir="/tmp"))  # Unix sockets allow 107 characters
    port, dashboard = free_port(), free_port()
    env = {
        "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(work),
        "PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "OMP_NUM_THREADS": "1",
        "SENTUNE_TEST_SMOKE": str(temporary),
    }
    options = ["--head", "--num-cpus=2", "--num-gpus=0", "--node-ip-address=127.0.0.1"]
    options += [f"--port={port}", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
    options += [f"--temp-dir={temporary}", f"--ray-client-server-port={free_port()}"]
    options += ["--min-worker-port=0", "--max-worker-port=0"]
    found = Head(address=f"127.0.0.1:{port}", dashboard=f"http://127.0.0.1:{dashboard}", env=env)
    try:
        with node(options, env, work, work / "head.log"):
            wait_for_jobs(found, work / "head.log")
            yield found
    finally:
        end(f"SENTUNE_TEST_SMOKE={temporary}")
        shutil.rmtree(temporary, ignore_errors=True)


def wait_for_jobs(head: Head, log: Path) -> None:
    """Wait until the job server answers."""
    asked = urllib.request.Request(
        f"{head.dashboard}/api/jobs/", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    deadline, trouble = time.monotonic() + 300, ""
    while time.monotonic() < deadline:
        try:
            return urllib.request.urlopen(asked, timeout=60).close()
        except OSError as error:
            trouble = str(error)
            time.sleep(0.2)
    raise AssertionError(f"the head did not come up: {trouble}\n{log.read_text()[-4000:]}")
