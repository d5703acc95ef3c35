"""A head as cluster.yaml starts one, and everybody who has no token."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

TOKEN = "a-token-of-this-test-only-0123456789"
BIN = Path(sys.executable).parent
JOB = {"entrypoint": "touch {mark}"}


@dataclass(frozen=True)
class Head:
    """Where a running head listens."""

    port: int
    dashboard: int
    client: int
    env: dict[str, str]

    def asked(self, path: str, token: str | None, body: object = None) -> tuple[int, str]:
        """Status and text of an answer."""
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {token}"} if token is not None else {}
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.dashboard}{path}"
        request = urllib.request.Request(url, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """A head without CPUs, with token authentication, on the loopback address alone."""
    work = tmp_path_factory.mktemp("head")
    token = work / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    temporary = Path(tempfile.mkdtemp(prefix="s", dir="/tmp"))  # Unix sockets allow 107 characters
    port, dashboard, client, *agents = free_ports(6)
    env = {
        "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(work),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "OMP_NUM_THREADS": "1",
        "SENTUNE_TEST_DOORS": str(temporary),
    }
    options = ("dashboard-agent-listen-port", "metrics-export-port", "runtime-env-agent-port")
    command = [
        *(str(BIN / "ray"), "start", "--head", "--block", "--disable-usage-stats"),
        *("--num-cpus=0", "--num-gpus=0", "--node-ip-address=127.0.0.1", f"--port={port}"),
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"),
        *(f"--ray-client-server-port={client}", f"--temp-dir={temporary}"),
        *(f"--{name}={number}" for name, number in zip(options, agents, strict=True)),
        *("--min-worker-port=0", "--max-worker-port=0"),
    ]
    log = (work / "head.log").open("wb")
    process = subprocess.Popen(
        command, env=env, cwd=work, stdout=log, stderr=log, start_new_session=True
    )
    found = Head(port, dashboard, client, env)
    try:
        wait_for(found, process, work / "head.log")
        yield found
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        finally:
            end(str(temporary))
            log.close()
            shutil.rmtree(temporary, ignore_errors=True)


def wait_for(head: Head, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            if head.asked("/api/jobs/", TOKEN)[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.5)
    pytest.fail(log.read_text()[-2000:])


def end(mark: str) -> None:
    """Ends what carries the mark in its environment, this test's processes alone."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"SENTUNE_TEST_DOORS={mark}".encode() in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:  # it ended, or is another user's
            continue


WRONG = [None, "", "another-token-0123456789", TOKEN[:-1], TOKEN.upper(), f"{TOKEN} "[1:]]


@pytest.mark.parametrize("token", WRONG)
def test_no_job_is_taken_without_the_token(head: Head, token: str | None, tmp_path: Path) -> None:
    job = {"entrypoint": f"touch {tmp_path}/mark"}
    status, said = head.asked("/api/jobs/", token, job)
    assert status in (401, 403), said
    assert "submission_id" not in said
    assert json.loads(head.asked("/api/jobs/", TOKEN)[1]) == []
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "path",
    ["/api/jobs/", "/api/version", "/nodes?view=summary", "/api/v0/actors"],
)
def test_no_page_of_the_cluster_is_shown_without_the_token(head: Head, path: str) -> None:
    for token in WRONG:
        assert head.asked(path, token)[0] in (401, 403)
    assert head.asked(path, TOKEN)[0] == 200


def test_a_page_of_another_origin_cannot_use_a_browser_that_has_none(head: Head) -> None:
    """CSRF: the token is no cookie of another site, and a form has no such header."""
    url = f"http://127.0.0.1:{head.dashboard}/api/jobs/"
    headers = {"Origin": "http://evil.example", "Content-Type": "text/plain"}
    request = urllib.request.Request(url, json.dumps(JOB).encode(), headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code in (401, 403)


def test_the_dashboard_is_shut_on_other_addresses(head: Head) -> None:
    """127.0.0.2 stands for another address of this machine."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", head.dashboard), timeout=10).close()
    socket.create_connection(("127.0.0.1", head.dashboard), timeout=10).close()


DRIVER = """
import ray, sys
ray.init(sys.argv[1], log_to_driver=False)
print("INSIDE", len(ray.nodes()))
"""


def test_neither_ray_client_nor_driver_gets_in_without_the_token(
    head: Head, tmp_path: Path
) -> None:
    """With it a driver does. All at once: a client that is refused tries for half a minute."""
    client, driver = f"ray://127.0.0.1:{head.client}", f"127.0.0.1:{head.port}"
    wrong = "another-token-0123456789"
    cases = [(client, wrong), (driver, None), (driver, wrong), (driver, TOKEN)]
    running = [connecting(head, address, token, tmp_path) for address, token in cases]
    ends = [process.communicate(timeout=240) for process in running]
    assert [b"INSIDE" in out for out, _ in ends] == [False, False, False, True], ends
    assert [process.returncode != 0 for process in running[:3]] == [True] * 3
    assert b"oken" in ends[1][1]
    assert b"oken" in ends[2][1]


def connecting(head: Head, address: str, token: str | None, home: Path) -> subprocess.Popen[bytes]:
    """A process that joins the cluster, with what its user has."""
    env = {"PATH": head.env["PATH"], "HOME": str(home), "OMP_NUM_THREADS": "1"}
    if token is not None:
        env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, address],
        env=env, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
