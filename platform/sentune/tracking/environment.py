"""Default locations of MLflow's data, and MLflow's environment variables in this process."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from sentune.errors import InvalidValue
from sentune.io.databases import sqlite_path
from sentune.io.object_store import absolute

STORAGE = "studies"
"""The default storage of studies."""

DATABASE, ARTIFACTS = "mlflow.db", "mlartifacts"
"""Names of MLflow's database and of its artifacts in a storage folder."""

_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_DISABLE_AGENT_HINT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
_TIMEOUTS = {
    # MLflow's defaults (7 retries of 120 s) would block the only thread that sends. After 30 s a
    # request is abandoned and repeated, without end if the server is always slower.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
}


def quieten_mlflow() -> None:
    """Turn off MLflow's telemetry, and its output of addresses, progress bars and hints.

    Variables set by the user are kept. Call this before mlflow is imported, which reads some of
    them only once.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    # it logs a traceback whenever another process locks the database; the next pass tries again
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


def shorten_timeouts() -> None:
    """Make MLflow's client time out after seconds instead of minutes; the next pass tries again.

    The variables stay set, because changing them while other threads read them can crash a process.
    """
    for name, value in _TIMEOUTS.items():
        os.environ.setdefault(name, value)


def tracking_uri_in(storage: str) -> str:
    """Return the URI of the tracking database that the studies of a local storage share.

    Raises:
        InvalidValue: the storage is a URI, where SQLite cannot be used.
    """
    return f"sqlite:///{_local(storage) / DATABASE}"


def artifact_root(storage: str, tracking_uri: str) -> str | None:
    """Return the URI of the artifacts of a storage's studies; None if a server stores them.

    They are beside ``mlflow.db``, which several storages may share, or in the storage.
    """
    if tracking_uri.startswith(("http://", "https://", "databricks")):
        return None
    if (file := sqlite_path(tracking_uri)) is not None and file.name == DATABASE:
        return file.resolve().with_name(ARTIFACTS).as_uri()
    return artifact_root_in(storage)


def artifact_root_in(storage: str) -> str:
    """Return the URI of the artifacts in a storage."""
    if _is_remote(storage):
        return f"{storage.rstrip('/')}/{ARTIFACTS}"
    return (_local(storage) / ARTIFACTS).as_uri()


def _is_remote(storage: str) -> bool:
    return "://" in absolute(storage)


def local_folder(storage: str, study: str) -> Path:
    """Return the study's folder on this machine, for its report and artifacts.

    For a remote storage it is in the home folder, one for each study and storage.
    """
    if not _is_remote(storage):
        return _local(storage) / study
    which = hashlib.blake2b(storage.rstrip("/").encode(), digest_size=6).hexdigest()
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "sentune" / f"{study}-{which}"


def default_tracking_uri() -> str:
    """Return ``SENTUNE_TRACKING``, ``MLFLOW_TRACKING_URI``, or the database of the storage.

    The storage is ``SENTUNE_STORAGE``, or ``studies`` of the working directory.

    Raises:
        InvalidValue: there is none of them.
    """
    if named := os.environ.get("SENTUNE_TRACKING") or os.environ.get("MLFLOW_TRACKING_URI"):
        return named
    storage = os.environ.get("SENTUNE_STORAGE") or STORAGE
    if _is_remote(storage) or not (_local(storage) / DATABASE).exists():
        fix = f"set SENTUNE_TRACKING or MLFLOW_TRACKING_URI; {storage} has no {DATABASE}"
        raise InvalidValue("tracking_uri", "", fix)
    return tracking_uri_in(storage)


def _local(storage: str) -> Path:
    if _is_remote(storage):
        scheme, server = storage.split("://", 1)[0], "--tracking http://127.0.0.1:5000"
        fix = f"the storage {scheme}://... needs an MLflow server, as in {server}"
        raise InvalidValue("--tracking", "", fix)
    return Path(absolute(storage))
