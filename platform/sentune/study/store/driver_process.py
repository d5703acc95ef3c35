"""The process that drives a study: its identity, its state and its record beside the lock."""

from __future__ import annotations

import getpass
import json
import os
import socket
import weakref
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any


class ProcessState(StrEnum):
    """State of a driver's process, as seen from this machine."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A process, distinguished from a later one with the same pid.

    Attributes:
        started: start time in clock ticks after boot; empty if the system does not tell.
        boot: id of the machine's boot; empty if the system does not tell.
        namespace: pid namespace; containers on one machine have their own.
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
        """State of the process; unknown on another machine or in another container."""
        here = Driver.current()
        place = (self.host, self.boot, self.namespace) == (here.host, here.boot, here.namespace)
        if not (self.boot and self.started and place):
            return ProcessState.UNKNOWN
        letter, started = _stat(self.pid)
        if started != self.started:
            return ProcessState.GONE
        return ProcessState.SUSPENDED if letter in "Tt" else ProcessState.RUNNING

    def to_json(self) -> str:
        """Return all fields as JSON with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True)

    def __str__(self) -> str:
        return f"{self.user} on {self.host}, process {self.pid}"


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record beside a study's lock; only the holder writes it, except for the signal.

    Attributes:
        generation: number of the last start of the study; 0 before the first one.
        driver: process that holds the lock; None after its release.
        since: Unix time at which that process took the lock.
        beat: number of writes of all holders.
        seconds: seconds in which the study was driven, over all starts.
        signal: request to the holder: empty, ``stop`` or ``stop now``.
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
    def of(cls, given: Mapping[Any, Any]) -> Record:
        """Return the record with these fields; ``driver`` is the text of ``to_json``, or empty.

        Fields that only newer versions know are left out.
        """
        text = given.get("driver")
        driver = Driver(**_known(Driver, json.loads(text))) if text else None
        return cls(**{**_known(cls, given), "driver": driver})


def _known(kind: type[Driver | Record], given: Mapping[Any, Any]) -> dict[str, Any]:
    return {field.name: given[field.name] for field in fields(kind) if field.name in given}


LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()
"""Drivers' locks of this process. A forked child closes its copies (``close_in_child``); otherwise
it would hold the lock after this process has died."""


def _close_in_child() -> None:
    for lock in list(LOCKS):
        lock.close_in_child()


os.register_at_fork(after_in_child=_close_in_child)


def runs(pid: int) -> bool:
    """Return whether this machine has a live process with that pid."""
    return bool(_stat(pid)[1])


def _stat(pid: int) -> tuple[str, str]:
    """Return state letter and start time (clock ticks after boot) of a process.

    Both are empty if there is no such process, or only a zombie.
    """
    # "pid (name) state ppid ...": the name may contain ")", so split after the last one
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return ("", "") if not fields or fields[0] in "ZX" else (fields[0], fields[19])


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
