"""Ray nodes that tests start as processes of their own, and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import free_port

BIN = Path(sys.executable).parent


def marked(mark: str) -> list[int]:
    """Processes whose environment carries the mark, this one left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # the process ended, or is another user's
            continue
    return [pid for pid in found if pid != os.getpid()]


def end(mark: str, seconds: float = 20.0) -> None:
    """Ends all processes that carry the mark: asks first, then insists."""
    deadline = time.monotonic() + seconds
    for sign, until in ((signal.SIGTERM, deadline), (signal.SIGKILL, deadline + seconds)):
        for pid in marked(mark):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                continue
        while marked(mark) and time.monotonic() < until:
            time.sleep(0.2)


@contextmanager
def node(arguments: list[str], env: dict[str, str], cwd: Path, log: Path) -> Iterator[None]:
    """``ray start --block ARGUMENTS`` until the block ends."""
    agents = ["--dashboard-agent-listen-port", "--metrics-export-port", "--runtime-env-agent-port"]
    ports = [f"{option}={free_port()}" for option in agents]
    command = [str(BIN / "ray"), "start", "--block", "--disable-usage-stats", *ports, *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=env, cwd=cwd, stdout=out, stderr=out, start_new_session=True
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def wait_for_nodes(address: str, env: dict[str, str], logs: Path, nodes: int = 2) -> None:
    """Waits until the job server answers and both nodes have joined."""
    deadline = time.monotonic() + 300
    command = [str(BIN / "ray"), "list", "nodes", "--address", address, "--format", "json"]
    answer = ""
    while time.monotonic() < deadline:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        answer = done.stdout + done.stderr
        if done.returncode == 0 and done.stdout.count('"ALIVE"') == nodes:
            return
        time.sleep(1)
    started = "\n".join(path.read_text(errors="replace")[-2000:] for path in logs.glob("*.log"))
    pytest.fail(f"the cluster did not come up\n{answer}\n{started}")
