"""MLflow's tables that store absolute paths of artifacts, and its open databases.

Written for MLflow 3.18, which has no public function to move or to close a store.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlflow.store.model_registry.dbmodels.models import SqlModelVersion
from mlflow.store.tracking.dbmodels.models import SqlExperiment, SqlLoggedModel, SqlRun
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from sqlalchemy import create_engine, func, literal, select, update
from sqlalchemy.pool import NullPool

PLACES = (
    SqlExperiment.artifact_location,
    SqlRun.artifact_uri,
    SqlLoggedModel.artifact_location,
    SqlModelVersion.storage_location,
)
"""Columns with absolute paths or URIs of artifacts."""


def move_artifacts(tracking_uri: str, experiments: str, root: str) -> list[str]:
    """Change the locations of a database's artifacts to the URI ``root``, in one transaction.

    Those of the experiments whose names start with ``experiments`` are compared to ``root``. One
    is changed if its folder is gone, as after a move, or ``root`` has runs of it, as after a copy.

    Returns:
        The locations that were replaced.
    """
    named: Any = SqlExperiment.name.startswith(experiments, autoescape=True)
    place = SqlExperiment.artifact_location
    engine = create_engine(tracking_uri, poolclass=NullPool)
    with closing(engine.connect()) as connection, connection.begin():
        known = connection.scalars(select(place).where(named, place != root).distinct()).all()
        known = [old for old in known if _moved(str(old), root)]
        for old in known:
            for column in PLACES:
                there = column.startswith(f"{old}/", autoescape=True) | (column == old)
                moved = literal(root) + func.substr(column, len(old) + 1)
                table = column.class_
                connection.execute(update(table).where(there).values({column.key: moved}))
    return [str(old) for old in known]


def _moved(place: str, root: str) -> bool:
    """Return whether the artifacts of a location were moved or copied to ``root``."""
    if not place.startswith("file:"):
        return False
    folders = (Path(unquote(urlsplit(uri).path)) for uri in (place, root))
    try:
        old, new = ({run.name for run in folder.iterdir()} - {"models"} for folder in folders)
    except OSError:  # it is gone, or another user's
        return True
    return not old or bool(old & new)


def forget(tracking_uri: str) -> None:
    """Close the connections to a database, which MLflow keeps by the text of its address."""
    engine = SqlAlchemyStore._engine_map.pop(tracking_uri, None)
    if engine is not None:
        engine.dispose()
