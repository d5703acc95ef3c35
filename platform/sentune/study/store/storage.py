"""Optuna's storage: opening it, and refusing to go on with a study of another world."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from sqlalchemy import event
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from sentune.credentials import without_credentials
from sentune.errors import InvalidValue, StudyConflict
from sentune.io.database_lock import alone_in
from sentune.study.store.write_through import WriteThrough

WORLD = "world"
DIRECTIONS = {
    "max": optuna.study.StudyDirection.MAXIMIZE,
    "min": optuna.study.StudyDirection.MINIMIZE,
}
SILENT = {"connect_timeout": 10, "tcp_user_timeout": 30_000}
"""PostgreSQL's: seconds to connect, milliseconds after which a silent connection is given up."""

BUSY_SECONDS = 60
"""How long a writer waits for another one before SQLite calls the database locked."""


def storage_url(folder: str, optuna_url: str | None) -> str:
    """Where a study's trials are kept: what the user names, else SQLite in the study's folder.

    Raises:
        InvalidValue: the folder is remote and no URL is given; SQLite needs a file system.
    """
    if optuna_url is not None:
        return optuna_url
    if "://" in folder:
        fix = "SQLite needs a local folder; add --optuna postgresql://... or sqlite:////PATH"
        raise InvalidValue("--storage", folder, fix)
    path = Path(folder).resolve() / "optuna.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path}"


def open_storage(url: str) -> WriteThrough:
    """Optuna storage in a database; SQLite with a write-ahead log and patience.

    Its trials are for the driver of their study alone; who looks reads the tables.

    Raises:
        InvalidValue: the database cannot be reached; credentials are left out of the message.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    own = url.startswith("sqlite")
    try:
        with alone_in(url):
            storage = optuna.storages.RDBStorage(url, engine_kwargs=_arguments(url))
    except (SQLAlchemyError, ImportError) as error:
        cause = str(error.__cause__ or error).strip().splitlines()[0]
        fix = f"the database cannot be opened ({without_credentials(cause)})"
        raise InvalidValue("--optuna", without_credentials(url), fix) from None
    if own:
        _write_ahead(storage.engine)
    return WriteThrough(storage)


def _arguments(url: str) -> dict[str, Any]:
    """How its connections are made.

    Without limits a cut network holds a client for a quarter of an hour, also when it is whole.
    """
    if url.startswith("sqlite"):
        return {"connect_args": {"timeout": BUSY_SECONDS}}
    named = make_url(url)
    if named.get_driver_name() not in ("psycopg2", "psycopg"):
        return {"pool_pre_ping": True}
    limits = {name: limit for name, limit in SILENT.items() if name not in named.query}
    return {"pool_pre_ping": True, "connect_args": limits}


def _write_ahead(engine: Engine) -> None:
    """Readers (a dashboard, ``study show``) do not lock out the driver then."""

    def on_connect(connection: Any, record: Any) -> None:
        del record
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    event.listen(engine, "connect", on_connect)
    engine.dispose()  # connections made before the listener was there


def open_study(
    storage: optuna.storages.BaseStorage,
    name: str,
    *,
    modes: Sequence[str],
    sampler: BaseSampler | None,
    world: Mapping[str, Any],
) -> optuna.Study:
    """The study of this name, made or found.

    Args:
        storage: from ``open_storage``.
        name: of the study.
        modes: ``max`` or ``min`` of each objective.
        sampler: None where points are given and not drawn.
        world: everything that its trials must share, JSON types.

    Raises:
        StudyConflict: it exists and belongs to another world; says what differs.
    """
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        load_if_exists=True,
        directions=[DIRECTIONS[mode] for mode in modes],
        sampler=sampler or optuna.samplers.RandomSampler(seed=0),
        pruner=optuna.pruners.NopPruner(),
    )
    known = study.user_attrs.get(WORLD)
    if known is None:
        study.set_user_attr(WORLD, json.loads(json.dumps(world)))
        return study
    changed = list(differences(known, json.loads(json.dumps(world))))
    if changed:
        listed = "\n".join(f"  {line}" for line in changed)
        raise StudyConflict(
            f"study {name!r} exists and was made from something else:\n{listed}\n"
            "Give another --study NAME, run the command that started this one, or add\n"
            "--fork NAME: a new study that knows those of the old trials that still hold."
        )
    return study


def differences(was: Any, now: Any, path: str = "") -> Iterator[str]:
    """``field: was X, is now Y`` for everything that differs between two JSON trees."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted({*was, *now}):
            below = f"{path}.{key}" if path else key
            yield from differences(was.get(key), now.get(key), below)
    elif was != now:
        yield f"{path}: was {json.dumps(was)}, is now {json.dumps(now)}"
