"""Where a driver's lock lies: in a file (flock), or in PostgreSQL (advisory lock of a session).

Beside the lock lies a record: the driver that holds it and since when, the seconds of all starts,
the number of the last start (its generation), and a request to stop. Only the holder writes it,
except for the request.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, CursorResult, Engine, Row, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from sentune.credentials import without_credentials
from sentune.errors import InvalidValue
from sentune.io.database_lock import alone_in, database_url
from sentune.study.store.driver_process import Driver

LOCK_FILE = "driver.lock"
SLOT = 2048
"""Bytes of each of the lock file's two parts: the holder's record, and what it is asked for."""

KEEPALIVE = {"idle": 10, "interval": 5, "count": 3}
"""Seconds of silence, seconds between questions and their number, after which a connection is cut:
the server then frees the lock of a machine that is dead, which else takes it two hours."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record beside a lock.

    Attributes:
        generation: number of the last start of the study; 0 before the first one.
        driver: the process that holds the lock; None once it was released.
        since: when that process took it, Unix time.
        beat: counts what the holder has written.
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


def backend_of(url: str, study: str) -> Backend | None:
    """Return the lock of a study whose trials lie at a URL or in a file; None if there is none.

    A file in the study's own folder has ``driver.lock`` beside it; of another file, the lock's name
    holds the study's. A database other than SQLite and PostgreSQL has no lock.
    """
    if url.startswith("postgres"):
        return PostgresLock(url, study)
    path: str | None = url
    if "://" in url:
        named = make_url(url)
        path = named.database if named.get_backend_name() == "sqlite" else None
    if not path:
        return None
    file = Path(path).resolve()
    own = file.parent.name == study
    return FileLock(file.with_name(LOCK_FILE if own else f"{file.name}.{quote(study, '')}.lock"))


class FileLock:
    """flock on a file: the kernel frees it at the holder's death, a stopped holder keeps it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        _HELD_HERE.add(self)

    def close_in_child(self) -> None:
        """Close a forked child's copy, which would hold the lock beyond this process's death."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def lock(self) -> bool:
        """Take the lock if it is free; return whether this object holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            return False
        if not self._in_place():  # it was replaced between opening and locking
            self.unlock()
            return False
        return True

    def unlock(self) -> None:
        """Free the lock."""
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = None

    def holds(self, generation: int) -> bool:
        """Return whether this object holds the lock, and no later start was recorded.

        The record tells it where a file system does not lock across machines.
        """
        return self._in_place() and self.read().generation == generation

    def _in_place(self) -> bool:
        """Return whether the file is open here; one that was replaced keeps nobody away."""
        try:
            return self._fd is not None and os.path.samestat(self.path.stat(), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def locked(self) -> bool:
        """Return whether any process holds the lock; a ``lock`` meanwhile is tried again."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def read(self) -> Record:
        """Return the record; an empty one where the study was never driven."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return Record()
        try:
            said = json.loads(content[:SLOT].strip(b"\0 ") or b"{}")
        except ValueError:
            return Record(generation=int(time.time()))  # torn by a power cut: a later one follows
        try:
            asked = json.loads(content[SLOT:].strip(b"\0 ") or b"{}")
        except ValueError:
            asked = {}  # torn, or being written
        seen, driver = said.pop("seen", time.time()), said.pop("driver", "")
        record = Record(
            **said,
            driver=Driver.from_json(driver) if driver else None,
            quiet=max(0.0, time.time() - seen),
        )
        ours = asked.get("generation") == record.generation and record.driver
        return replace(record, signal=asked["signal"] if ours else "")

    def begin(self, driver: Driver, *, after: int = 0) -> Record:
        """Record a new start by the process that has just taken the lock.

        Args:
            driver: that process.
            after: generation that the new one exceeds, as it does the last one's.
        """
        was = self.read()
        return self._write(Record(
            generation=max(was.generation, after) + 1, driver=driver, since=time.time(),
            beat=was.beat + 1, seconds=was.seconds,
        ))  # fmt: skip

    def beat(self, generation: int, seconds: float, *, last: bool = False) -> Record | None:
        """Add seconds to this start's record and return it; None if the lock is lost.

        The ``last`` beat says that the lock was released.
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
        """Ask the holder for something; return False if it has left."""
        asked = json.dumps({"generation": generation, "signal": signal})
        fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(fd, asked.ljust(SLOT).encode(), SLOT)
        finally:
            os.close(fd)
        return self.read().signal == signal

    def break_lock(self) -> None:
        """Put a copy of the file in its place, which takes the lock from a holder that is dead."""
        was = self.read()
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        freed = replace(was, generation=was.generation + 1, driver=None)
        new.write_text(_as_json(freed), encoding="utf-8")
        new.replace(self.path)


