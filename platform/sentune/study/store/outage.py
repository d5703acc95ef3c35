"""Optuna's storage in a database that may be away for a moment (restarted, cut off).

Every call is tried again for 15 s. What a lost answer leaves open is found by reading: a trial
that was created by its token, an end by the trial's state.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Container, Sequence
from typing import Any, TypeVar

from optuna.distributions import BaseDistribution
from optuna.exceptions import DuplicatedStudyError, StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored
from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from sentune.credentials import without_credentials
from sentune.errors import SentuneError, StudyConflict
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.trial_codec import TOKEN, TWIN

logger = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 15.0
"""Seconds; less than those (``driver_lock.EXPIRY``) after which another machine may drive."""

FIRST_WAIT, LONGEST_WAIT = 0.25, 2.0


class DatabaseGone(SentuneError):
    """A study's database that did not come back; everything that was stored is whole."""


def waiting(engine: Engine, action: Callable[[bool], T]) -> T:
    """Return what an action on a database gives, tried again for ``PATIENCE`` seconds.

    Args:
        engine: of the database.
        action: told whether an earlier attempt may have been made without its answer.

    Raises:
        DatabaseGone: the database did not come back.
        StorageInternalError: it answers, and refuses.
    """
    began, wait = time.monotonic(), FIRST_WAIT
    while True:
        try:
            return action(wait > FIRST_WAIT)
        except (SQLAlchemyError, StorageInternalError) as error:
            if not _away(engine, error):
                raise
            silent = time.monotonic() - began
            if silent + wait > PATIENCE:
                raise _gone(engine, error, silent) from error
            if wait == FIRST_WAIT:
                logger.warning("%s is away, trying again: %s", _name(engine), _line(error))
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _away(engine: Engine, error: Exception) -> bool:
    """Return whether a server was lost; what a file's database says is about the file."""
    cause = error if isinstance(error, SQLAlchemyError) else error.__cause__
    lost = isinstance(cause, OperationalError | InterfaceError) or bool(
        getattr(cause, "connection_invalidated", False)
    )
    return lost and engine.dialect.name != "sqlite"


def _gone(engine: Engine, error: Exception, seconds: float) -> DatabaseGone:
    return DatabaseGone(
        f"--optuna {_name(engine)}: the database has not answered for {seconds:.0f} s "
        f"({_line(error)}). Everything that was stored is whole: start the database and run the "
        "same command again; trials go on from their checkpoints"
    )


def _name(engine: Engine) -> str:
    return str(without_credentials(engine.url.render_as_string(hide_password=True)))


def _line(error: Exception) -> str:
    """Return the first line: SQLAlchemy adds statement, parameters and a link."""
    told = error.__cause__ if not isinstance(error, SQLAlchemyError) and error.__cause__ else error
    return str(without_credentials(str(told).strip().splitlines()[0]))


