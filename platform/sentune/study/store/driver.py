"""Who drives a study: a process that others on its machine can tell alive from dead."""

from __future__ import annotations

import getpass
import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A process, told apart from every other one that there was or will be.

    Attributes:
        user: who started it.
        host: name of its machine.
        pid: of the process, in its own namespace.
        started: clock ticks after boot; empty where the system does not tell.
        boot: which boot of which machine; empty where the system does not tell.
        namespace: of its process numbers; containers on one machine have their own.
    """

    user: str
    host: str
    pid: int
    started: str
    boot: str
    namespace: str

    @classmethod
    def current(cls) -> Driver:
        """This process."""
        pid = os.getpid()
        return cls(
            user=_user(),
            host=socket.gethostname(),
            pid=pid,
            started=_started(pid),
            boot=_boot(),
            namespace=_namespace(),
        )

    @property
    def dead(self) -> bool:
        """Whether it is known to be gone: it ran where we run, and runs no more.

        Of another machine's process nothing is known, and it is not called dead.
        """
        here = (socket.gethostname(), _boot(), _namespace())
        known = self.boot and self.started and (self.host, self.boot, self.namespace) == here
        return bool(known) and _started(self.pid) != self.started

    def to_json(self) -> str:
        """As one line."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Driver:
        """The driver that ``to_json`` wrote."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return f"{self.user} on {self.host}, process {self.pid}"


def runs(pid: int) -> bool:
    """Whether this machine has a process of that number at work."""
    return bool(_started(pid))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        return f"user {os.getuid()}"


def _boot() -> str:
    return _text(Path("/proc/sys/kernel/random/boot_id"))


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Start time of a process that runs, in clock ticks after boot; empty if there is none.

    One that was killed and waits to be collected (state Z) does not run.
    """
    # "pid (name) state ppid ...": the name may hold anything, so fields count from its last ")"
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
