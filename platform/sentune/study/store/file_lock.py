"""Driver lock in a file beside a study's trials: flock, and two slots of JSON for the record."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sentune.study.store.driver_process import LOCKS, Driver, Record

LOCK_FILE = "driver.lock"
SLOT = 2048
"""Bytes of each of the file's two slots: the holder's record, and the request to it."""


class FileLock:
    """flock on a file: the kernel frees it when the holder dies; a stopped holder keeps it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        LOCKS.add(self)

    def close_in_child(self) -> None:
        """Close the file in a forked child, which would otherwise keep the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def lock(self) -> bool:
        """Take the lock if it is free; return whether this object holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with suppress(BlockingIOError):
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._in_place():  # not replaced between opening and locking
                return True
        self.unlock()
        return False

    def unlock(self) -> None:
        """Free the lock."""
        if self._fd is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = None

    def holds(self, generation: int) -> bool:
        """Return whether this object holds the lock, and no later start was recorded.

        The record counts because some file systems do not lock across machines.
        """
        return self._in_place() and self.read().generation == generation

    def _in_place(self) -> bool:
        """Return whether the open file is still the one at the path; see ``break_lock``."""
        try:
            return self._fd is not None and os.path.samestat(self.path.stat(), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def locked(self) -> bool:
        """Return whether any process holds the lock.

        A ``lock`` during this call fails; drivers try it again for ``driver_lock.GRACE`` seconds.
        """
        try:
            with self.path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def read(self) -> Record:
        """Return the record; empty if the study was never driven."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return Record()
        try:
            fields = json.loads(content[:SLOT].strip(b"\0 ") or b"{}")
        except ValueError:  # torn by a power cut; Unix time exceeds all generations before
            return Record(generation=int(time.time()))
        request = {}
        with suppress(ValueError):  # torn, or being written
            request = json.loads(content[SLOT:].strip(b"\0 ") or b"{}")
        quiet = max(0.0, time.time() - fields.pop("seen", time.time()))
        record = Record.of({**fields, "quiet": quiet})
        current = request.get("generation") == record.generation and record.driver
        return replace(record, signal=request["signal"] if current else "")

    def begin(self, driver: Driver, *, after: int = 0) -> Record:
        """Record a start by this process, which holds the lock, and return the record.

        The generation exceeds ``after`` and that of the last start.
        """
        was = self.read()
        return self._write(Record(
            generation=max(was.generation, after) + 1, driver=driver, since=time.time(),
            beat=was.beat + 1, seconds=was.seconds,
        ))  # fmt: skip

    def beat(self, generation: int, seconds: float, *, last: bool = False) -> Record | None:
        """Add seconds to the record and return it; None if the lock is lost.

        The ``last`` beat records the lock's release.
        """
        if not self.holds(generation):
            return None
        was = self.read()
        driver = None if last else was.driver
        now = replace(was, driver=driver, beat=was.beat + 1, seconds=was.seconds + seconds)
        return self._write(now, sync=last)

    def _write(self, record: Record, *, sync: bool = True) -> Record:
        assert self._fd is not None
        os.pwrite(self._fd, _as_json(record).encode(), 0)
        if sync:
            os.fsync(self._fd)
        return record

    def ask(self, generation: int, signal: str) -> bool:
        """Send a signal to the holder; return False if it has left."""
        request = json.dumps({"generation": generation, "signal": signal})
        with self.path.open("r+b") as file:
            file.seek(SLOT)
            file.write(request.ljust(SLOT).encode())
        return self.read().signal == signal

    def break_lock(self) -> None:
        """Take the lock from a dead holder: replace the file, whose flock then counts no more."""
        was = self.read()
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        freed = replace(was, generation=was.generation + 1, driver=None)
        new.write_text(_as_json(freed), encoding="utf-8")
        new.replace(self.path)


def _as_json(record: Record) -> str:
    driver = record.driver.to_json() if record.driver else ""
    fields = {**vars(record), "driver": driver, "seen": time.time()}
    del fields["signal"], fields["quiet"]
    return json.dumps(fields).ljust(SLOT)
