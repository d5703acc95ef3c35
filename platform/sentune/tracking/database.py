"""Creates MLflow's database, in a file or on a PostgreSQL server, atomically."""

from __future__ import annotations

import fcntl
import logging
import os
from importlib import import_module
from pathlib import Path

from sentune.io.atomic import check_space
from sentune.io.databases import alone_in, check_whole, sqlite_path
from sentune.io.folders import draft_beside
from sentune.tracking.environment import ARTIFACTS, DATABASE
from sentune.tracking.runs import EXPERIMENTS

log = logging.getLogger(__name__)

TABLES = 2_000_000
"""Free bytes without which no tables are created: about twice their size."""


def ensure_database(tracking_uri: str) -> None:
    """Create the tables of an empty database, and update its paths if the storage was moved.

    Nothing is done for the address of an MLflow server. MLflow creates its tables in dozens of
    steps, which take seconds. A process killed in between, or two that start together, leave a
    database that MLflow cannot open (of eight studies started in a new folder, all failed).
    Therefore one process at a time creates it in a draft, which is then renamed.

    Raises:
        DamagedFile: the database is a damaged SQLite file.
        StorageError: the disk has no room for a new database.
    """
    check_tracking_file(tracking_uri)
    with alone_in(tracking_uri) as connection:
        if connection is not None:
            from sqlalchemy import inspect

            # MLflow writes this table last
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
            check_space(path, TABLES)
            with draft_beside(path, "--storage") as draft:
                _make_tables(f"sqlite:///{draft / path.name}")
                (draft / path.name).replace(path)
    finally:
        os.close(folder)


def follow_move(tracking_uri: str) -> None:
    """Update the paths of artifacts in the database of a storage that was moved or copied.

    MLflow stores absolute paths. If ``DIR/mlflow.db`` is beside a folder ``DIR/mlartifacts``, they
    are changed to this folder.
    """
    path = sqlite_path(tracking_uri)
    if path is None or path.name != DATABASE or not _filled(path):
        return
    root = path.resolve().with_name(ARTIFACTS)
    if not root.is_dir():
        return
    from sentune.tracking.mlflow_internals import move_artifacts

    for old in move_artifacts(tracking_uri, EXPERIMENTS, root.as_uri()):
        log.warning("%s: path of artifacts changed from %s to %s", path, old, root.as_uri())


def check_tracking_file(tracking_uri: str) -> None:
    """Check that MLflow's SQLite file is not damaged.

    Raises:
        DamagedFile: it is; says how to have the runs written again.
    """
    file = sqlite_path(tracking_uri)
    fix = f"move it away (mv {file} {file}.damaged): each study writes its runs at its next start"
    check_whole(tracking_uri, fix)


def _filled(path: Path) -> bool:
    """Return whether a database has content; SQLite first creates an empty file."""
    return path.is_file() and path.stat().st_size > 0


def _make_tables(tracking_uri: str) -> None:
    # Import the whole package first: Ray Tune imports it on the main thread at the same time, and
    # importing a part of it here would deadlock (_DeadlockError, Python 3.11).
    import_module("mlflow")
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    try:
        store = SqlAlchemyStore(tracking_uri, "./mlruns")  # MLflow's own default for artifacts
    except BaseException:
        from sentune.tracking.mlflow_internals import forget

        forget(tracking_uri)  # closes its files, so that their space is free
        raise
    store.engine.dispose()  # close all connections before the file is renamed
