"""``sentune cluster check``: the judgement on made-up answers."""

from __future__ import annotations

import base64
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import ray
from ray.exceptions import AuthenticationError
from typer.testing import CliRunner

from sentune.cli import app
from sentune.cluster.findings import Finding, NodeAnswer, findings_of
from sentune.errors import InvalidValue, SentuneError
from sentune.study.planning import cluster_doctor, connect
from sentune.study.planning.checks import http_answer, tracking_silence
from sentune.study.planning.cluster_doctor import (
    address_of,
    database_trouble,
    job_server,
    joined,
    marked,
    storage_trouble,
    tracking_trouble,
)
from tests.servers import free_port

GOOD = NodeAnswer(
    node="10.0.0.2",
    ray="2.60.0",
    python="3.11.7",
    auth="token",
    stop_seconds=300,
    cpus=4,
    gpus=1,
    gpus_seen=1,
    reach={"storage": "", "Optuna": "", "tracking": ""},
    clock=(-0.01, 0.02),
)
HEAD = replace(GOOD, node="10.0.0.1", cpus=0, gpus=0, gpus_seen=0)


def crosses(*nodes: NodeAnswer) -> list[Finding]:
    return [found for found in findings_of(nodes, ray="2.60.0", python="3.11.7") if not found.ok]


def test_a_good_cluster_has_ticks_alone() -> None:
    found = findings_of([HEAD, GOOD], ray="2.60.0", python="3.11.7")
    assert not crosses(HEAD, GOOD)
    assert not any(finding.fix for finding in found)
    assert [finding.subject for finding in found] == [
        *("nodes answer", "authentication", "Ray", "Python", "code"),
        *("job stop", "GPUs", "storage", "Optuna", "tracking", "clocks"),
    ]


@pytest.mark.parametrize(
    ("changes", "subject", "said"),
    [
        ({"trouble": "no answer within 120 s"}, "nodes answer", "no answer"),
        ({"auth": ""}, "authentication", "RAY_AUTH_MODE=disabled"),
        ({"ray": "2.59.0"}, "Ray", "2.59.0, the driver has 2.60.0"),
        ({"python": "3.12.1"}, "Python", "3.12.1"),
        ({"code": "they differ in sentune/errors.py"}, "code", "sentune/errors.py"),
        ({"stop_seconds": 3.0}, "job stop", "Ray kills a job 3 s after ray job stop"),
        ({"gpus_seen": 0}, "GPUs", "Ray has 1, torch sees 0"),
        ({"gpus": 0}, "GPUs", "Ray has 0, torch sees 1"),
        ({"reach": {"storage": "read-only"}}, "storage", "read-only"),
        ({"reach": {"Optuna": "no route"}}, "Optuna", "no route"),
        ({"reach": {"tracking": "401"}}, "tracking", "401"),
        ({"clock": (2.5, 2.6)}, "clocks", "2.5 s ahead"),
        ({"clock": (-9.0, -8.0)}, "clocks", "8.0 s behind"),
    ],
)
def test_each_trouble_is_one_cross_that_names_the_node_and_the_fix(
    changes: dict[str, Any], subject: str, said: str
) -> None:
    [cross] = crosses(HEAD, replace(GOOD, **changes))
    assert cross.subject == subject
    assert "10.0.0.2" in cross.detail
    assert "10.0.0.1" not in cross.detail
    assert said in cross.detail
    assert cross.fix


def test_a_slow_answer_is_no_wrong_clock() -> None:
    assert not crosses(replace(GOOD, clock=(-30.0, 30.0)))


def test_a_head_may_keep_its_gpu_from_trials() -> None:
    assert not crosses(replace(HEAD, gpus_seen=1), GOOD)


def test_many_nodes_with_one_trouble_are_one_line() -> None:
    nodes = [replace(GOOD, node=f"node-{number}", ray="2.1.0") for number in range(12)]
    [cross] = crosses(*nodes)
    assert "node-4:" in cross.detail
    assert "node-5:" not in cross.detail
    assert "7 more nodes" in cross.detail


def test_without_any_answer_nothing_is_ticked_that_was_not_seen() -> None:
    found = findings_of([NodeAnswer(node="n", trouble="dead")], ray="2.60.0", python="3.11.7")
    assert not any(finding.ok for finding in found)


def test_every_node_must_see_what_the_driver_wrote(tmp_path: Path) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    with marked(str(shared)) as mark:
        assert storage_trouble(mark) == ""
        elsewhere = mark.replace(str(shared), str(other))
        assert "another folder" in storage_trouble(elsewhere)
    assert not shared.exists()


