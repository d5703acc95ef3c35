"""The server of ``sentune dashboard``, and pages, names and paths that want more of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sentune.cli.dashboard import server_command
from sentune.tracking.database import ensure_database
from sentune.tracking.environment import quieten_mlflow, tracking_uri_in

pytestmark = pytest.mark.servers

SECRET = "what nobody but its owner reads"


@dataclass(frozen=True)
class Server:
    """A running server and what lies beside its artifacts."""

    port: int
    storage: Path
    run: str
    experiment: str

    def ask(
        self, path: str, body: object = None, method: str = "", **headers: str
    ) -> tuple[int, str]:
        """Status and text; the path goes out as it is, nothing made straight."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        sent = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method or ("POST" if data else "GET"), path, data, sent)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        connection.close()
        return answer.status, text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    storage = tmp_path_factory.mktemp("mlflow") / "studies"
    storage.mkdir()
    (storage.parent / "secret.txt").write_text(SECRET)
    uri = tracking_uri_in(str(storage))
    ensure_database(uri)
    quieten_mlflow()
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.create_experiment("doors", str(storage / "artifacts"))
    run = client.create_run(experiment).info.run_id
    (storage / "note.txt").write_text("a note")
    client.log_artifact(run, str(storage / "note.txt"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    env = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        server_command(str(storage), port),
        cwd=storage.parent, env=env, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    found = Server(port, storage, run, experiment)
    try:
        wait_for(found, process)
        yield found
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        try:
            if server.ask("/health")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.3)
    pytest.fail("the server does not answer")


def experiments(server: Server) -> list[str]:
    body = {"max_results": 100}
    told = json.loads(server.ask("/api/2.0/mlflow/experiments/search", body)[1])
    return sorted(one["name"] for one in told["experiments"])


def test_it_listens_on_the_loopback_address_alone(server: Server) -> None:
    with pytest.raises(ConnectionRefusedError):  # another address of this machine
        socket.create_connection(("127.0.0.2", server.port), timeout=10).close()
    assert server.ask("/")[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:5000", "localhost.evil.example", "10.0.0.1",
             "[::]", ""],
)  # fmt: skip
def test_a_rebound_name_is_refused(server: Server, host: str) -> None:
    assert server.ask("/", Host=host)[0] in (400, 403)
    path = "/api/2.0/mlflow/experiments/search"
    assert server.ask(path, {"max_results": 5}, Host=host)[0] in (400, 403)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_let_in(server: Server, host: str) -> None:
    assert server.ask("/", Host=f"{host}:{server.port}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1.evil.example", "null"])
def test_a_page_elsewhere_changes_nothing_and_reads_nothing(server: Server, origin: str) -> None:
    before = experiments(server)
    body = {"name": f"made by {origin}"}
    path = "/api/2.0/mlflow/experiments/create"
    for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
        assert server.ask(path, body, Origin=origin, Content_Type=kind)[0] == 403
    wants = {"Access_Control_Request_Method": "POST", "Origin": origin}
    status, _ = server.ask(path, method="OPTIONS", **wants)
    assert status in (400, 403)
    assert experiments(server) == before


DOTS = ("../../secret.txt", "%2e%2e/%2e%2e/secret.txt", "..%2f..%2fsecret.txt",
        "%252e%252e%252f%252e%252e%252fsecret.txt", "....//....//secret.txt",
        "..\\..\\secret.txt", "..%5c..%5csecret.txt", "/etc/passwd", "%2fetc%2fpasswd",
        "file:///etc/passwd", "note.txt/../../../../../secret.txt", "..%00/secret.txt",
        "../../../../../../../../../../etc/passwd", "#/../../secret.txt")  # fmt: skip


@pytest.mark.parametrize("path", DOTS)
def test_no_artifact_path_leads_out(server: Server, path: str) -> None:
    asked = (
        f"/get-artifact?run_uuid={server.run}&path={path}",
        f"/ajax-api/2.0/mlflow/get-artifact?run_uuid={server.run}&path={path}",
        f"/api/2.0/mlflow/artifacts/list?run_id={server.run}&path={path}",
        f"/ajax-api/2.0/mlflow/artifacts/list?run_id={server.run}&path={path}",
        f"/api/2.0/mlflow-artifacts/artifacts/{path}",
        f"/api/2.0/mlflow-artifacts/artifacts?path={path}",
        f"/static-files/{path}",
        f"/{path}",
    )
    for url in asked:
        if "#" in url or "\\" in url:
            url = url.replace("#", "%23").replace("\\", "%5c")
        status, text = server.ask(url)
        assert SECRET not in text, url
        assert "root:" not in text, url
        assert status >= 400 or "secret.txt" not in text, url


@pytest.mark.parametrize("path", DOTS[:6])
def test_no_artifact_is_written_outside(server: Server, path: str) -> None:
    target = path.replace("secret", "written").replace("\\", "%5c")
    for url in (
        f"/api/2.0/mlflow-artifacts/artifacts/{target}",
        f"/ajax-api/2.0/mlflow/upload-artifact?run_uuid={server.run}&path={target}",
    ):
        server.ask(url, b"x", method="PUT")
        server.ask(url, b"x", method="POST")
    assert not list(server.storage.parent.rglob("written*"))
    assert (server.storage.parent / "secret.txt").read_text() == SECRET


def test_the_artifacts_that_there_are_can_be_read(server: Server) -> None:
    assert server.ask(f"/get-artifact?run_uuid={server.run}&path=note.txt") == (200, "a note")
