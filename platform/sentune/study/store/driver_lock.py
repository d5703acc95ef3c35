"""One driver per study: a lock that ends with the driver's process, and its beat.

The kernel (a file's flock) or PostgreSQL (a session's advisory lock) frees the lock when the driver
dies. A driver that is alive but suspended keeps it and is never replaced. If the lock is free but a
driver on another machine has not released it, others wait ``EXPIRY`` seconds of their own clock for
a beat: that driver may be reconnecting, or the file system may not lock across machines.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.exc import SQLAlchemyError

from sentune.credentials import without_credentials
from sentune.errors import InvalidValue, Overtaken, StudyConflict
from sentune.io.databases import first_line, sqlite_path
from sentune.io.waits import WAITS
from sentune.study.store.driver_process import Driver, ProcessState, Record
from sentune.study.store.file_lock import LOCK_FILE, FileLock
from sentune.study.store.postgres_lock import PostgresLock

logger = logging.getLogger(__name__)

BEAT, EXPIRY = 2.0, 20.0
"""Seconds between beats; seconds without one after which a driver elsewhere may be replaced."""

ASKED_EVERY = 1.0
"""Seconds between two questions of a driver whether it still holds its lock."""

GRACE = 5.0
"""Seconds of attempts to take a lock whose holder is dead or unknown."""

ALIVE = (ProcessState.RUNNING, ProcessState.SUSPENDED)
UNANSWERED = (OSError, SQLAlchemyError)

Backend = FileLock | PostgresLock
"""Lock of one study and the record beside it. Methods raise one of ``UNANSWERED`` if the file or
database does not answer."""


def backend_of(url: str, study: str) -> Backend | None:
    """Return the lock of a study with its trials at a URL or in a file; None if it has no lock.

    The lock of a file in the study's own folder is ``driver.lock`` beside it. For a file elsewhere
    the lock's name contains the study's. Databases but SQLite and PostgreSQL have no lock.
    """
    if url.startswith("postgres"):
        return PostgresLock(url, study)
    file = sqlite_path(url) if "://" in url else Path(url)
    if file is None or not file.name:
        return None
    file = file.resolve()
    own = file.parent.name == study
    return FileLock(file.with_name(LOCK_FILE if own else f"{file.name}.{quote(study, '')}.lock"))


@dataclass(frozen=True, kw_only=True)
class Holder(Record):
    """The record of a driver that holds a study's lock, or died without releasing it.

    The state of a driver on another machine is unknown while it sends no beats but has the lock.
    """

    driver: Driver
    state: ProcessState

    @property
    def gone(self) -> bool:
        """Return whether the driver's process is known to be dead."""
        return self.state is ProcessState.GONE

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"{self.driver}, since {since}, last beat {self.quiet:.0f} s ago"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A study's driver, if it has one, and the hours that it was driven so far."""

    holder: Holder | None = None
    hours: float = 0.0


def standing(url: str, study: str) -> Standing:
    """Return who drives a study and for how long it was driven, without writing anything.

    Args:
        url: database or path of the study's trials; empty if it has none yet.
    """
    if (backend := backend_of(url, study)) is None:
        return Standing()
    record = backend.read()
    return Standing(holder=_holder(backend, record), hours=record.seconds / 3600)


def ask(url: str, study: str, signal: str) -> Holder | None:
    """Send ``stop`` or ``stop now`` to a study's driver; return it, or None if there is none.

    The driver reads the signal at its next beat.
    """
    backend, holder = backend_of(url, study), standing(url, study).holder
    if backend is None or holder is None or holder.gone:
        return None
    stronger = max(holder.signal, signal, key=len)  # "stop" does not take back "stop now"
    return holder if backend.ask(holder.generation, stronger) else None


