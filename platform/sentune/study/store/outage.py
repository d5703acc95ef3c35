"""Optuna's storage in a database that may be unavailable for a moment (restarted, cut off).

Every call is tried again for 15 s. If the answer to a write was lost, reading shows whether it was
made: a created trial is found by its token, an end by the trial's state.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from optuna.exceptions import DuplicatedStudyError, StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored
from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from sentune.credentials import without_credentials
from sentune.errors import DamagedFile, Overtaken, SentuneError
from sentune.io.databases import damage_in, first_line, sqlite_path
from sentune.io.waits import WAITS
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.trial_codec import TOKEN, TWIN

logger = logging.getLogger(__name__)

P = ParamSpec("P")
K = TypeVar("K")
T = TypeVar("T")

PATIENCE = 15.0
"""Seconds of attempts; fewer than ``driver_lock.EXPIRY``, after which another driver may start."""

FIRST_WAIT, LONGEST_WAIT = 0.25, 2.0


class DatabaseGone(SentuneError):
    """A study's database did not come back in time; everything stored is intact."""


def waiting(engine: Engine, action: Callable[[bool], T]) -> T:
    """Return the result of an action on a database, trying again for ``PATIENCE`` seconds.

    Args:
        action: called with True if an earlier attempt may have succeeded without an answer.

    Raises:
        DatabaseGone: the database did not come back.
        DamagedFile: the database is a damaged SQLite file.
        StorageInternalError: the database answers with an error.
    """
    began, wait = time.monotonic(), FIRST_WAIT
    while True:
        try:
            with WAITS.until(f"the Optuna database at {engine.url}"):
                return action(wait > FIRST_WAIT)
        except (SQLAlchemyError, StorageInternalError, json.JSONDecodeError) as error:
            if damage := damaged_database(str(engine.url), error):
                raise damage from error
            if not _away(engine, error):
                raise
            silent, name = time.monotonic() - began, without_credentials(str(engine.url))
            if silent + wait > PATIENCE:
                raise DatabaseGone(
                    f"--optuna {name}: the database has not answered for {silent:.0f} s "
                    f"({first_line(error)}). Everything stored is intact: start the database and "
                    "run the same command again; trials continue from their checkpoints"
                ) from error
            if wait == FIRST_WAIT:
                logger.warning("%s does not answer, trying again: %s", name, first_line(error))
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def damaged_database(url: str, error: Exception) -> DamagedFile | None:
    """Return the error to raise for a damaged SQLite file; None for other errors.

    Optuna raises a ``ValueError`` or ``LookupError`` for a stored text that it cannot parse.
    """
    path = sqlite_path(url)
    unread = "" if isinstance(error, SQLAlchemyError | StorageInternalError) else str(error)
    if path is None or not (why := unread or damage_in(error)):
        return None
    return DamagedFile(path, f"the database is damaged ({why})", "restore it from a copy")


def _away(engine: Engine, error: Exception) -> bool:
    """Return whether the connection to a server was lost; never for SQLite, which has none."""
    cause = error if isinstance(error, SQLAlchemyError) else error.__cause__
    lost = isinstance(cause, OperationalError | InterfaceError) or bool(
        getattr(cause, "connection_invalidated", False)
    )
    return lost and engine.dialect.name != "sqlite"


def _waited(
    method: Callable[Concatenate[RDBStorage, P], T], *, writes_trial: bool = False
) -> Callable[Concatenate[StudyDatabase, P], T]:
    """Return a method of ``RDBStorage`` that waits for the database."""

    def call(self: StudyDatabase, /, *given: P.args, **named: P.kwargs) -> T:
        asked: Callable[..., T] = getattr(self._backend, method.__name__)
        if not writes_trial:
            return waiting(self.engine, lambda _: asked(*given, **named))
        trial_id: Any = given[0] if given else named["trial_id"]
        return self._change(trial_id, lambda _: asked(*given, **named))

    return call


_written = partial(_waited, writes_trial=True)


