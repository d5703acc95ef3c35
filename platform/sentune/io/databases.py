"""Helpers for databases named by SQLAlchemy URLs: SQLite files, damage, locks, drivers."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sentune import errors
from sentune.errors import DamagedFile
from sentune.lazy_import import LazyModule

if TYPE_CHECKING:
    import sqlalchemy
else:
    sqlalchemy = LazyModule("sqlalchemy")

CHECK_SECONDS = 4.0
"""Seconds after which the check of a large file stops; the part that was read decides."""

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

LOCK = 7_363_685
"""Key of PostgreSQL's advisory lock for creating tables; locks are per database."""


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite URL; None for an in-memory or another database."""
    if not url.startswith("sqlite"):
        return None
    named = sqlalchemy.make_url(url).database
    return Path(named) if named and named != ":memory:" else None


def sqlite_from(url: str, folder: str) -> str:
    """Return a URL in which the relative path of a SQLite file is resolved against a folder."""
    file = sqlite_path(url)
    if file is None or not folder:
        return url
    named = sqlalchemy.make_url(url).set(database=str(Path(folder, file)))
    return named.render_as_string(hide_password=False)


def check_whole(url: str, fix: str) -> None:
    """Check an existing SQLite file for damage; do nothing for other databases.

    Raises:
        DamagedFile: the file is damaged; ``fix`` says what to do.
    """
    path = sqlite_path(url)
    if path is None or not path.is_file():
        return
    deadline = time.monotonic() + CHECK_SECONDS
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", 1.0, uri=True)) as file:
            file.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            found = str(file.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        found = damage_in(error) or "ok"
    if found != "ok":
        raise DamagedFile(path, f"the database is damaged ({' '.join(found.split())})", fix)


def damage_in(error: BaseException) -> str:
    """Return SQLite's message if an error or its cause reports a damaged file, else ``""``."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, sqlite3.Error):
        cause = getattr(cause, "orig", None) or cause.__cause__ or cause.__context__
    if cause is None:
        return ""
    # no code: the module could not decode a text as UTF-8
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    damaged = code & 0xFF in _DAMAGED or str(cause).startswith("no such ")  # table or column
    return str(cause) if damaged else ""


@contextmanager
def alone_in(url: str) -> Iterator[sqlalchemy.Connection | None]:
    """Hold PostgreSQL's lock for creating tables; yield the connection, None for other databases.

    Optuna and MLflow create missing tables without a lock. If several processes start on an empty
    database, all but one fail ("duplicate key value ... pg_type").

    Raises:
        SQLAlchemyError: the database cannot be reached.
    """
    if not url.startswith("postgres"):
        yield None
        return
    engine = sqlalchemy.create_engine(
        database_url(url), poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:  # closing it releases the lock
        connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:number)"), {"number": LOCK})
        yield connection


def database_url(url: str) -> sqlalchemy.URL:
    """Return a URL that names an installed driver for ``postgresql://``.

    SQLAlchemy's default is psycopg 3, even if only psycopg2 is installed.
    """
    named = sqlalchemy.make_url(url)
    if named.drivername in ("postgresql", "postgres"):
        driver = "psycopg" if find_spec("psycopg") else "psycopg2"
        return named.set(drivername=f"postgresql+{driver}")
    return named


def first_line(error: BaseException) -> str:
    """Return a database's message without the statement and link that SQLAlchemy adds."""
    return errors.first_line(error.__cause__ or error)
