"""An MLflow database in a file or on a PostgreSQL server, made whole or not at all."""

from __future__ import annotations

import fcntl
import logging
import os
from importlib import import_module
from pathlib import Path

from sentune.io.databases import alone_in, check_whole, sqlite_path
from sentune.tracking.environment import ARTIFACTS, DATABASE
from sentune.tracking.runs import EXPERIMENTS

log = logging.getLogger(__name__)


def ensure_database(tracking_uri: str) -> None:
    """Make the tables of a database that has none yet, and follow a storage that was moved.

    A server's address is left alone. MLflow makes its tables in dozens of steps, seconds in all: a
    process killed among them, or two that start together, leave a database that no MLflow opens
    again (eight studies in a fresh folder: none got through). So one process at a time makes them
    in a draft, which is renamed.

    Raises:
        DamagedFile: the database is an SQLite file, and damaged.
    """
    check_tracking_file(tracking_uri)
    with alone_in(tracking_uri) as connection:
        if connection is not None:
            from sqlalchemy import inspect

            # it notes the version of its tables at the end
            if not inspect(connection).has_table("alembic_version"):
                _make_tables(tracking_uri)
    path = sqlite_path(tracking_uri)
    if path is None:
        return
    if _filled(path):
        follow_move(tracking_uri)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not _filled(path):
            draft = path.with_name(f".{path.name}.partial")
            draft.unlink(missing_ok=True)
            draft.with_name(f"{draft.name}-journal").unlink(missing_ok=True)
            _make_tables(f"sqlite:///{draft}")
            draft.replace(path)
    finally:
        os.close(folder)


def follow_move(tracking_uri: str) -> None:
    """Rewrite the places of artifacts in the database of a storage folder that was moved or copied.

    MLflow notes absolute places. A database ``DIR/mlflow.db`` beside a folder ``DIR/mlartifacts``
    has its artifacts there.
    """
    path = sqlite_path(tracking_uri)
    if path is None or path.name != DATABASE or not _filled(path):
        return
    root = path.resolve().with_name(ARTIFACTS)
    if not root.is_dir():
        return
    from sentune.tracking.mlflow_internals import move_artifacts

    for old in move_artifacts(tracking_uri, EXPERIMENTS, root.as_uri()):
        log.warning("%s named artifacts at %s; they lie at %s now", path, old, root.as_uri())


def check_tracking_file(tracking_uri: str) -> None:
    """Refuse an SQLite file of MLflow that is damaged.

    Raises:
        DamagedFile: with the way to have its runs written again.
    """
    file = sqlite_path(tracking_uri)
    fix = f"move it away (mv {file} {file}.damaged): each study writes its runs when it starts next"
    check_whole(tracking_uri, fix)


def _filled(path: Path) -> bool:
    """SQLite makes an empty file when it is first asked for one."""
    return path.is_file() and path.stat().st_size > 0


def _make_tables(tracking_uri: str) -> None:
    # The whole package first: Ray Tune imports it on the main thread at this moment, and a thread
    # that imports a part of it first holds what the other one needs (_DeadlockError, Python 3.11).
    import_module("mlflow")
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(tracking_uri, "./mlruns")  # MLflow's own default for artifacts
    store.engine.dispose()  # no connection may know a file by its draft's name
