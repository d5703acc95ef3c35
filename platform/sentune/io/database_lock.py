"""Let one process at a time make the tables of a PostgreSQL database.

Optuna and MLflow make theirs when they find none; of several that start together on an empty
database all but one died of it ("duplicate key value ... pg_type").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sentune import errors

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

LOCK = 7_363_685
"""Number of the advisory lock; of this project alone, in each database by itself."""


@contextmanager
def alone_in(url: str) -> Iterator[Connection | None]:
    """Hold the lock for making tables there; yield None where the database is no PostgreSQL.

    Raises:
        SQLAlchemyError: it cannot be reached.
    """
    if not url.startswith("postgres"):
        yield None
        return
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import NullPool

    engine = create_engine(database_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:  # the lock goes with it
        connection.execute(text("SELECT pg_advisory_lock(:number)"), {"number": LOCK})
        yield connection


def database_url(url: str) -> URL:
    """Return a URL whose driver is installed: ``postgresql://`` names none.

    SQLAlchemy takes psycopg 3 for it, also where psycopg2 alone is installed.
    """
    from sqlalchemy import make_url

    named = make_url(url)
    if named.drivername in ("postgresql", "postgres"):
        driver = "psycopg" if find_spec("psycopg") else "psycopg2"
        return named.set(drivername=f"postgresql+{driver}")
    return named


def first_line(error: BaseException) -> str:
    """Return what a database says, without the statement and the link that SQLAlchemy adds."""
    return errors.first_line(error.__cause__ or error)
