"""An SQLite database in a file, and whether it is damaged."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from sentune.errors import DamagedFile

CHECK_SECONDS = 4.0
"""Seconds after which the check of a large file ends; what it has read by then counts."""

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def sqlite_path(url: str) -> Path | None:
    """Return the file that a URL of SQLAlchemy names; None for other databases."""
    if not url.startswith("sqlite"):
        return None
    from sqlalchemy.engine import make_url

    named = make_url(url).database
    return Path(named) if named and named != ":memory:" else None


def sqlite_from(url: str, folder: str) -> str:
    """Return a URL of SQLAlchemy, the relative path of a SQLite file counted from a folder."""
    file = sqlite_path(url)
    if file is None or not folder:
        return url
    from sqlalchemy.engine import make_url

    named = make_url(url).set(database=str(Path(folder, file)))
    return named.render_as_string(hide_password=False)


def check_whole(url: str, fix: str) -> None:
    """Read through the file of a database, where it is SQLite's and there is one.

    Raises:
        DamagedFile: it is damaged; ``fix`` says what to do.
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
    """Return what SQLite says of a damaged file in an error or its causes; empty for others."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, sqlite3.Error):
        cause = getattr(cause, "orig", None) or cause.__cause__ or cause.__context__
    if cause is None:
        return ""
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # none: text that is no UTF-8
    damaged = code & 0xFF in _DAMAGED or str(cause).startswith("no such ")  # table or column
    return str(cause) if damaged else ""
