"""Storage of a study's trials: Optuna's journal in its folder, or a database."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy import event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from sentune.credentials import without_credentials
from sentune.errors import InvalidValue, StudyConflict
from sentune.formatting import differences
from sentune.io.databases import alone_in, database_url, first_line, sqlite_path
from sentune.io.waits import WAITS
from sentune.study.store import DATABASE, JOURNAL
from sentune.study.store.journal import StudyJournal
from sentune.study.store.outage import StudyDatabase, damaged_database
from sentune.study.store.postgres_lock import SILENT
from sentune.study.store.trial_codec import DIRECTIONS, milestones, own

FINGERPRINT = "fingerprint"
"""Attribute of an Optuna study: all inputs that its trials share, such as corpora and code."""
OLD_FINGERPRINT = "world"
"""Name of that attribute in studies of version 0.2.0 and before."""

BUSY_SECONDS = 60
"""Seconds that SQLite waits for another writer before it reports a locked database."""


def storage_url(folder: str, optuna_url: str | None) -> str:
    """Return the database URL if the user names one, else the path of the folder's journal.

    Raises:
        InvalidValue: the folder is remote and no URL is given; a journal needs a file system.
        StudyConflict: the folder has the SQLite database of an older version.
    """
    if optuna_url is not None:
        return optuna_url
    if "://" in folder:
        fix = "a journal needs a local folder; add --optuna postgresql://... or sqlite:////PATH"
        raise InvalidValue("--storage", folder, fix)
    path = Path(folder).resolve() / JOURNAL
    name = path.parent.name
    if not path.exists() and path.with_name(DATABASE).exists():
        raise StudyConflict(
            f"study {name!r} was made by an older version, in SQLite. It can be shown, evaluated "
            f"and reported, but not continued; continue in a new study: sentune study fork {name} "
            f"NEW-NAME --storage {shlex.quote(str(path.parent.parent))}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


def open_storage(url: str, *, driver: bool = False) -> StudyJournal | StudyDatabase:
    """Open Optuna's storage at the path of a journal or the URL of a database.

    Args:
        driver: whether this process drives the study; otherwise it only reads.

    Raises:
        InvalidValue: it cannot be opened; credentials are left out of the message.
        DamagedFile: the journal or the SQLite file is damaged.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if "://" not in url:
        return StudyJournal(url, driver=driver)
    if not driver and (file := sqlite_path(url)) is not None and not file.exists():
        raise InvalidValue("--optuna", url, "there is no such file")
    try:
        named = database_url(url)
        plain = named.render_as_string(hide_password=False)
        with WAITS.until(f"the Optuna database at {named}"), alone_in(plain):
            storage = RDBStorage(plain, engine_kwargs=_arguments(named))
    except (SQLAlchemyError, ImportError) as error:
        if damage := damaged_database(url, error):
            raise damage from None
        fix = f"the database cannot be opened ({first_line(error)})"
        raise InvalidValue("--optuna", without_credentials(url), fix) from None
    if named.get_backend_name() == "sqlite":
        event.listen(storage.engine, "connect", _write_ahead)
        storage.engine.dispose()  # closes connections that were made without the listener
    return StudyDatabase(storage, driver=driver)


def _arguments(url: URL) -> dict[str, Any]:
    """Return the arguments of SQLAlchemy's ``create_engine`` for a database."""
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": BUSY_SECONDS}}
    limits = SILENT if url.get_driver_name() in ("psycopg2", "psycopg") else {}
    arguments = {name: limit for name, limit in limits.items() if name not in url.query}
    return {"pool_pre_ping": True, "connect_args": arguments}


def _write_ahead(connection: Any, record: object) -> None:
    """Set SQLite's WAL mode: readers (a dashboard, ``study show``) do not block the driver."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def study_id(storage: BaseStorage | None, name: str) -> int | None:
    """Return Optuna's id of the study with this name, or None if there is no such study."""
    try:
        return storage.get_study_id_from_name(name) if storage is not None else None
    except KeyError:
        return None


def stored_fingerprint(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fingerprint from the attributes of an Optuna study, or None if it has none."""
    found: dict[str, Any] | None = attributes.get(FINGERPRINT, attributes.get(OLD_FINGERPRINT))
    return found


def open_study(
    storage: BaseStorage,
    name: str,
    *,
    modes: Sequence[str],
    fingerprint: Mapping[str, Any],
    keeps_runs: bool = True,
) -> optuna.Study:
    """Open the study with this name, or create it.

    Args:
        modes: ``max`` or ``min`` of each objective.
        fingerprint: all inputs that its trials must share, in JSON types.
        keeps_runs: whether the folder of any run exists. If not, a study with another fingerprint
            is replaced unless one of its trials reached a milestone: the corrected command must
            work after a failed start.

    Raises:
        StudyConflict: it exists with another fingerprint; the message lists the differences.
    """
    if study_id(storage, name) is None:
        storage.create_new_study([DIRECTIONS[mode] for mode in modes], name)
    study = optuna.load_study(storage=storage, study_name=name)
    known = stored_fingerprint(study.user_attrs)
    now = json.loads(json.dumps(fingerprint))
    if known is None:
        study.set_user_attr(FINGERPRINT, now)
        return study
    if known != now and not keeps_runs:
        begun = [trial for trial in study.get_trials(deepcopy=False) if own(trial)]
        if not any(milestones(trial) for trial in begun):
            storage.delete_study(storage.get_study_id_from_name(name))
            if isinstance(storage, StudyJournal):
                storage.compact()  # now, because a later one would change the new study's id
            return open_study(storage, name, modes=modes, fingerprint=fingerprint)
    if changed := "\n".join(f"  {line}" for line in differences(known, now)):
        raise StudyConflict(
            f"study {name!r} exists with other inputs:\n{changed}\n"
            "Give another --study NAME, run the command that started this study, or add\n"
            "--fork NAME to start a new study that takes over the old trials that are still valid."
        )
    return study
