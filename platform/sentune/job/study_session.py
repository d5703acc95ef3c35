"""The session of a job with its study: the driver lock, and study.json to start it again."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sentune.credentials import without_credentials
from sentune.io.atomic import write_document
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.lock_backends import LOCK_FILE
from sentune.study.store.storage import storage_url
from sentune.study.store.study_index import DATABASE, DESCRIPTION, StudyPlace, read_json

if TYPE_CHECKING:
    from sentune.job.options import StudyOptions
    from sentune.study.config import StudyConfig
    from sentune.study.space.space import SearchSpace


class StudySession:
    """Holds the driver lock of a study; a study that exists is locked on entry.

    A new study is locked by ``take``, later: a job that is refused before leaves no file behind.
    """

    def __init__(self, config: StudyConfig) -> None:
        self._config = config
        self._lock: DriverLock | None = None

    def __enter__(self) -> StudySession:
        own = [Path(self._config.folder, name) for name in (LOCK_FILE, DATABASE)]
        if self._config.optuna_url or any(path.exists() for path in own):
            self.take()
        return self

    def take(self) -> DriverLock:
        """Take the lock, unless this session has it already, and return it.

        Raises:
            StudyConflict: another process drives the study; says which.
        """
        if self._lock is None:
            url = storage_url(self._config.folder, self._config.optuna_url)
            self._lock = DriverLock(url, self._config.name).acquire()
        return self._lock

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            self._lock.release()


def origin(config: StudyConfig) -> str | None:
    """Return the study that this one was forked from, as ``study.json`` says.

    A damaged ``study.json`` is written again by this start; then the summary knows.
    """
    try:
        told = read_json(f"{config.folder}/{DESCRIPTION}")
    except ValueError:
        told = StudyPlace(name=config.name, folder=config.folder, url="").summary()
    found: str | None = told.get("forked_from")
    return found


def describe(
    config: StudyConfig, options: StudyOptions, space: SearchSpace, forked_from: str | None
) -> None:
    """Write ``study.json``, from which ``sentune study resume`` starts the study again.

    Credentials are left out: the environment of the next start has them.
    """
    content: dict[str, Any] = {
        "job": type(options).__name__,
        "options": without_credentials(options.model_dump(mode="json")),
        "space": space.to_dict(),
        "forked_from": forked_from,
        "folder": str(Path.cwd()),
        "command": without_credentials(sys.argv),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_document(config.folder, DESCRIPTION, json.dumps(content, indent=1) + "\n")
