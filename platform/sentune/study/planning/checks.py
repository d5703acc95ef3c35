"""Checks of storage, disk, database and tracking server before a study starts.

Storages, databases and servers may take minutes to fail; each check ends after a few seconds.
"""

from __future__ import annotations

import base64
import os
import socket
import sqlite3
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import sqlalchemy
from rich.filesize import decimal
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from sentune.credentials import without_credentials
from sentune.errors import PlanError, named
from sentune.io.atomic import StorageError, check_storage
from sentune.io.databases import damage_in, database_url, sqlite_path
from sentune.io.folders import folder_bytes
from sentune.study.config import StudyConfig
from sentune.study.planning.plan import Plan, bytes_bound, most_waiting

T = TypeVar("T")

PATIENCE = 4.0
"""Seconds that a storage, a database or a server has to answer."""

WEB = ("http", "https")
TRACKING_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
"""Kinds of databases in which MLflow stores runs."""

PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306, "mssql": 1433}


def check_writable(storage: str) -> None:
    """Write a small file into the storage and remove it.

    Raises:
        PlanError, StorageError: the storage cannot be written; names it and the cause.
    """
    try:
        within(PATIENCE, lambda: check_storage(storage))
    except StorageError:
        raise
    except Exception as error:  # each fsspec file system has errors of its own
        fix = "make it writable for this user, or name another one"
        if isinstance(error, ImportError):
            fix = "install the package that this kind of address needs"
        why = f"it cannot be written ({named(error)}); {fix}"
        raise PlanError("--storage", without_credentials(storage), why) from error


def check_disk(config: StudyConfig, plan: Plan, checkpoint_bytes: int) -> None:
    """Check that the disk has room for the most checkpoints that a study may have at a time.

    Raises:
        PlanError: it has not; names the bytes that are needed and free.
    """
    if not checkpoint_bytes or "://" in config.storage:
        return
    waiting = most_waiting(config)
    most = bytes_bound(checkpoint_bytes, plan, config)
    try:
        check_storage(config.storage, max(0, most - folder_bytes(config.runs_folder)))
    except StorageError as error:
        stopped = f"{waiting} stopped ones that may continue, " if waiting else ""
        fix = (
            f"checkpoints of {decimal(checkpoint_bytes)} take up to {decimal(most)} "
            f"({plan.concurrent} trials at a time, {stopped}{config.keep} kept, {plan.finalists} "
            f"runs of the finals), and {error.why}; give fewer --concurrent, --keep or "
            f"--finalists, {'--scheduler asha, ' if waiting else ''}or another --storage"
        )
        raise PlanError("--storage", config.storage, fix) from error


def check_database(
    address: str | None, option: str = "--optuna", statement: str = "SELECT 1"
) -> None:
    """Check that the database of an option answers and accepts a transaction.

    Args:
        statement: statement to execute and roll back; not executed in a SQLite file.

    Raises:
        PlanError: the address is malformed, or the database cannot be opened; says why.
    """
    if address is None:
        return
    shown = without_credentials(address)
    try:
        # MLflow opens the address of --tracking unchanged
        url = database_url(address) if option == "--optuna" else make_url(address)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        fix = "write sqlite:////PATH or postgresql+psycopg2://USER@HOST/DATABASE"
        raise PlanError(option, shown, fix) from None
    try:
        within(PATIENCE, lambda: _begin(url, statement))
    except (ImportError, NoSuchModuleError) as error:
        fix = f"{named(error)}; install the database's driver, such as psycopg2-binary"
        raise PlanError(option, shown, fix) from error
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        fix = "restore it from a copy" if damage_in(error) else "start it, or correct its address"
        raise PlanError(option, shown, f"it cannot be opened ({named(error)}); {fix}") from error


def _begin(url: URL, statement: str) -> None:
    """Begin a transaction. A locked SQLite file passes, and a missing one is not created."""
    port = url.port or PORTS.get(url.get_backend_name())
    if url.host and port is not None:  # the database's own client may wait for minutes
        try:
            socket.create_connection((url.host, port), timeout=PATIENCE).close()
        except OSError as error:
            why = f"nothing answers at {url.host}:{port} ({error})"
            raise ConnectionError(why) from error
    if url.get_backend_name() != "sqlite" or not url.database:
        with sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool).connect() as connection:
            connection.execute(sqlalchemy.text(statement))  # rolled back at the end
        return
    file = Path(url.database)
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


def tracking_kind(uri: str) -> str:
    """Return the kind of an MLflow address, such as ``http`` or ``sqlite``, without connecting.

    Raises:
        PlanError: it is not the address of a server or database.
    """
    try:
        address = urlsplit(uri)
        host, _ = address.hostname, address.port
        sqlite_path(uri)
        kind = "databricks" if uri == "databricks" else address.scheme.partition("+")[0]
        known = bool(host) if kind in WEB else kind in (*TRACKING_DATABASES, "databricks")
    except (ValueError, ArgumentError):
        known = False
    if not known:
        fix = "write http://HOST:PORT or sqlite:////PATH"
        raise PlanError("--tracking", without_credentials(uri), fix)
    return kind


def tracking_silence(uri: str) -> str:
    """Return why MLflow's server or database does not answer; empty if it does.

    Raises:
        PlanError: it is not the address of a server or database.
    """
    kind, file = tracking_kind(uri), sqlite_path(uri)
    if file is not None and not file.exists():  # the study creates it at its start
        there = next(place for place in file.absolute().parents if place.exists())
        writable = there.is_dir() and os.access(there, os.W_OK)
        return "" if writable else f"{there} is not a folder that this user may write to"
    if kind in WEB:
        try:
            http_answer(f"{uri.rstrip('/')}/health")  # any status counts, also 401
        except OSError as error:
            return f"it does not answer ({named(error)})"
    elif kind in TRACKING_DATABASES:  # Databricks is not checked here
        try:
            check_database(uri, "--tracking")
        except PlanError as refusal:
            return refusal.fix
    return ""


def http_answer(
    url: str, headers: Mapping[str, str] | None = None, *, patience: float = PATIENCE
) -> tuple[int, str]:
    """Return status and body of an HTTP GET; the body is empty for a status above 399.

    A user and password in the URL are sent by basic authentication.

    Raises:
        OSError: there is no answer, or not one in HTTP.
    """

    def ask() -> tuple[int, str]:
        address, found = urlsplit(url), dict(headers or {})
        if address.username is not None:
            user = f"{unquote(address.username)}:{unquote(address.password or '')}"
            found["Authorization"] = basic_authentication(user.encode())
        bare = address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()
        request = urllib.request.Request(bare, headers=found)
        with urllib.request.urlopen(request, timeout=patience) as answer:
            return int(answer.status), str(answer.read().decode())

    try:
        return within(patience, ask)
    except urllib.error.HTTPError as error:
        return error.code, ""
    except (ValueError, HTTPException) as error:  # the server speaks another protocol
        raise OSError(named(error)) from error


def basic_authentication(user_and_password: bytes) -> str:
    """Return the ``Authorization`` header of ``USER:PASSWORD``."""
    return f"Basic {base64.b64encode(user_and_password).decode()}"


def within(seconds: float, action: Callable[[], T]) -> T:
    """Return the result of an action that has so many seconds, and raise its errors.

    Raises:
        TimeoutError: it takes longer; its thread is left running.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:  # noqa: BLE001  # raised again below
            future.set_exception(error)

    threading.Thread(target=run, name="sentune-check", daemon=True).start()
    if wait([future], timeout=seconds).not_done:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return future.result()