class StudyDatabase(BaseStorage):
    """Optuna's ``RDBStorage``, waited for, which reads no trial twice without need.

    Ended trials never change. The driver of a study is the only one who writes its trials, so it
    reads again what it has written; others read again every trial that has not ended.

    Args:
        backend: Optuna's storage.
        driver: whether this process drives the studies that it asks for.
    """

    def __init__(self, backend: RDBStorage, *, driver: bool) -> None:
        self._backend, self.driver = backend, driver
        self._lock = threading.RLock()
        self._trials: dict[int, list[FrozenTrial]] = {}
        self._ids: dict[tuple[int, int], int] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._changed: set[tuple[int, int]] = set()
        self._check: Callable[[], None] = lambda: None

    @property
    def engine(self) -> Engine:
        """The database."""
        return self._backend.engine

    def guard(self, lock: DriverLock) -> None:
        """Ask a lock before each write of a trial."""
        self._check = lock.check

    def __getstate__(self) -> dict[str, Any]:
        return {"backend": self._backend, "driver": self.driver}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Create a trial once, also where the answer is lost, and return its id.

        Raises:
            StudyConflict: another driver has added trials.
        """
        token = template_trial.user_attrs.get(TOKEN) if template_trial is not None else None
        self._check()
        with self._lock:
            known = len(self._known(study_id))

            def attempt(again: bool) -> int:
                made = self._with_token(study_id, known, token) if again else []
                return made[0] if made else self._backend.create_new_trial(study_id, template_trial)

            trial_id = waiting(self.engine, attempt)
            trial = self._asked(lambda: self._backend.get_trial(trial_id))
            if trial.number == known:
                self._ids[study_id, known], self._places[trial_id] = trial_id, (study_id, known)
                self._trials[study_id].append(trial)
                return trial_id
            self._trials.pop(study_id)
            made = self._with_token(study_id, known, token)  # Optuna tries again by itself, too
            for other in made[1:]:
                self.set_trial_user_attr(other, TWIN, known)
                self.set_trial_state_values(other, Stored.FAIL)
            if self.driver and not made[1:]:
                raise StudyConflict(f"another driver has started trial {known} of this study")
            return made[0] if made else trial_id

    def _with_token(self, study_id: int, since: int, token: str | None) -> list[int]:
        """Return ids of the trials with a token, among those from a number on."""
        trials = self._backend.get_all_trials(study_id, deepcopy=False) if token else []
        found = [t.number for t in trials[since:] if t.user_attrs.get(TOKEN) == token]
        return [self.get_trial_id_from_study_id_trial_number(study_id, n) for n in found]

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        """Store a drawn value."""
        value = (trial_id, param_name, param_value_internal, distribution)
        self._change(trial_id, lambda _: self._backend.set_trial_param(*value))

    def set_trial_state_values(
        self, trial_id: int, state: Stored, values: Sequence[float] | None = None
    ) -> bool:
        """Store a trial's state; where the answer was lost, it may be stored already."""

        def attempt(again: bool) -> bool:
            if again and self._backend.get_trial(trial_id).state == state:
                return True
            return self._backend.set_trial_state_values(trial_id, state, values)

        return self._change(trial_id, attempt)

    def set_trial_intermediate_value(
        self, trial_id: int, step: int, intermediate_value: float
    ) -> None:
        """Store a point of a trial's curve."""
        point = (trial_id, step, intermediate_value)
        self._change(trial_id, lambda _: self._backend.set_trial_intermediate_value(*point))

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Store an attribute of ours."""
        self._change(trial_id, lambda _: self._backend.set_trial_user_attr(trial_id, key, value))

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Store an attribute of Optuna's."""
        self._change(trial_id, lambda _: self._backend.set_trial_system_attr(trial_id, key, value))

    def _change(self, trial_id: int, action: Callable[[bool], T]) -> T:
        self._check()
        with self._lock:
            if trial_id in self._places:
                self._changed.add(self._places[trial_id])
            else:
                self._trials.clear()
            return waiting(self.engine, action)

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a trial."""
        place = self._places.get(trial_id) if self.driver else None
        if place is None:
            return self._asked(lambda: self._backend.get_trial(trial_id))
        trial = self._known(place[0])[place[1]]
        return trial if trial.state.is_finished() else copy.deepcopy(trial)

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[Stored] | None = None,
    ) -> list[FrozenTrial]:
        """Return the trials of a study by number."""
        found = [t for t in self._known(study_id) if states is None or t.state in states]
        return copy.deepcopy(found) if deepcopy else found

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        """Return the id of a trial.

        Raises:
            KeyError: there is none.
        """
        place = (study_id, trial_number)
        with self._lock:
            if place not in self._ids:
                find = self._backend.get_trial_id_from_study_id_trial_number
                self._ids[place] = found = self._asked(lambda: find(*place))
                self._places[found] = place
            return self._ids[place]

    def _known(self, study_id: int) -> list[FrozenTrial]:
        """Return all trials of a study as they are now; what cannot have changed is from memory."""
        with self._lock:
            if study_id not in self._trials:
                read = self._asked(lambda: self._backend.get_all_trials(study_id, deepcopy=False))
                self._trials[study_id] = read
                return read
            known = self._trials[study_id]
            if self.driver:
                again = [number for study, number in self._changed if study == study_id]
            else:
                again = [trial.number for trial in known if not trial.state.is_finished()]
            for number in again:
                known[number] = self._read(study_id, number)
            self._changed -= {(study_id, number) for number in again}
            while not self.driver:
                try:
                    known.append(self._read(study_id, len(known)))
                except KeyError:
                    break
            return known

    def _read(self, study_id: int, number: int) -> FrozenTrial:
        trial_id = self.get_trial_id_from_study_id_trial_number(study_id, number)
        return self._asked(lambda: self._backend.get_trial(trial_id))

    def _asked(self, action: Callable[[], T]) -> T:
        return waiting(self.engine, lambda _: action())

    def create_new_study(
        self, directions: Sequence[StudyDirection], study_name: str | None = None
    ) -> int:
        """Create a study; where the answer was lost, it may be there already."""

        def attempt(again: bool) -> int:
            try:
                return self._backend.create_new_study(directions, study_name)
            except DuplicatedStudyError:
                if not again or study_name is None:
                    raise
                return self._backend.get_study_id_from_name(study_name)

        return waiting(self.engine, attempt)

    def delete_study(self, study_id: int) -> None:
        """Delete a study with its trials."""
        with self._lock:
            self._trials.pop(study_id, None)
            self._asked(lambda: self._backend.delete_study(study_id))

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """Store an attribute of ours."""
        self._asked(lambda: self._backend.set_study_user_attr(study_id, key, value))

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """Store an attribute of Optuna's."""
        self._asked(lambda: self._backend.set_study_system_attr(study_id, key, value))

    def get_study_id_from_name(self, study_name: str) -> int:
        """Return the id; ``KeyError`` where there is none."""
        return self._asked(lambda: self._backend.get_study_id_from_name(study_name))

    def get_study_name_from_id(self, study_id: int) -> str:
        """Return the name; ``KeyError`` where there is none."""
        return self._asked(lambda: self._backend.get_study_name_from_id(study_id))

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Return the direction of each objective."""
        return self._asked(lambda: self._backend.get_study_directions(study_id))

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """Return our attributes."""
        return self._asked(lambda: self._backend.get_study_user_attrs(study_id))

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """Return Optuna's attributes."""
        return self._asked(lambda: self._backend.get_study_system_attrs(study_id))

    def get_all_studies(self) -> list[Any]:
        """Return all studies of the database."""
        return self._asked(lambda: self._backend.get_all_studies())

    def remove_session(self) -> None:
        """End this thread's connection."""
        self._backend.remove_session()
