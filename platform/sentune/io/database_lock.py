"""Let one process at a time make the tables of a PostgreSQL database.

Optuna and MLflow make theirs when they find none; of several that start together on an empty
database all but one died of it ("duplicate key value ... pg_type").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

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

    engine = create_engine(
        with_installed_driver(url), poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:  # the lock goes with it
        connection.execute(text("SELECT pg_advisory_lock(:number)"), {"number": LOCK})
        yield connection


def with_installed_driver(url: str) -> URL:
    """Return a database's URL with the PostgreSQL driver that is installed, where it names none.

    SQLAlchemy 2.1 takes psycopg 3 for ``postgresql://`` and refuses it with psycopg2 alone.
    """
    from sqlalchemy import make_url

    named = make_url(url)
    if named.drivername != "postgresql" or find_spec("psycopg") or not find_spec("psycopg2"):
        return named
    return named.set(drivername="postgresql+psycopg2")