def test_a_storage_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in storage_trouble(f"{tmp_path}/file/.mark")


def test_a_database_that_cannot_be_opened_is_told_without_its_password(tmp_path: Path) -> None:
    assert database_trouble(f"sqlite:///{tmp_path}/optuna.db") == ""
    trouble = database_trouble("postgresql+psycopg2://ann:hidden@127.0.0.1:1/optuna")
    assert "127.0.0.1:1" in trouble
    assert "hidden" not in trouble


class Guarded(BaseHTTPRequestHandler):
    """Answers 401 to whoever does not say the expected header."""

    wanted: str | None = None
    version = ray.__version__
    refusal = 401
    answer = ""

    def do_GET(self) -> None:  # http.server's name
        told = self.headers.get("Authorization")
        self.send_response(200 if self.wanted in (None, told) else self.refusal)
        self.end_headers()
        self.wfile.write((self.answer or f'{{"ray_version": "{self.version}"}}').encode())

    def log_message(self, *arguments: object) -> None:
        """Nothing on the test's terminal."""


@pytest.fixture
def serve() -> Iterator[Callable[[str | None], str]]:
    servers = []

    def start(wanted: str | None) -> str:
        handler = type("Handler", (Guarded,), {"wanted": wanted})
        server = HTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_mlflow_behind_a_password(home: Path, serve: Callable[[str | None], str]) -> None:
    uri = serve("Basic " + base64.b64encode(b"ann:pass%word").decode())
    assert "asks for a user and password" in tracking_trouble(uri)
    (home / ".mlflow").mkdir()
    file = home / ".mlflow/credentials"
    file.write_text("[mlflow]\nmlflow_tracking_username = ann\nmlflow_tracking_password = wrong\n")
    assert "does not accept" in tracking_trouble(uri)
    file.write_text(file.read_text().replace("wrong", "pass%word"))
    assert tracking_trouble(uri) == ""


def test_mlflow_with_a_password_in_its_address(
    home: Path, serve: Callable[[str | None], str]
) -> None:
    uri = serve("Basic " + base64.b64encode(b"ann:pass%word").decode())
    right, wrong = (uri.replace("//", f"//ann:{said}@") for said in ("pass%25word", "s3cret"))
    assert tracking_trouble(right) == ""
    assert http_answer(f"{right}/health")[0] == 200
    assert "does not accept this user and password (401)" in tracking_trouble(wrong)
    for silent in ("http://ann:s3cret@127.0.0.1:1", "http://ann:s3cret@localhost"):
        for trouble in (tracking_silence(silent), tracking_trouble(silent)):
            assert "does not answer" in trouble
            assert "s3cret" not in trouble


