"""Two machines on one: each sees files of its own under the same home and temporary folder.

Another HOME variable proves nothing, since one machine can read the absolute paths of the other's
home: here both are bind mounts, in a mount namespace of each machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.ray_nodes import BIN, end
from tests.servers import free_port

ROOT = Path(__file__).resolve().parents[2]
HEAD, WORKER = "127.0.0.1", "127.0.0.2"
MARK = "SENTUNE_TEST_HOMES"
ARITHMETIC = ("OPENBLAS_", "MKL_", "ATEN_")
"""How the variables begin that choose a core's arithmetic, the same for all that is compared."""


def missing() -> str:
    """What this machine lacks for mount namespaces; empty where it has all."""
    if os.geteuid():
        return "mount namespaces need root"
    if shutil.which("unshare") is None:
        return "mount namespaces need the command unshare of util-linux"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return f"no mount namespace: {done.stderr.decode().strip()}" if done.returncode else ""


class Machines:
    """A head without CPUs and a worker with three, on which Ray runs.

    Attributes:
        home: of both, with other files on each.
        shared: a folder that both see.
        env: of what runs on the head.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        # Unix sockets allow 107 characters, of which Ray takes about 60
        self._folder = Path(tempfile.mkdtemp(prefix="h", dir="/tmp"))
        self.home, self._tmp = self._folder / "home", self._folder / "tmp"
        self.shared = self._folder / "shared"
        for name in ("home", "tmp", "shared", "home-head", "home-worker", "tmp-head", "tmp-worker"):
            (self._folder / name).mkdir()
        gcs = free_port()
        self.env = {
            "PATH": f"{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self._tmp),
            "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_ADDRESS": f"{HEAD}:{gcs}",
            MARK: str(self._folder),
            **{name: value for name, value in os.environ.items() if name.startswith(ARITHMETIC)},
            **env,
        }

    def files(self, machine: str) -> Path:
        """The home of ``head`` or ``worker``, as this process sees it."""
        return self._folder / f"home-{machine}"

    def _at(self, machine: str, command: list[str]) -> list[str]:
        mounts = " && ".join(
            f"mount --bind {self._folder}/{name}-{machine} {self._folder}/{name}"
            for name in ("home", "tmp")
        )
        unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
        return [*unshare, f'{mounts} && exec "$@"', "sh", *command]

    def start_ray(self, stack: ExitStack, worker_env: Mapping[str, str]) -> None:
        """Starts Ray on both and waits until the worker has joined."""
        stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        stack.callback(end, f"{MARK}={self._folder}")
        common = [
            str(BIN / "ray"), "start", "--block", "--num-gpus=0", "--disable-usage-stats",
            f"--temp-dir={self._tmp}/r", "--min-worker-port=0", "--max-worker-port=0",
            "--object-store-memory=100000000",
        ]  # fmt: skip
        head = ["--head", f"--port={self.env['RAY_ADDRESS'].rpartition(':')[2]}", "--num-cpus=0",
                f"--node-ip-address={HEAD}", "--include-dashboard=false",
                f"--ray-client-server-port={free_port()}"]  # fmt: skip
        worker = [f"--address={self.env['RAY_ADDRESS']}", "--num-cpus=3",
                  f"--node-ip-address={WORKER}"]  # fmt: skip
        self._start("head", [*common, *head], self.env)
        self._start("worker", [*common, *worker], {**self.env, **worker_env})

    def _start(self, machine: str, command: list[str], env: Mapping[str, str]) -> None:
        file = self._folder / f"{machine}.log"
        with file.open("wb") as log:
            node = subprocess.Popen(
                self._at(machine, command), env=env, cwd=ROOT, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + 300
        while "Ray runtime started" not in file.read_text(errors="replace"):
            assert node.poll() is None, file.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, file.read_text(errors="replace")[-3000:]
            time.sleep(0.2)

    def run(self, job: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs a job on the head to its end; stdout and stderr are text."""
        command = [sys.executable, str(ROOT / "jobs" / f"{job}.py"), *options]
        return subprocess.run(
            self._at("head", command), env=self.env, cwd=ROOT, capture_output=True, text=True,
            timeout=550, check=False,
        )  # fmt: skip


@contextmanager
def machines(env: Mapping[str, str], worker_env: Mapping[str, str]) -> Iterator[Machines]:
    """The two machines, up while the block runs.

    Args:
        env: beside their own.
        worker_env: of the worker alone.
    """
    with ExitStack() as stack:
        made = Machines(env)
        made.start_ray(stack, worker_env)
        yield made
