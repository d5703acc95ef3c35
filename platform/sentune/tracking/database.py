"""An MLflow database in a file, made whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def ensure_database(tracking_uri: str) -> None:
    """Makes the tables of an SQLite database that is not there yet; other addresses are left alone.

    MLflow makes them in dozens of steps, seconds in all. A process killed among them, or two that
    start together, leave a database that no MLflow opens again (eight studies in a fresh folder:
    none got through). So they are made in a draft, by one process at a time, and renamed.
    """
    path = _file_of(tracking_uri)
    if path is None or _filled(path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone_in(path.parent):
        if not _filled(path):
            draft = path.with_name(f".{path.name}.partial")
            draft.unlink(missing_ok=True)
            draft.with_name(f"{draft.name}-journal").unlink(missing_ok=True)
            _make_tables(draft)
            draft.replace(path)


def _file_of(tracking_uri: str) -> Path | None:
    if not tracking_uri.startswith("sqlite"):
        return None
    from sqlalchemy.engine import make_url

    named = make_url(tracking_uri).database
    return Path(named) if named and named != ":memory:" else None


def _filled(path: Path) -> bool:
    """SQLite makes an empty file when it is first asked for one."""
    return path.is_file() and path.stat().st_size > 0


def _make_tables(path: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(f"sqlite:///{path}", "./mlruns")  # MLflow's own default for artifacts
    store.engine.dispose()  # no connection may know the file by its draft's name


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
