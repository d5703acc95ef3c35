"""A cluster like that of cluster.yaml on this machine: a head without CPUs and one worker node.

It is the test's own: ports, folder, home and token are made for it, and only processes that carry
its mark in their environment are ended.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ray_nodes import BIN, end, node, wait_for_nodes
from tests.servers import free_port

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "cluster.yaml"
PARTS = ("platform", "search_spaces", "jobs", "pyproject.toml", ".gitignore", ".rayignore")

WHICH_CODE = '''
"""Says which code driver and worker run."""
import argparse, json, pathlib, sys
BOOTSTRAP
import ray
from sentune import code, errors

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--fail", action="store_true")
parser.add_argument("--naive", action="store_true")
args = parser.parse_args()

def seen():
    from sentune import code, errors
    here = code.loaded_code().fingerprint
    return {"fingerprint": here, "mark": errors.MARK, "file": errors.__file__}

ray.init(runtime_env=None if args.naive else code.runtime_env(), log_to_driver=False)
print("driver runs", errors.MARK)
code.assert_same_code()
worker = ray.get(ray.remote(num_cpus=1)(seen).remote())
files = sorted(str(p) for p in pathlib.Path(".").rglob("*"))
pathlib.Path(args.out).write_text(json.dumps({"driver": seen(), "worker": worker, "cwd": files}))
sys.exit(3 if args.fail else 0)
'''


@dataclass(frozen=True)
class Cluster:
    """A running cluster and the folders that take part in it."""

    address: str
    home: Path
    env: dict[str, str]
    mounted: Path

    def submit(
        self, *arguments: str, cwd: Path, env: dict[str, str] | None = None, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """``ray job submit ARGUMENTS`` as a user types it; returns exit code and logs."""
        return self.job("submit", *arguments, cwd=cwd, env=env, timeout=timeout)

    def job(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """``ray job ARGUMENTS``."""
        return subprocess.run(
            [str(BIN / "ray"), "job", *arguments],
            cwd=cwd,
            env=self.env if env is None else env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def read(path: Path) -> dict[str, Any]:
    """The content of a cluster file."""
    return dict(yaml.safe_load(path.read_text()))


@pytest.fixture
def config() -> dict[str, Any]:
    return read(FILE)


def make_project(folder: Path, mark: str) -> Path:
    """A copy of this project whose code differs from every other copy by ``mark``."""
    folder.mkdir(parents=True)
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    with (folder / "platform/sentune/errors.py").open("a") as file:
        file.write(f"\nMARK = {mark!r}\n")
    (folder / "jobs/which_code.py").write_text(WHICH_CODE.replace("BOOTSTRAP", "import _path"))
    (folder / "jobs/no_bootstrap.py").write_text(WHICH_CODE.replace("BOOTSTRAP", ""))
    for unwanted in (".git/objects/pack", ".venv/lib/big.bin", "data/train.jsonl"):
        (folder / unwanted).parent.mkdir(parents=True)
        (folder / unwanted).write_bytes(os.urandom(2**20))
    return folder


@pytest.fixture(scope="session")
def new_project() -> Callable[[Path, str], Path]:
    """Makes a copy of this project that is told apart by a mark."""
    return make_project


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Head and worker with token authentication, and an older sentune "installed" on both."""
    work = tmp_path_factory.mktemp("cluster")
    mounted = make_project(work / "mounted", "mounted")
    installed = make_project(work / "older", "installed") / "platform"
    home = work / "home"
    (home / ".ray").mkdir(parents=True)
    token = home / ".ray/auth_token"
    token.write_text("a-token-of-this-test-only-0123456789")
    token.chmod(0o600)
    # Unix sockets allow 107 characters, and Ray adds about 60 to its folder. Each node has its own
    # folder, as on two machines: sharing one, the worker unpacks the job's working directory
    # again and so removes the one in which the driver runs.
    temporary = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    mark = f"SENTUNE_TEST_CLUSTER={temporary}"
    port, dashboard = free_port(), free_port()
    address = f"http://127.0.0.1:{dashboard}"
    env = {
        "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "RAY_AUTH_MODE": "token",
        "RAY_JOB_STOP_WAIT_TIME_S": "300",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "OMP_NUM_THREADS": "1",
    }
    on_nodes = env | {"PYTHONPATH": str(installed), mark.split("=")[0]: str(temporary)}
    head = ["--head", f"--port={port}", "--num-cpus=0", "--num-gpus=0"]
    head += ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
    head += [f"--temp-dir={temporary}/h", f"--ray-client-server-port={free_port()}"]
    worker = [f"--address=127.0.0.1:{port}", "--num-cpus=2", "--num-gpus=0"]
    worker += [f"--temp-dir={temporary}/w", "--node-ip-address=127.0.0.2"]
    any_port = ["--min-worker-port=0", "--max-worker-port=0"]
    try:
        with node(
            [*head, "--node-ip-address=127.0.0.1", *any_port], on_nodes, mounted, work / "head.log"
        ):
            wait_for_nodes(address, env, work, nodes=1)
            with node(worker + any_port, on_nodes, work, work / "worker.log"):
                wait_for_nodes(address, env, work)
                yield Cluster(address, home, env | {"RAY_ADDRESS": address}, mounted)
    finally:
        end(mark)
        shutil.rmtree(temporary, ignore_errors=True)