def _as_json(record: Record) -> str:
    driver = record.driver.to_json() if record.driver else ""
    said = {**vars(record), "driver": driver, "seen": time.time()}
    del said["signal"], said["quiet"]
    return json.dumps(said).ljust(SLOT)


class PostgresLock:
    """Advisory lock of a session: the server frees it when the connection ends, however it does.

    Its methods are those of ``FileLock``; ``lock`` raises InvalidValue where a proxy hands the
    session to others between two transactions.
    """

    def __init__(self, url: str, study: str) -> None:
        self._url = url
        digest = hashlib.sha256(f"sentune driver {study}".encode()).digest()
        self._names = {
            "study": study,
            "key": int.from_bytes(digest[:8], signed=True),
            "high": int.from_bytes(digest[:4]),
            "low": int.from_bytes(digest[4:8]),
        }
        self._session: Connection | None = None
        self._holding = False
        self._number = 0  # of the session that had the lock last, in the server
        _HELD_HERE.add(self)

    def close_in_child(self) -> None:
        # closing the connection in the child would tell the server to end this process's session
        if self._session is not None and not self._session.invalidated:
            nothing = os.open(os.devnull, os.O_RDWR)
            socket = self._session.connection.driver_connection
            assert socket is not None
            os.dup2(nothing, socket.fileno(), inheritable=False)
            os.close(nothing)

    def lock(self) -> bool:
        if self._session is None or self._session.invalidated:
            self.unlock()
            self._session = self._connect()
        taken = self._here("SELECT pg_try_advisory_lock(CAST(:key AS bigint))").scalar()
        self._holding = bool(taken)
        if self._holding:
            self._number = _own_pid(self._session)
        return self._holding

    def _connect(self) -> Connection:
        engine = _engine(self._url)
        session = engine.connect()
        try:
            for name, value in KEEPALIVE.items():
                session.exec_driver_sql(f"SET tcp_keepalives_{name} = {value}")
            pid = _own_pid(session)
            with engine.connect().execution_options(isolation_level="READ COMMITTED") as other:
                # its transaction takes a server's connection: ours, if a proxy shares them, or one
                # that the proxy then hands to us
                shared = _own_pid(other) == pid or _own_pid(session) != pid
                other.rollback()
                shared = shared or any(_own_pid(session) != pid for _ in range(2))
            if shared:
                fix = (
                    "a proxy in between shares sessions among its clients (transaction pooling), "
                    "so that no driver can hold its study; give the address of PostgreSQL itself"
                )
                raise InvalidValue("--optuna", without_credentials(self._url), fix)
        except BaseException:
            session.close()
            raise
        return session

    def unlock(self) -> None:
        self._holding = False
        if self._session is not None:
            session, self._session = self._session, None
            with contextlib.suppress(SQLAlchemyError):  # it may be cut already
                session.close()

    def holds(self, generation: int) -> bool:
        """Return whether this object holds the lock, and no later start was recorded.

        A connection that was cut is made again, and the lock is taken again where no other start
        has taken it meanwhile: so a restarted database costs a study nothing.
        """
        if self._session is not None and not self._session.invalidated and self._holding:
            try:
                held = f"SELECT {RECORDED} AND EXISTS (SELECT 1 {HELD} AND pid = pg_backend_pid())"
                return bool(self._here(held, generation=generation).scalar())
            except SQLAlchemyError:
                if not self._session.invalidated:
                    raise
        # the server may still take a session that was cut off for alive
        end = f"SELECT pg_terminate_backend(pid) {HELD} AND pid = :number"
        self._elsewhere(end, number=self._number)
        taken = self.lock()
        if not self._here(f"SELECT {RECORDED}", generation=generation).scalar():
            self.unlock()
            return False
        if not taken:
            raise TimeoutError("another session of the database has the lock")
        return True

    def locked(self) -> bool:
        return bool(self._elsewhere(f"SELECT 1 {HELD}"))

    def read(self) -> Record:
        # looking makes no table
        ((table,),) = self._elsewhere("SELECT to_regclass('sentune_drivers')")
        if table is None:
            return Record()
        rows = self._elsewhere(f"SELECT {COLUMNS} FROM sentune_drivers WHERE study = :study")
        return _record(rows[0]) if rows else Record()

    def begin(self, driver: Driver, *, after: int = 0) -> Record:
        with alone_in(self._url):
            self._here(TABLE)
        values = {"driver": driver.to_json(), "after": after}
        return _record(self._here(
            "INSERT INTO sentune_drivers (study, generation, driver) "
            "VALUES (:study, :after + 1, :driver) ON CONFLICT (study) DO UPDATE SET "
            "generation = greatest(sentune_drivers.generation, :after) + 1, driver = :driver, "
            "since = now(), seen = now(), signal = '', "
            f"beat = sentune_drivers.beat + 1 RETURNING {COLUMNS}", **values).one())  # fmt: skip

    def beat(self, generation: int, seconds: float, *, last: bool = False) -> Record | None:
        if not self.holds(generation):
            return None
        row = self._here(
            "UPDATE sentune_drivers SET seconds = seconds + :seconds, beat = beat + 1, "
            "seen = now(), driver = CASE WHEN :last THEN '' ELSE driver END "
            f"WHERE study = :study AND generation = :generation RETURNING {COLUMNS}",
            seconds=seconds, last=last, generation=generation,
        ).one_or_none()  # fmt: skip
        return None if row is None else _record(row)

    def ask(self, generation: int, signal: str) -> bool:
        return bool(self._elsewhere(
            "UPDATE sentune_drivers SET signal = :signal "
            "WHERE study = :study AND generation = :generation AND driver <> '' RETURNING 1",
            signal=signal, generation=generation,
        ))  # fmt: skip

    def break_lock(self) -> None:
        self._elsewhere(
            "UPDATE sentune_drivers SET generation = generation + 1, driver = '' "
            "WHERE study = :study RETURNING 1"
        )
        self._elsewhere(f"SELECT pg_terminate_backend(pid) {HELD}")

    def _here(self, statement: str, **values: Any) -> CursorResult[Any]:
        assert self._session is not None
        return self._session.execute(text(statement), {**self._names, **values})

    def _elsewhere(self, statement: str, **values: Any) -> Sequence[Row[Any]]:
        """Run a statement in another session than the lock's; return its rows."""
        with _engine(self._url).connect() as connection:
            return connection.execute(text(statement), {**self._names, **values}).all()


