"""What a plan needs of the outside world, asked for before anything starts.

Storages, databases and servers may not answer for minutes; here each has a few seconds.
"""

from __future__ import annotations

import socket
import sqlite3
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import sqlalchemy
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from sentune.credentials import without_credentials
from sentune.errors import PlanError
from sentune.io.atomic import StorageError, check_storage
from sentune.study.config import StudyConfig
from sentune.study.planning.plan import Plan, disk_bound, size_of

PATIENCE = 4.0
"""Seconds that the outside world has to answer."""

PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306, "redis": 6379, "mssql": 1433}


def check_world(
    config: StudyConfig, plan: Plan, *, tracking: str | None = None, checkpoint_bytes: int = 0
) -> list[str]:
    """Refuse a plan that its storage, disk or database cannot serve.

    Args:
        config: names the storage and the database.
        plan: how many checkpoints stand at a time.
        tracking: MLflow's address; None: in the storage.
        checkpoint_bytes: of one checkpoint; 0 where it is not known.

    Returns:
        What is worth a warning: training does not wait for a tracking server.

    Raises:
        PlanError, StorageError: naming the option, what is wrong and what to do.
    """
    check_writable(config.storage)
    check_disk(config, plan, checkpoint_bytes)
    check_database(config)
    warning = silent_server(tracking)
    return [warning] if warning else []


def check_writable(storage: str) -> None:
    """Write a small file into the storage and remove it.

    Raises:
        PlanError, StorageError: it cannot be written; names it and the cause.
    """
    try:
        _within(PATIENCE, lambda: check_storage(storage))
    except StorageError:
        raise
    except Exception as error:  # every file system raises its own
        fix = f"it cannot be written ({_words(error)}); {_storage_fix(error)}"
        raise PlanError("--storage", without_credentials(storage), fix) from error


def check_disk(config: StudyConfig, plan: Plan, checkpoint_bytes: int) -> None:
    """Whether the checkpoints that the study never exceeds fit beside those that it has.

    Raises:
        PlanError: they do not; says how many bytes are needed and free.
    """
    if not checkpoint_bytes or "://" in config.storage:
        return
    most = disk_bound(config, plan.concurrent, plan.finalists, checkpoint_bytes)
    try:
        check_storage(config.storage, max(0, most - _bytes_in(Path(config.folder, "trials"))))
    except StorageError as error:
        fix = (
            f"checkpoints of {size_of(checkpoint_bytes)} take up to {size_of(most)} "
            f"({plan.concurrent} trials at a time, {config.keep} kept, {plan.finalists} runs of "
            f"the finals), and {error.why}; give fewer --concurrent, --keep or --finalists, or "
            "another --storage"
        )
        raise PlanError("--storage", config.storage, fix) from error


def check_database(config: StudyConfig) -> None:
    """Whether the database that ``--optuna`` names answers and takes a transaction.

    Raises:
        PlanError: it does not; says why.
    """
    if config.optuna_url is None:
        return
    shown = without_credentials(config.optuna_url)
    try:
        url = make_url(config.optuna_url)
    except (ArgumentError, ValueError):  # the latter for a port that is no number
        fix = "write sqlite:////PATH or postgresql+psycopg2://USER@HOST/DATABASE"
        raise PlanError("--optuna", shown, fix) from None
    _check_host(url, shown)
    if url.get_backend_name() == "redis":
        return
    try:
        _within(PATIENCE, lambda: _begin(url))
    except (ImportError, NoSuchModuleError) as error:
        fix = f"{_words(error)}; install the database's driver, such as psycopg2-binary"
        raise PlanError("--optuna", shown, fix) from error
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        fix = f"it cannot be opened ({_words(error)}); start it, or correct its address"
        raise PlanError("--optuna", shown, fix) from error


def silent_server(tracking: str | None) -> str:
    """A sentence where MLflow's server does not answer; empty where it does, or there is none."""
    if tracking is None or not tracking.startswith(("http://", "https://")):
        return ""
    try:
        with urllib.request.urlopen(f"{tracking.rstrip('/')}/health", timeout=PATIENCE):
            return ""
    except urllib.error.HTTPError:
        return ""  # it answers, and may want credentials here
    except (OSError, ValueError) as error:
        shown = without_credentials(tracking)
        return (
            f"--tracking {shown} does not answer ({without_credentials(_words(error))}); training "
            "goes on, and what it says is kept and sent when the server is there"
        )


def _check_host(url: URL, shown: str) -> None:
    """Refuse a host that does not answer, which would hold a database's client for minutes."""
    port = url.port or PORTS.get(url.get_backend_name())
    if not url.host or port is None:
        return
    try:
        socket.create_connection((url.host, port), timeout=PATIENCE).close()
    except OSError as error:
        fix = f"nothing answers at {url.host}:{port} ({error}); start it, or correct its address"
        raise PlanError("--optuna", shown, fix) from error


def _begin(url: URL) -> None:
    if url.get_backend_name() == "sqlite" and url.database:
        _begin_in_file(Path(url.database))
        return
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("SELECT 1"))
    finally:
        engine.dispose()


def _begin_in_file(file: Path) -> None:
    """Whether a file can be written that another driver may be writing; makes none."""
    if not file.exists():
        if not file.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {file.parent}")
        check_storage(str(file.parent))
        return
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", 1.0, uri=True)) as opened:
        try:
            opened.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise


def _within(seconds: float, action: Callable[[], None]) -> None:
    """Raise what the action raises, and a ``TimeoutError`` where it takes longer."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001  # raised again below
            raised.append(error)

    thread = threading.Thread(target=run, name="sentune-check", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"no answer within {seconds:g} s")
    if raised:
        raise raised[0]


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _words(error: BaseException) -> str:
    """Return the first line of what an error says, with its kind."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def _storage_fix(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "install the package that its kind of address needs"
    return "make it writable for this user, or name another one"
