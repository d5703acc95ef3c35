"""Whether this process can use a study's places: its storage, its database, its MLflow server.

Each function returns what is wrong, in a few words without credentials, or nothing.
"""

from __future__ import annotations

import base64
import configparser
import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import fsspec
import sqlalchemy
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from sentune.credentials import without_credentials
from sentune.errors import PlanError
from sentune.io.atomic import StorageError
from sentune.study.config import StudyConfig
from sentune.study.planning.checks import check_database, check_writable

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PATIENT = 20.0
"""Seconds for MLflow: checking a password for the first time took a small server over four."""

_ASKED = "/api/2.0/mlflow/experiments/search?max_results=1"


@contextmanager
def marked(storage: str) -> Iterator[str]:
    """Leaves a file in a storage while the block runs; gives its address.

    Raises:
        PlanError, StorageError: it cannot be written.
    """
    check_writable(storage)
    base = storage if "://" in storage else str(Path(storage).resolve())
    address = f"{base.rstrip('/')}/.sentune-check-{uuid.uuid4().hex}"
    filesystem, path = fsspec.core.url_to_fs(address)
    with filesystem.open(path, "wb") as file:
        file.write(b"seen")
    try:
        yield address
    finally:
        filesystem.rm(path)


def storage_trouble(address: str) -> str:
    """Whether the driver's file is seen here, and another one can be written beside it."""
    try:
        check_writable(address.rpartition("/")[0])
        filesystem, path = fsspec.core.url_to_fs(address)
        there = filesystem.exists(path)
    except (PlanError, StorageError) as error:
        return str(error)
    return "" if there else "it is another folder here: what the driver wrote is not there"


def database_trouble(url: str) -> str:
    """Whether Optuna's database answers and a table can be made in it."""
    try:
        check_database(StudyConfig(name="check", storage=".", max_examples=1, optuna_url=url))
        if make_url(url).get_backend_name() == "postgresql":
            _make_a_table(url)
    except (PlanError, SQLAlchemyError) as error:
        return without_credentials(str(error).splitlines()[0])
    return ""


def tracking_trouble(uri: str) -> str:
    """Whether an MLflow server answers, wants a password, and takes the one that is here."""
    if not uri.startswith(("http://", "https://")):
        return ""
    status = _status(uri, {})
    if isinstance(status, str):
        return status
    if status not in (401, 403):
        if status >= 400:
            return f"it answers {status}"
        return "" if on_loopback(uri) else "it lets everyone in who reaches it"
    known = credentials()
    if known is None:
        return "it wants a user and a password, and there are none in ~/.mlflow/credentials"
    status = _status(uri, {"Authorization": f"Basic {base64.b64encode(known).decode()}"})
    return "" if status == 200 else f"it does not take this user and password ({status})"


def on_loopback(address: str) -> bool:
    """Whether an address means another place on every machine."""
    try:
        url = make_url(address)
    except ArgumentError:
        return False
    if url.get_backend_name() == "sqlite":
        return True
    return (url.host or urlsplit(address).hostname or "localhost") in LOOPBACK


def credentials() -> bytes | None:
    """``user:password`` as MLflow's client finds them: the environment, then its file."""
    names = ("mlflow_tracking_username", "mlflow_tracking_password")
    found = [os.environ.get(name.upper(), "") for name in names]
    if not all(found):
        file = configparser.ConfigParser(interpolation=None)
        file.read(Path.home() / ".mlflow/credentials", encoding="utf-8")
        found = [file.get("mlflow", name, fallback="") for name in names]
    return ":".join(found).encode() if all(found) else None


def _make_a_table(url: str) -> None:
    """PostgreSQL makes tables within a transaction, which is not kept."""
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            table = f"sentune_check_{uuid.uuid4().hex}"
            connection.execute(sqlalchemy.text(f"CREATE TABLE {table} (x INTEGER)"))
            connection.rollback()
    finally:
        engine.dispose()


def _status(uri: str, headers: dict[str, str]) -> int | str:
    """The status of an answer, or why there is none."""
    request = urllib.request.Request(uri.rstrip("/") + _ASKED, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENT) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError) as error:
        return without_credentials(f"it does not answer ({error})")