TABLE = """CREATE TABLE IF NOT EXISTS sentune_drivers (
    study text PRIMARY KEY,
    generation bigint NOT NULL,
    driver text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    seen timestamptz NOT NULL DEFAULT now(),
    beat bigint NOT NULL DEFAULT 1,
    seconds double precision NOT NULL DEFAULT 0,
    signal text NOT NULL DEFAULT '')"""

COLUMNS = """generation, driver, beat, seconds, signal,
    CAST(extract(epoch FROM since) AS double precision) AS since,
    CAST(greatest(0, extract(epoch FROM now() - seen)) AS double precision) AS quiet"""

RECORDED = """EXISTS (SELECT 1 FROM sentune_drivers
    WHERE study = :study AND generation = :generation)"""

HELD = """FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND CAST(classid AS bigint) = :high AND CAST(objid AS bigint) = :low"""


def _record(row: Row[Any]) -> Record:
    found = dict(row._mapping)
    driver = found.pop("driver")
    return Record(**found, driver=Driver.from_json(driver) if driver else None)


def _own_pid(session: Connection) -> int:
    return int(session.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


@functools.lru_cache(maxsize=16)
def _engine(url: str) -> Engine:
    """Return an engine whose every connection is a session of its own.

    libpq's limits, where the URL does not name them, notice a cut network in 25 s.
    """
    limits = {"connect_timeout": 10, "tcp_user_timeout": 30_000, "keepalives": 1}
    limits |= {f"keepalives_{name}": value for name, value in KEEPALIVE.items()}
    return create_engine(
        database_url(url),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={n: limit for n, limit in limits.items() if n not in make_url(url).query},
    )


Backend = FileLock | PostgresLock
"""One study's lock and the record beside it. Every method raises OSError or SQLAlchemyError where
its file or database does not answer."""

_HELD_HERE: weakref.WeakSet[Backend] = weakref.WeakSet()


def _close_in_child() -> None:
    for backend in list(_HELD_HERE):
        backend.close_in_child()


os.register_at_fork(after_in_child=_close_in_child)