def break_lock(url: str, study: str, *, sleep: Callable[[float], None] = time.sleep) -> str:
    """Take a study's lock from a driver whose machine is dead; return a sentence for the user.

    Raises:
        StudyConflict: the driver is alive, on this machine or by its beat.
    """
    backend = backend_of(url, study)
    record = backend.read() if backend is not None else Record()
    if backend is None or not (record.driver or backend.locked()):
        return f"study {study!r} has no driver: its lock is free"
    if (holder := _holder(backend, record)) is not None:
        state = holder.driver.state
        if state is ProcessState.UNKNOWN:
            sleep(2 * BEAT)
        if state in ALIVE or backend.read().beat != record.beat:
            raise StudyConflict(_refusal(study, holder))
    backend.break_lock()
    return f"the lock of study {study!r} is free; it was held by {holder or 'an unknown process'}"


class DriverLock:
    """Lock of a study's driver, from ``acquire`` to ``release``; a thread writes its beat.

    Args:
        url: database or path of the study's trials.
        beat: seconds between beats.
        counted: whether the time counts as time in which the study was driven.
        last_start: largest generation known from elsewhere, such as the study's summary.

    Attributes:
        signal: request of ``sentune study stop`` at the last beat: empty, ``stop`` or ``stop now``.
        lost_because: why this driver must stop writing; empty while it holds the lock.
        generation: number of this start, over all starts of the study; it only grows.

    Raises:
        InvalidValue: the database has no lock that ends with its holder.
    """

    def __init__(
        self,
        url: str,
        study: str,
        *,
        beat: float = BEAT,
        counted: bool = True,
        last_start: int = 0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        backend = backend_of(url, study)
        if backend is None:
            fix = (
                "this database has no lock that ends with the driver's process; give "
                "postgresql://... or sqlite:////PATH, or leave the option out"
            )
            raise InvalidValue("--optuna", without_credentials(url), fix)
        self.url, self.study, self.backend = url, study, backend
        self.beat, self.clock, self.sleep, self.counted = beat, clock, sleep, counted
        self.last_start = last_start
        self.signal = self.lost_because = ""
        self.generation = 0
        self._beaten = self._seconds = self._asked = self._answered = 0.0
        self._complained = False
        self._lock, self._left = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def acquire(self) -> DriverLock:
        """Take the lock.

        Raises:
            StudyConflict: another process drives the study; the message names it and the fix.
            InvalidValue: the lock's database cannot be opened, or its file cannot be written.
        """
        try:
            before = self._wait_for_lock()
            self._beaten = self.clock()
            record = self.backend.begin(Driver.current(), after=self.last_start)
        except (SQLAlchemyError, ImportError) as error:
            self.backend.unlock()
            fix = f"the database cannot be opened ({first_line(error)})"
            raise InvalidValue("--optuna", without_credentials(self.url), fix) from None
        except OSError as error:
            self.backend.unlock()
            why = error.strerror or error
            fix = f"the driver's lock cannot be written there ({why})"
            raise InvalidValue("--storage", error.filename or self.url, fix) from None
        self.generation, self._seconds = record.generation, record.seconds
        self._asked = self._answered = _awake()
        if before.driver:
            logger.warning("study %s: taken over from %s, which is gone", self.study, before.driver)
        self._thread = threading.Thread(target=self._run, name="sentune-driver", daemon=True)
        self._thread.start()
        return self

    def _wait_for_lock(self) -> Record:
        """Take the lock, and return the record of its last holder.

        Raises:
            StudyConflict: another process holds it.
        """
        since, first = self.clock(), self.backend.read()
        while True:
            taken = self.backend.lock()
            record, waited = self.backend.read(), self.clock() - since
            if taken and record.driver in (None, Driver.current()):
                return record  # released, or this process failed to release it before
            holder = _holder(self.backend, record)
            state = holder.driver.state if holder is not None else ProcessState.UNKNOWN
            alive = state in ALIVE or (holder is not None and record.beat != first.beat)
            if alive or (not taken and waited >= GRACE):
                self.backend.unlock()
                raise StudyConflict(_refusal(self.study, holder))
            if taken and (waited >= EXPIRY or state is ProcessState.GONE):
                return record
            if taken:
                self.backend.unlock()  # for a driver that reconnects
            self.sleep(BEAT / 4 if taken else 0.05)

    @property
    def lost(self) -> bool:
        """Whether another start may drive the study; asks the lock at most once a second."""
        if _awake() - self._asked >= ASKED_EVERY:
            self._ask(lambda: self.backend.holds(self.generation))
        return bool(self.lost_because)

    def check(self) -> None:
        """Raise ``Overtaken`` if the lock is lost; called before each write of the store."""
        if self.lost:
            raise Overtaken(f"this driver has lost its study and has stopped: {self.lost_because}")

    @property
    def hours(self) -> float:
        """Hours of wall time in which the study was driven, over all starts."""
        since = 0.0 if self._left.is_set() else self._driven(self.clock())
        return (self._seconds + since) / 3600

    def _driven(self, now: float) -> float:
        """Return the seconds since the last beat, or 0 if they are not ``counted``."""
        return now - self._beaten if self.counted else 0.0

    def _run(self) -> None:
        while not self._left.wait(self.beat) and not self.lost_because:
            self.renew()

    def renew(self) -> None:
        """Write one beat. If the file or database does not answer, the next beat tries again."""
        self._ask(self._beat)

    def _beat(self, *, last: bool = False) -> bool:
        """Write one beat, and return whether the lock is held."""
        now = self.clock()
        record = self.backend.beat(self.generation, self._driven(now), last=last)
        if record is not None:
            self._beaten, self._seconds = now, record.seconds
            self.signal = max(self.signal, record.signal, key=len)
        return record is not None

    def _ask(self, question: Callable[[], bool]) -> None:
        """Ask the file or database whether the lock is held; set ``lost_because`` if it is not."""
        with self._lock:
            if self.lost_because or self._left.is_set():
                return
            self._asked = _awake()
            try:
                with WAITS.until(f"the lock of study {self.study!r} at {self.url}"):
                    held = question()
            except UNANSWERED as error:
                silence = _awake() - self._answered
                if silence >= EXPIRY:
                    why = f"the lock has not answered for {silence:.0f} s: {first_line(error)}"
                    self.lost_because = why
                elif not self._complained:
                    self._complained = True
                    why = first_line(error)
                    logger.warning("study %s: beat failed, trying again: %s", self.study, why)
                return
            self._answered, self._complained = self._asked, False
            if not held:
                self.lost_because = self._loss()
                self.backend.unlock()

    def _loss(self) -> str:
        try:
            holder = _holder(self.backend, self.backend.read())
        except UNANSWERED as error:
            return f"another start has taken over the study (its lock: {first_line(error)})"
        if holder is None or holder.generation == self.generation:
            return "another start drove the study meanwhile, or `sentune study release` freed it"
        return f"the study is driven by another process: {holder}"

    def release(self) -> None:
        """Release the lock."""
        if self._left.is_set() or self._thread is None or self._process != os.getpid():
            return
        self._left.set()
        self._thread.join()
        try:
            if not self.lost_because:
                self._beat(last=True)
        except UNANSWERED as error:  # the next driver sees that this process is gone
            why = first_line(error)
            logger.warning("study %s: its lock could not be released: %s", self.study, why)
        self.backend.unlock()

    def __enter__(self) -> DriverLock:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _holder(backend: Backend, record: Record) -> Holder | None:
    """Return the holder of a lock with this record; None if it was released."""
    if record.driver is None:
        return None
    state = record.driver.state
    if state is ProcessState.UNKNOWN and record.quiet <= EXPIRY:
        state = ProcessState.RUNNING
    elif state is ProcessState.UNKNOWN and not backend.locked():
        state = ProcessState.GONE
    return Holder(**vars(record), state=state)


def _refusal(study: str, holder: Holder | None) -> str:
    if holder is None:
        return f"study {study!r} is driven by an unknown process"
    pid, there = holder.driver.pid, "(with the job's --storage, if it has one)"
    fix = f"If its machine is dead, free the lock with: sentune study release {study} {there}"
    if holder.state is ProcessState.SUSPENDED:
        fix = f"It is suspended; continue it (kill -CONT {pid}) or kill it (kill {pid})"
    elif holder.state is ProcessState.RUNNING:
        fix = f"Stop it with: sentune study stop {study} {there}"
    return f"study {study!r} is driven by another process: {holder}.\n{fix}"


def _awake() -> float:
    """Return seconds of a monotonic clock that also runs while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
