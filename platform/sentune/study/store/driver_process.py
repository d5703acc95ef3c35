"""The process that drives a study, whether it runs, is suspended or is gone, and its record."""

from __future__ import annotations

import getpass
import json
import os
import socket
import weakref
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class ProcessState(StrEnum):
    """State of a driver's process, as far as this machine knows it."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A process, identified also where its number is given to another one later.

    Attributes:
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
        """Return all fields as JSON, the same text for the same process."""
        return json.dumps(asdict(self), sort_keys=True)

    def __str__(self) -> str:
        return f"{self.user} on {self.host}, process {self.pid}"


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record beside a study's lock; only the holder writes it, except for the signal.

    Attributes:
        generation: number of the last start of the study; 0 before the first one.
        driver: the process that holds the lock; None once it was released.
        since: when that process took it, Unix time.
        beat: number of times that the holder has written.
        seconds: that the study was driven, over all starts.
        signal: what the holder is asked for: empty, ``stop`` or ``stop now``.
        quiet: seconds since the last beat.
    """

    generation: int = 0
    driver: Driver | None = None
    since: float = 0.0
    beat: int = 0
    seconds: float = 0.0
    signal: str = ""
    quiet: float = 0.0

    @classmethod
    def of(cls, said: Mapping[Any, Any]) -> Record:
        """Return the record of these fields, whose driver is as ``to_json`` has it, or empty."""
        driver = said.get("driver")
        return cls(**{**said, "driver": Driver(**json.loads(driver)) if driver else None})


LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()
"""Drivers' locks of this process. A forked child calls ``close_in_child`` of its copies, which else
would hold the lock beyond this process's death."""


def _close_in_child() -> None:
    for lock in list(LOCKS):
        lock.close_in_child()


os.register_at_fork(after_in_child=_close_in_child)


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
