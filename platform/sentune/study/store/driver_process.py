"""The process that drives a study, and whether it runs, is suspended or is gone."""

from __future__ import annotations

import getpass
import json
import os
import socket
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class ProcessState(StrEnum):
    """What is known of a process on this machine."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A process, identified also where its number is given to another one later.

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
        """Return this process."""
        pid = os.getpid()
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container without an entry for its user
            user = f"user {os.getuid()}"
        try:
            namespace = str(Path("/proc/self/ns/pid").readlink())
        except OSError:
            namespace = ""
        return cls(
            user=user,
            host=socket.gethostname(),
            pid=pid,
            started=_stat(pid)[1],
            boot=_text("/proc/sys/kernel/random/boot_id"),
            namespace=namespace,
        )

    @property
    def state(self) -> ProcessState:
        """The process's state; unknown of another machine or container."""
        here = Driver.current()
        place = (self.host, self.boot, self.namespace) == (here.host, here.boot, here.namespace)
        if not (self.boot and self.started and place):
            return ProcessState.UNKNOWN
        letter, started = _stat(self.pid)
        if started != self.started:
            return ProcessState.GONE
        return ProcessState.SUSPENDED if letter in "Tt" else ProcessState.RUNNING

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Driver:
        """Return the driver that ``to_json`` wrote."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return f"{self.user} on {self.host}, process {self.pid}"


def runs(pid: int) -> bool:
    """Return whether this machine has a live process of that number."""
    return bool(_stat(pid)[1])


def _stat(pid: int) -> tuple[str, str]:
    """Return state letter and start time (clock ticks after boot) of a process; empty if none.

    One that was killed and waits to be collected (state Z) is none.
    """
    # "pid (name) state ppid ...": the name may hold anything, so fields count from its last ")"
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return ("", "") if not fields or fields[0] in "ZX" else (fields[0], fields[19])


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