class StudyDatabase(BaseStorage):
    """Optuna's ``RDBStorage`` that waits for its database and caches trials.

    Ended trials never change. The driver is the only process that writes a study and its trials, so
    it caches what it has read or written, and reads a trial once more after storing its end. Other
    processes read the study and every trial that has not ended again.

    Args:
        driver: whether this process drives the studies that it asks for.
    """

    def __init__(self, backend: RDBStorage, *, driver: bool) -> None:
        self._backend, self.engine, self.driver = backend, backend.engine, driver
        self._lock = threading.RLock()
        self._trials: dict[int, list[FrozenTrial]] = {}
        self._ids: dict[tuple[int, int], int] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._changed: set[tuple[int, int]] = set()
        self._studies: dict[str, int] = {}
        self._attributes: dict[int, dict[str, Any]] = {}
        self._check: Callable[[], None] = lambda: None

    def guard(self, lock: DriverLock) -> None:
        """Check a lock before each write of a trial."""
        self._check = lock.check

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(StudyDatabase, driver=self.driver), (self._backend,)

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Create a trial once, even if the database's answer is lost, and return its id.

        Raises:
            Overtaken: another driver has added trials.
        """
        token = template_trial.user_attrs.get(TOKEN) if template_trial is not None else None
        self._check()
        with self._lock:
            known = len(self._known(study_id))

            def attempt(again: bool) -> int:
                made = self._with_token(study_id, known, token) if again else []
                return made[0] if made else self._backend.create_new_trial(study_id, template_trial)

            trial_id = waiting(self.engine, attempt)
            trial = self._read(trial_id)
            if trial.number == known:
                self._ids[study_id, known], self._places[trial_id] = trial_id, (study_id, known)
                self._trials[study_id].append(trial)
                return trial_id
            self._trials.pop(study_id)
            made = self._with_token(study_id, known, token)  # several: Optuna tries again, too
            for other in made[1:]:
                self.set_trial_user_attr(other, TWIN, known)
                self.set_trial_state_values(other, Stored.FAIL)
            if self.driver and not made[1:]:
                raise Overtaken(f"another driver has started trial {known} of this study")
            return made[0] if made else trial_id

    def _with_token(self, study_id: int, since: int, token: str | None) -> list[int]:
        """Return the ids of trials with a token, from a trial number on."""
        trials = self._backend.get_all_trials(study_id, deepcopy=False) if token else []
        found = [t.number for t in trials[since:] if t.user_attrs.get(TOKEN) == token]
        return [self.get_trial_id_from_study_id_trial_number(study_id, n) for n in found]

    set_trial_param = _written(RDBStorage.set_trial_param)

    def set_trial_intermediate_value(
        self, trial_id: int, step: int, intermediate_value: float
    ) -> None:
        write = partial(self._backend.set_trial_intermediate_value, trial_id, step)
        written = {"intermediate_values": {step: intermediate_value}}
        self._change(trial_id, lambda _: write(intermediate_value), written)

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        write = partial(self._backend.set_trial_user_attr, trial_id, key)
        written = {"user_attrs": {key: json.loads(json.dumps(value))}}
        self._change(trial_id, lambda _: write(value), written)

    set_trial_system_attr = _written(RDBStorage.set_trial_system_attr)

    def set_trial_state_values(
        self, trial_id: int, state: Stored, values: Sequence[float] | None = None
    ) -> bool:
        def attempt(again: bool) -> bool:
            if again and self._backend.get_trial(trial_id).state == state:
                return True  # it was stored, but the answer was lost
            return self._backend.set_trial_state_values(trial_id, state, values)

        return self._change(trial_id, attempt)

    def _change(
        self,
        trial_id: int,
        action: Callable[[bool], T],
        written: Mapping[str, Mapping[Any, Any]] | None = None,
    ) -> T:
        """Change a trial, which is read again at the next request.

        Args:
            written: field of the trial -> new entries; with it a driver updates its cache instead.
        """
        self._check()
        with self._lock:
            place = self._places.get(trial_id)
            if place is None:
                self._trials.clear()
                return waiting(self.engine, action)
            unread = place in self._changed
            self._changed.add(place)
            done = waiting(self.engine, action)
            known = self._trials.get(place[0])
            if written and self.driver and known and not unread:
                trial = copy.copy(known[place[1]])  # a new object tells a view of the change
                for name, entries in written.items():
                    setattr(trial, name, {**getattr(trial, name), **entries})
                known[place[1]] = trial
                self._changed.discard(place)
            return done

    def get_trial(self, trial_id: int) -> FrozenTrial:
        place = self._places.get(trial_id) if self.driver else None
        if place is None:
            return self._read(trial_id)
        trial = self._known(place[0])[place[1]]
        return trial if trial.state.is_finished() else copy.deepcopy(trial)

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[Stored] | None = None
    ) -> list[FrozenTrial]:
        found = [t for t in self._known(study_id) if states is None or t.state in states]
        return copy.deepcopy(found) if deepcopy else found

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        place = (study_id, trial_number)
        with self._lock:
            if place not in self._ids:
                find = self._backend.get_trial_id_from_study_id_trial_number
                self._ids[place] = found = self._asked(lambda: find(*place))
                self._places[found] = place
            return self._ids[place]

    def _known(self, study_id: int) -> list[FrozenTrial]:
        """Return all trials of a study, from the cache if they cannot have changed."""
        with self._lock:
            if study_id not in self._trials:
                read = partial(self._backend.get_all_trials, study_id, deepcopy=False)
                self._trials[study_id] = self._asked(read)
                return self._trials[study_id]
            known = self._trials[study_id]
            if self.driver:
                again = [number for study, number in self._changed if study == study_id]
            else:
                again = [trial.number for trial in known if not trial.state.is_finished()]
            trial_id = self.get_trial_id_from_study_id_trial_number
            for number in again:
                known[number] = self._read(trial_id(study_id, number))
            self._changed -= {(study_id, number) for number in again}
            with suppress(KeyError):  # no further trial
                while not self.driver:
                    known.append(self._read(trial_id(study_id, len(known))))
            return known

    def _read(self, trial_id: int) -> FrozenTrial:
        return self._asked(lambda: self._backend.get_trial(trial_id))

    def _asked(self, action: Callable[[], T]) -> T:
        try:
            return waiting(self.engine, lambda _: action())
        except KeyError:  # no such study or trial
            raise
        except (ValueError, LookupError) as error:
            if damage := damaged_database(str(self.engine.url), error):
                raise damage from error
            raise

    def create_new_study(
        self, directions: Sequence[StudyDirection], study_name: str | None = None
    ) -> int:
        def attempt(again: bool) -> int:
            try:
                return self._backend.create_new_study(directions, study_name)
            except DuplicatedStudyError:
                if not again or study_name is None:
                    raise  # otherwise it was created, but the answer was lost
                return self._backend.get_study_id_from_name(study_name)

        return waiting(self.engine, attempt)

    def delete_study(self, study_id: int) -> None:
        with self._lock:
            # SQLite reuses the id of a deleted study
            trials = (self._trials, self._ids, self._places, self._changed)
            known: tuple[Any, ...] = (*trials, self._attributes, self._studies)
            for kept in known:
                kept.clear()
            self._asked(lambda: self._backend.delete_study(study_id))

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        with self._lock:
            self._attributes.pop(study_id, None)
            write = self._backend.set_study_user_attr
            waiting(self.engine, lambda _: write(study_id, key, value))

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        return self._read_once(self._attributes, study_id, self._backend.get_study_user_attrs)

    def get_study_id_from_name(self, study_name: str) -> int:
        return self._read_once(self._studies, study_name, self._backend.get_study_id_from_name)

    def _read_once(self, known: dict[K, T], key: K, read: Callable[[K], T]) -> T:
        with self._lock:
            if not self.driver or key not in known:
                known[key] = self._asked(lambda: read(key))
            return known[key]

    set_study_system_attr = _waited(RDBStorage.set_study_system_attr)
    get_study_name_from_id = _waited(RDBStorage.get_study_name_from_id)
    get_study_directions = _waited(RDBStorage.get_study_directions)
    get_study_system_attrs = _waited(RDBStorage.get_study_system_attrs)
    get_all_studies = _waited(RDBStorage.get_all_studies)
