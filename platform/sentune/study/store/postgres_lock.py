"""Driver lock in PostgreSQL: a session's advisory lock, and a table row for the record."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, CursorResult, Engine, Row, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from sentune.credentials import without_credentials
from sentune.errors import InvalidValue
from sentune.io.databases import alone_in, database_url
from sentune.study.store.driver_process import LOCKS, Driver, Record

SILENT = {"connect_timeout": 10, "tcp_user_timeout": 30_000}
"""Timeouts of libpq: seconds to connect, and milliseconds of unanswered data. Without them a cut
network blocks a client for a quarter of an hour, even after it works again."""

KEEPALIVE = {"idle": 10, "interval": 5, "count": 3}
"""TCP keepalive: seconds of silence, seconds between probes, and their number. With them the server
frees the lock of a dead machine within 25 s instead of two hours."""


class PostgresLock:
    """Advisory lock of a session; the server frees it when the connection ends for any reason.

    It has the methods of ``FileLock``. ``lock`` raises InvalidValue if a proxy shares the session
    among clients (transaction pooling).
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
        self._number = 0  # the server's pid of the session that had the lock last
        LOCKS.add(self)

    def close_in_child(self) -> None:
        # closing the connection in the child would make the server end the parent's session
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
                # a pooling proxy serves this transaction with our server connection, or gives us
                # another one meanwhile
                shared = _own_pid(other) == pid or _own_pid(session) != pid
                other.rollback()
                shared = shared or any(_own_pid(session) != pid for _ in range(2))
            if shared:
                fix = (
                    "this is a proxy that shares sessions among its clients (transaction pooling), "
                    "so it cannot hold a driver's lock; give the address of PostgreSQL itself"
                )
                raise InvalidValue("--optuna", without_credentials(self._url), fix)
        except BaseException:
            session.close()
            raise
        return session

    def unlock(self) -> None:
        held, self._holding = self._holding, False
        if self._session is not None:
            session, self._session = self._session, None
            with contextlib.suppress(SQLAlchemyError), session:  # it may be cut already
                # unlock first: the server notices the end of a session with a delay
                if held and not session.invalidated:
                    session.execute(
                        text("SELECT pg_advisory_unlock(CAST(:key AS bigint))"), self._names
                    )

    def holds(self, generation: int) -> bool:
        """Return whether this object holds the lock, and no later start was recorded.

        If the connection was cut, it reconnects and takes the lock again unless another start has
        taken it: a study survives a restart of its database.
        """
        if self._session is not None and not self._session.invalidated and self._holding:
            try:
                held = f"SELECT {RECORDED} AND EXISTS (SELECT 1 {HELD} AND pid = pg_backend_pid())"
                return bool(self._here(held, generation=generation).scalar())
            except SQLAlchemyError:
                if not self._session.invalidated:
                    raise
        # the server may not have noticed yet that the old session was cut off
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
        # reading must not create the table
        ((table,),) = self._elsewhere("SELECT to_regclass('sentune_drivers')")
        if table is None:
            return Record()
        rows = self._elsewhere(f"SELECT {COLUMNS} FROM sentune_drivers WHERE study = :study")
        return Record.of(rows[0]._mapping) if rows else Record()

    def begin(self, driver: Driver, *, after: int = 0) -> Record:
        with alone_in(self._url):
            self._here(TABLE)
        values = {"driver": driver.to_json(), "after": after}
        return Record.of(self._here(
            "INSERT INTO sentune_drivers (study, generation, driver) "
            "VALUES (:study, :after + 1, :driver) ON CONFLICT (study) DO UPDATE SET "
            "generation = greatest(sentune_drivers.generation, :after) + 1, driver = :driver, "
            "since = now(), seen = now(), signal = '', "
            f"beat = sentune_drivers.beat + 1 RETURNING {COLUMNS}", **values,
        ).mappings().one())  # fmt: skip

    def beat(self, generation: int, seconds: float, *, last: bool = False) -> Record | None:
        if not self.holds(generation):
            return None
        found = self._here(
            "UPDATE sentune_drivers SET seconds = seconds + :seconds, beat = beat + 1, "
            "seen = now(), driver = CASE WHEN :last THEN '' ELSE driver END "
            f"WHERE study = :study AND generation = :generation RETURNING {COLUMNS}",
            seconds=seconds, last=last, generation=generation,
        ).mappings().one_or_none()  # fmt: skip
        return None if found is None else Record.of(found)

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
        """Run a statement in a new session, not the lock's; return its rows."""
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


def _own_pid(session: Connection) -> int:
    """Return the server's pid of a session."""
    return int(session.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


@functools.lru_cache(maxsize=16)
def _engine(url: str) -> Engine:
    """Return an engine without a pool: every connection is a session of its own.

    Unless the URL sets libpq's timeouts, they are such that a cut network is noticed in 25 s.
    """
    limits = SILENT | {"keepalives": 1}
    limits |= {f"keepalives_{name}": value for name, value in KEEPALIVE.items()}
    return create_engine(
        database_url(url),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={n: limit for n, limit in limits.items() if n not in make_url(url).query},
    )
