"""Hosts with addresses of their own on one machine: network namespaces behind a switch.

The switch is a namespace too, so nothing but the namespaces themselves is made on the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.ray_nodes import end

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PORT, CARD = 6379, "eth0"
MISSED = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 5,
}
"""A host is missed within ten seconds."""


def missing() -> str:
    """What this machine lacks for namespaces; empty where it has all."""
    if os.geteuid():
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip of iproute2"
    name = f"sentune-{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if done.returncode:
        return f"no network namespace can be made here: {done.stderr.decode().strip()}"
    _ip("netns", "del", name)
    return ""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Hosts:
    """Namespaces ``head``, ``one`` and ``two``; cards 10.77.0.1 to 10.77.0.3 on one switch.

    Attributes:
        folder: of Ray's logs and of whatever else the hosts write.
    """

    NAMES = ("head", "one", "two")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Unix sockets allow 107 characters, of which Ray takes about 60
        self._short = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
        self.env = {
            "PATH": f"{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self._short),
            "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}",
            "OMP_NUM_THREADS": "1",
            "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
            "GLOO_SOCKET_IFNAME": CARD,  # the machine's name is no address of a namespace
            "SENTUNE_TEST_HOSTS": str(self._short),
        }

    def _name(self, host: str) -> str:
        return f"sentune-{self._short.name}-{host}"

    def address(self, host: str) -> str:
        """IP address of a host."""
        return f"10.77.0.{self.NAMES.index(host) + 1}"

    def at(self, host: str, *command: str) -> list[str]:
        """The command line that runs a command on a host."""
        return ["ip", "netns", "exec", self._name(host), *command]

    def link(self, host: str, state: str) -> None:
        """Takes a host's cable ``down`` or puts it ``up``."""
        _ip("-n", self._name("switch"), "link", "set", host, state)

    def make(self, stack: ExitStack) -> None:
        """Makes namespaces and cables; the stack takes exactly them away again."""
        stack.callback(shutil.rmtree, self._short, ignore_errors=True)
        for name in ("switch", *self.NAMES):
            _ip("netns", "add", self._name(name))
            stack.callback(_ip, "netns", "del", self._name(name))
        stack.callback(end, f"SENTUNE_TEST_HOSTS={self._short}")
        switch = self._name("switch")
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for name in self.NAMES:
            there = ("peer", "name", CARD, "netns", self._name(name))
            _ip("-n", switch, "link", "add", name, "type", "veth", *there)
            _ip("-n", switch, "link", "set", name, "master", "switch", "up")
            _ip("-n", self._name(name), "address", "add", f"{self.address(name)}/24", "dev", CARD)
            for card in ("lo", CARD):
                _ip("-n", self._name(name), "link", "set", card, "up")

    def start_ray(self, cpus: int, system_config: Mapping[str, int]) -> None:
        """A head without CPUs; on the others Ray, started again whenever it ends."""
        system = f"--system-config={json.dumps(system_config)}"
        self._start(
            "head", "--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false", system
        )
        for host in self.NAMES[1:]:
            self._start(host, f"--address={self.address('head')}:{PORT}", f"--num-cpus={cpus}")

    def _start(self, host: str, *options: str) -> None:
        """As a supervisor would: Ray ends when it hears that it has been given up."""
        options = (
            *options, f"--node-ip-address={self.address(host)}", "--num-gpus=0",
            f"--temp-dir={self._short}/{host}",
            "--object-store-memory=100000000", "--disable-usage-stats", "--block",
        )  # fmt: skip
        again = f'while true; do "{BIN}/ray" start "$@"; date +"ended %T"; sleep 1; done'
        with (self.folder / f"ray-{host}.log").open("wb") as log:
            subprocess.Popen(
                self.at(host, "bash", "-c", again, "ray", *options),
                env=self.env, cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def drive(self, script: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a driver on the head."""
        address = f"{self.address('head')}:{PORT}"
        with (self.folder / "driver.log").open("wb") as log:
            return subprocess.Popen(
                self.at("head", sys.executable, str(script), address, *arguments),
                env=self.env, cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip


@contextmanager
def hosts(folder: Path, system_config: Mapping[str, int]) -> Iterator[Hosts]:
    """Three hosts on which Ray runs with these settings; two of them have a CPU each."""
    with ExitStack() as stack:
        made = Hosts(folder)
        made.make(stack)
        made.start_ray(1, system_config)
        yield made


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Waits for a condition; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, condition
        time.sleep(0.2)