def test_mlflow_without_a_password(
    home: Path, serve: Callable[[str | None], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = serve(None)
    assert tracking_trouble(uri) == ""  # on loopback
    monkeypatch.setattr(cluster_doctor, "LOOPBACK", ())
    assert "needs no password" in tracking_trouble(uri)
    assert "does not answer" in tracking_trouble("http://127.0.0.1:1")


def test_tracking_that_is_no_server_is_asked_too(tmp_path: Path) -> None:
    assert tracking_trouble(f"sqlite:///{tmp_path}/mlflow.db") == ""
    assert "nothing answers" in tracking_trouble("postgresql://ann:hidden@127.0.0.1:1/mlflow")
    assert "write http://HOST:PORT" in tracking_trouble("127.0.0.1:5000")


def test_a_job_server_is_asked_with_and_without_the_token(
    home: Path, serve: Callable[[str | None], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = serve("Bearer right")
    assert [found.ok for found in job_server(uri)] == [True, False]
    (home / ".ray").mkdir()
    (home / ".ray/auth_token").write_text("right\n")
    (home / ".ray/auth_token").chmod(0o600)
    assert [found.ok for found in job_server(uri)] == [True, True, True]
    monkeypatch.setattr(ray, "__version__", "2.1.0")
    assert [found.subject for found in job_server(uri) if not found.ok] == ["Ray"]
    monkeypatch.setattr(Guarded, "answer", "<html>")
    for other in (serve(None), serve("Bearer right")):
        [found] = job_server(other)
        assert "is not a job server" in found.detail
    monkeypatch.undo()
    [open_door] = [found for found in job_server(serve(None)) if not found.ok]
    assert "without a token" in open_door.detail
    assert not job_server("http://127.0.0.1:1")[0].ok


def test_another_server_is_no_job_server_that_refuses_a_token(
    home: Path, serve: Callable[[str | None], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guarded, "refusal", 404)
    [found] = job_server(serve("nobody"))
    assert (found.subject, found.ok) == ("reachable", False)
    assert "is not a job server (status 404)" in found.detail


def test_addresses(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_of(None) == "auto"
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:8265")
    assert address_of(None) == "http://127.0.0.1:8265"
    assert address_of("10.0.0.1:6379") == "10.0.0.1:6379"
    with pytest.raises(InvalidValue, match="--address"):
        address_of("ray://10.0.0.1:10001")
    with pytest.raises(InvalidValue, match="HOST:PORT"):
        joined("somewhere")


def test_a_job_is_told_what_to_do_about_an_address_and_not_of_an_option_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect, "ANSWER_SECONDS", 0.5)
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port()}")
    refused = pytest.raises(InvalidValue, match=r"RAY_ADDRESS.*or unset it")
    with refused as told, connect.connected():
        pass
    assert "--address" not in str(told.value)


def test_a_job_with_excludes_of_its_own_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray refuses a field that the submitted job and its driver both give, without this."""
    said, override = [], "RAY_OVERRIDE_JOB_RUNTIME_ENV"
    monkeypatch.setenv(override, "")  # so that it is taken back at the end
    monkeypatch.delenv(override)
    monkeypatch.setattr(ray, "init", lambda **_: said.append(os.environ.get(override)))
    connect.join("127.0.0.1:6379")
    assert said == ["1"]


@pytest.mark.parametrize("kind", ["{}", "http://{}"])
@pytest.mark.parametrize("by", ["--address", "RAY_ADDRESS"])
def test_a_deaf_address_is_left_after_the_stated_time(
    kind: str, by: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (cluster_doctor, connect):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = kind.format(f"127.0.0.1:{deaf.getsockname()[1]}")
        arguments = ["--address", "auto"]
        if by == "--address":
            arguments = [by, address]
        else:
            monkeypatch.setenv(by, address)
        began = time.monotonic()
        done = CliRunner().invoke(app, ["cluster", "check", *arguments])
    assert time.monotonic() - began < 60  # Ray itself tries for minutes
    assert done.exit_code == 1
    assert "nothing answers at" in " ".join(done.output.split())


def test_a_token_that_others_can_read_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / ".ray/auth_token"
    file.parent.mkdir()
    file.write_text("a-token-0123456789")
    file.chmod(0o644)
    for address in ("auto", "127.0.0.1:1"):
        done = CliRunner().invoke(app, ["cluster", "check", "--address", address])
        assert isinstance(done.exception, SentuneError)
        assert f"chmod 600 {file}" in str(done.exception)


@pytest.mark.parametrize(
    ("error", "subject"),
    [
        (ConnectionError("Failed to connect to Ray cluster"), "authentication"),
        (AuthenticationError("no token"), "authentication"),
        (RuntimeError("Version mismatch: the cluster was started with Ray 2.1.0"), "Ray"),
    ],
)
def test_what_answers_and_refuses_is_told_from_what_is_not_there(
    monkeypatch: pytest.MonkeyPatch, error: Exception, subject: str
) -> None:
    def refuse(**options: object) -> None:
        raise error

    monkeypatch.setattr(ray, "init", refuse)
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    there, refused = joined(f"127.0.0.1:{port}")
    server.stop(None)
    assert (there.subject, there.ok) == ("reachable", True)
    assert (refused.subject, refused.ok) == (subject, False)
    assert refused.fix


def test_no_cluster_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(**options: object) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "init", find)
    monkeypatch.setattr(cluster_doctor, "silent_head", lambda *_: "")
    [found] = joined("auto")
    assert (found.subject, found.ok) == ("reachable", False)


@pytest.mark.parametrize(("url", "ok"), [("127.0.0.1:8265", True), ("10.0.0.1:8265", False)])
def test_a_dashboard_on_an_open_address_is_a_cross(
    monkeypatch: pytest.MonkeyPatch, url: str, ok: bool
) -> None:
    context = SimpleNamespace(address_info={"gcs_address": "10.0.0.1:6379"}, dashboard_url=url)
    monkeypatch.setattr(ray, "init", lambda **options: context)
    monkeypatch.setattr(cluster_doctor, "silent_head", lambda *_: "")
    assert joined("auto")[1].ok is ok


def test_a_cluster_that_does_not_answer_is_one_cross_and_exit_code_1() -> None:
    done = CliRunner().invoke(app, ["cluster", "check", "--address", "127.0.0.1:1"])
    assert done.exit_code == 1
    assert "✗  reachable  nothing answers at 127.0.0.1:1" in done.output
    assert "fix: start it" in done.output
