"""A cluster on this machine that grows and shrinks by itself.

Ray's own autoscaler (version 2, as ``ray up`` starts it) runs with the provider ``fake_multinode``,
whose nodes are real raylets with the resources of their node type. The cluster is the test's own:
ports and folder are made for it, and only processes that carry its mark are ended.
"""

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml
from ray.autoscaler.v2.sdk import get_cluster_status

from tests.autoscaling.watching import HEAD, HEAD_ID
from tests.forked import Program
from tests.ray_nodes import end, marked
from tests.third_party_internals import FAKE_NODES

ROOT = Path(__file__).resolve().parents[2]
UPDATE_SECONDS = 1
"""Of the autoscaler; Ray's default is 5."""

NODE = {"CPU": 1, "object_store_memory": 150 * 2**20}
MARK = "SENTUNE_TEST_GROWING"


@dataclass(kw_only=True)
class Growing:
    """A running cluster.

    Attributes:
        address: of its GCS.
        dashboard: of the job server, where it has one.
        env: that a driver on it needs.
        folder: of the sessions of its nodes.
        idle_seconds: after which a node without work goes.
    """

    address: str
    dashboard: str
    env: dict[str, str]
    folder: Path
    idle_seconds: float

    def start(self, *words: str) -> Program:
        """Starts a program as a driver on it."""
        _, log = tempfile.mkstemp(prefix="driver-", dir=self.folder)
        return Program(words, cwd=ROOT, env=self.env, log=Path(log))

    def submit(self, *words: str) -> subprocess.Popen[str]:
        """Starts ``ray job submit``, which follows the program until its end."""
        ray = str(Path(sys.executable).parent / "ray")
        submit = [ray, "job", "submit", "--address", self.dashboard, "--", sys.executable]
        return subprocess.Popen(
            [*submit, *words], cwd=ROOT, env=self.env, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def kill_node(self, node: str) -> None:
        """Ends a node's raylet with SIGKILL; its other processes end by themselves."""
        wanted = f"RAY_OVERRIDE_NODE_ID_FOR_TESTING={node}"
        found = [pid for pid in marked(self.mark) if _is_raylet(pid, wanted)]
        assert len(found) == 1, found
        os.kill(found[0], signal.SIGKILL)

    @property
    def mark(self) -> str:
        """In the environment of every process of the cluster."""
        return f"{MARK}={self.folder}"

    def autoscaler_log(self) -> str:
        """What the autoscaler has written down."""
        return (self.folder / "session_latest/logs/monitor.log").read_text()


def configuration(port: int, most: int, idle_seconds: float) -> dict[str, Any]:
    """A head without CPUs, and nodes of one CPU each, with a GPU for work that wants one."""
    return {
        "cluster_name": "growing",
        "max_workers": most,
        "idle_timeout_minutes": idle_seconds / 60,
        "upscaling_speed": most,  # else one node an update
        "provider": {
            # fake_multinode by its other name: under its own, version 2 of the autoscaler wants a
            # file of defaults that is missing from Ray's package
            "type": "external",
            "module": FAKE_NODES,
            "gcs_address": f"127.0.0.1:{port}",
            "head_node_id": HEAD_ID,
            "launch_multiple": True,
            "disable_node_updaters": True,
        },
        "auth": {"ssh_user": "nobody"},  # wanted, though nothing uses it
        "head_node_type": HEAD,
        "available_node_types": {
            HEAD: {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "gpu": {"resources": {**NODE, "GPU": 1}, "node_config": {}, "max_workers": most},
            "cpu": {"resources": NODE, "node_config": {}, "max_workers": most},
        },
        "file_mounts": {}, "cluster_synced_files": [], "file_mounts_sync_continuously": False,
        "rsync_exclude": [], "rsync_filter": [], "initialization_commands": [],
        "setup_commands": [], "head_setup_commands": [], "worker_setup_commands": [],
        "head_start_ray_commands": [], "worker_start_ray_commands": [],
    }  # fmt: skip


@contextmanager
def growing_cluster(
    *, most: int = 3, idle_seconds: float = 8, dashboard: bool = False
) -> Iterator[Growing]:
    """A head that starts up to ``most`` nodes when they are wanted."""
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # Unix sockets take 107 characters
    ports = {name: _free_port() for name in ("port", "dashboard-port", "ray-client-server-port")}
    file = folder / "ray_bootstrap_config.yaml"  # where ``ray up`` leaves it, in the head's home
    file.write_text(yaml.safe_dump(configuration(ports["port"], most, idle_seconds)))
    env = _environment(folder)
    cluster = Growing(
        address=f"127.0.0.1:{ports['port']}",
        dashboard=f"http://127.0.0.1:{ports['dashboard-port']}" if dashboard else "",
        env=env | {"RAY_ADDRESS": f"127.0.0.1:{ports['port']}"},
        folder=folder,
        idle_seconds=idle_seconds,
    )
    try:
        with _head(file, ports, folder, env, dashboard):
            yield cluster
    finally:
        end(cluster.mark)
        if not os.environ.get("KEEP"):
            shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "PYTHONPATH": f"{ROOT}/platform:{ROOT}",
        "OMP_NUM_THREADS": "1",
        "RAY_FAKE_CLUSTER": "1",
        "RAY_raylet_start_wait_time_s": "120",
        "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": HEAD_ID,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID,
        "AUTOSCALER_UPDATE_INTERVAL_S": str(UPDATE_SECONDS),
        MARK: str(folder),
    }


@contextmanager
def _head(
    file: Path, ports: Mapping[str, int], folder: Path, env: dict[str, str], dashboard: bool
) -> Iterator[None]:
    health = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 1000,
        "health_check_failure_threshold": 5,
    }
    free = ("dashboard-agent-listen-port", "metrics-export-port", "runtime-env-agent-port")
    options = {**ports, **{name: _free_port() for name in free}}
    command = [
        str(Path(sys.executable).parent / "ray"), "start", "--head", "--block",
        "--disable-usage-stats", "--num-cpus=0", "--num-gpus=0", "--node-ip-address=127.0.0.1",
        "--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=200000000",
        f"--include-dashboard={str(dashboard).lower()}", f"--autoscaling-config={file}",
        f"--temp-dir={folder}", f"--system-config={json.dumps(health)}",
        *(f"--{name}={port}" for name, port in options.items()),
    ]  # fmt: skip
    with (folder / "head.log").open("wb") as out:
        head = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
        try:
            _wait_for(f"127.0.0.1:{ports['port']}", folder / "head.log")
            yield
        finally:
            head.terminate()
            head.wait(timeout=60)


def _wait_for(address: str, log: Path) -> None:
    """Waits until the head's autoscaler has looked at its cluster once."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            status = get_cluster_status(address, timeout=2)
        except (ray.exceptions.RpcError, RuntimeError, ConnectionError):
            time.sleep(0.5)
            continue
        if status.active_nodes or status.idle_nodes:
            return
        time.sleep(0.5)
    pytest.fail(f"the head did not come up\n{log.read_text(errors='replace')[-3000:]}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _is_raylet(pid: int, variable: str) -> bool:
    process = Path(f"/proc/{pid}")
    try:
        name, environment = (process / "comm").read_text(), (process / "environ").read_text()
    except OSError:  # it has ended
        return False
    return name.strip() == "raylet" and variable in environment.split("\0")
