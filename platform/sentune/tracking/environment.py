"""Default places of tracking, and MLflow's environment variables in this process."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from sentune.errors import InvalidValue
from sentune.io.object_store import absolute

STORAGE = "studies"
"""The storage of studies where none is named."""

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
    # MLflow's own patience (7 retries of 120 s) would hold the one thread that sends.
    # 30 s: what a slow server answers later is given up and asked again, for ever if it is slower.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
}


def quieten_mlflow() -> None:
    """Make MLflow print no addresses, bars and hints in this process and send no telemetry.

    What the user has set stays. Call it before mlflow is first imported: part of it is read then.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    # it writes a traceback whenever another process holds the database; the next pass tries again
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


def shorten_timeouts() -> None:
    """Make MLflow's client give up after seconds instead of minutes: the next pass tries again.

    It stays set: changing the environment while other threads read it can crash a process.
    """
    for name, value in _TIMEOUTS.items():
        os.environ.setdefault(name, value)


def tracking_uri_in(storage: str) -> str:
    """Return the tracking database that studies of a local storage folder share.

    Raises:
        InvalidValue: the storage is no local folder, where SQLite cannot live.
    """
    return f"sqlite:///{_local(storage) / DATABASE}"


def artifact_root_in(storage: str) -> str:
    """Return where studies of a storage keep artifacts if no server does."""
    if _is_remote(storage):
        return f"{storage.rstrip('/')}/{ARTIFACTS}"
    return (_local(storage) / ARTIFACTS).as_uri()


def _is_remote(storage: str) -> bool:
    return "://" in absolute(storage)


def local_folder(storage: str, study: str) -> Path:
    """Return the study's folder on this machine, with what its job leaves for readers.

    For a remote storage it lies in the home folder, one for each name and storage.
    """
    if not _is_remote(storage):
        return _local(storage) / study
    which = hashlib.blake2b(storage.rstrip("/").encode(), digest_size=6).hexdigest()
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "sentune" / f"{study}-{which}"


def default_tracking_uri() -> str:
    """Return ``MLFLOW_TRACKING_URI``, or the database in ``studies`` of the working directory.

    Raises:
        InvalidValue: neither is there.
    """
    named = os.environ.get("MLFLOW_TRACKING_URI")
    if named:
        return named
    if not (Path(STORAGE) / DATABASE).exists():
        fix = f"set MLFLOW_TRACKING_URI, or work where {STORAGE}/ lies"
        raise InvalidValue("tracking_uri", None, fix)
    return tracking_uri_in(STORAGE)


def _local(storage: str) -> Path:
    if _is_remote(storage):
        scheme, server = storage.split("://", 1)[0], "--tracking http://127.0.0.1:5000"
        fix = f"with the storage {scheme}://... name an MLflow server, as in {server}"
        raise InvalidValue("--tracking", None, fix)
    return Path(absolute(storage))
