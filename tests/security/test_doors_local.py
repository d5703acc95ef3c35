"""The cluster that a job starts on one machine, and the addresses and tokens that it refuses."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.exceptions import AuthenticationError

from sentune.errors import InvalidValue, SentuneError
from sentune.study.planning import connect
from sentune.study.planning.cluster_doctor import joined
from sentune.study.planning.connect import connected

OWN_CLUSTER = """
import json, os, pathlib, psutil, ray, subprocess, sys, time
from sentune.study.planning.connect import connected
with connected():
    gcs = ray.get_runtime_context().gcs_address
    stranger = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    stranger |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    script = f"import ray; ray.init({gcs!r}, log_to_driver=False); print('INSIDE')"
    command = [sys.executable, "-c", script]
    asked = subprocess.run(command, env=stranger, capture_output=True, text=True)
    actor = ray.remote(type("A", (), {"f": lambda self: 0})).remote()
    ray.get(actor.f.remote())  # a worker is up, as a trial's
    logs = pathlib.Path(os.environ["RAY_TMPDIR"], "ray/session_latest/logs")
    wanted = [logs / "dashboard.log", logs / "monitor.log"]
    until = time.monotonic() + 200
    while not all(f.exists() and "metrics server" in f.read_text() for f in wanted):
        assert time.monotonic() < until, "Ray has not tried to open its metrics ports"
        time.sleep(0.2)
    time.sleep(1)
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listens = [(p.name(), c.laddr.ip) for p in family for c in p.net_connections("tcp")
               if c.status == "LISTEN"]
    print(json.dumps({"out": asked.stdout, "err": asked.stderr,
                      "idle": sum(p.name() == "ray::IDLE" for p in family),
                      "metrics": [name for name, ip in listens if ip == "0.0.0.0"],
                      "everywhere": sorted({name for name, ip in listens if ip == "::"})}))
"""


@pytest.mark.cluster
def test_the_cluster_of_one_machine_has_its_own_token_and_no_metrics_port(tmp_path: Path) -> None:
    """Ray's servers listen on [::]; what listens on 0.0.0.0 are its metrics exporters."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    with tempfile.TemporaryDirectory(prefix="doors-", dir="/tmp") as short:  # Ray's sockets
        done = subprocess.run(
            [sys.executable, "-c", OWN_CLUSTER],
            env={**env, "HOME": str(tmp_path), "RAY_TMPDIR": short},
            capture_output=True, text=True, timeout=400, check=True,
        )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert "INSIDE" not in found["out"]
    assert "Unauthenticated" in found["err"] or "AuthenticationError" in found["err"]
    assert found["metrics"] == []
    assert found["idle"] == 0, "a worker without the job's runtime environment, of use to no trial"
    everywhere = ("gcs_server", "raylet", "ray::")  # as docs/security.md has it
    assert all(any(name.startswith(one) for name in found["everywhere"]) for one in everywhere)
    assert not (tmp_path / ".ray/auth_token").exists()


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of a port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_where_nothing_answers_is_refused_before_ray_tries(
    deaf: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", deaf)
    with pytest.raises(InvalidValue, match=f"RAY_ADDRESS.*{deaf}.*ray up") as refused, connected():
        pass
    assert "nothing answers" in str(refused.value)
    [finding] = joined(deaf)
    assert (finding.subject, finding.ok) == ("reachable", False)
    assert capfd.readouterr().err == ""


def test_a_cluster_of_this_machine_that_is_gone_is_refused_before_ray_tries(
    deaf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """``auto`` is the cluster last started here, as Ray's file of its address has it."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(deaf)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(InvalidValue, match=f"nothing answers at {deaf}"), connected():
        pass
    [finding] = joined("auto")
    assert not finding.ok
    assert f"nothing answers at {deaf}" in finding.detail
    assert capfd.readouterr().err == ""


def test_a_job_server_is_no_address_of_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:8265")
    refused = pytest.raises(InvalidValue, match=r"give HOST:PORT; `ray job submit`.*unset it")
    with refused, connected():
        pass


@pytest.mark.parametrize("error", [AuthenticationError("no token"), ConnectionError("no way in")])
def test_a_cluster_that_lets_no_driver_in_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(address: str) -> None:
        raise error

    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    monkeypatch.setattr(connect, "silent_head", lambda *_: "")
    monkeypatch.setattr(connect, "token", lambda: "")
    monkeypatch.setattr(connect, "join", refuse)
    told = r"RAY_ADDRESS.*no (token|way in).*sentune cluster check --address 127.0.0.1:6379"
    with pytest.raises(InvalidValue, match=told), connected():
        pass


def test_a_token_that_others_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "auth_token"
    file.write_text("a-token-0123456789")
    file.chmod(0o644)
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setattr(connect, "last_started", lambda: None)  # whatever this machine has started
    with pytest.raises(SentuneError, match=f"chmod 600 {file}"), connected():
        pass
