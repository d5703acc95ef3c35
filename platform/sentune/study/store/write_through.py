"""Optuna's storage of a study that this process drives: written at once, read from memory.

Optuna reads every unfinished trial again for each question, some 25 times a trial and 15 ms each,
and commits each value by itself. A study has one driver (see ``driver_lock.py``), so that what it
has written is what there is: the database stays the truth, and memory is what was written.
Whoever only looks at a study reads its tables (``trial_rows.py``) and asks for no trial here.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from optuna.distributions import BaseDistribution, check_distribution_compatibility
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored
from sqlalchemy import Engine, select

from sentune.study.store import trial_changes
from sentune.study.store.outage import in_transaction, waiting
from sentune.study.store.trial_changes import Change
from sentune.study.store.trial_rows import TRIALS, TrialRows


class WriteThrough(BaseStorage):
    """See above. A finished trial never changes; another one is replaced, so readers keep theirs.

    Args:
        backend: the database.
    """

    def __init__(self, backend: RDBStorage) -> None:
        self._backend = backend
        self._trials: dict[int, list[FrozenTrial]] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._axes: dict[tuple[int, str], BaseDistribution] = {}
        self._directions: dict[int, list[StudyDirection]] = {}
        self._waiting: list[Change] | None = None

    @property
    def engine(self) -> Engine:
        """The database."""
        return self._backend.engine

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written inside is written in one transaction, when it is left.

        An error, or a kill, inside writes nothing. Contexts may lie in each other.
        """
        if self._waiting is not None:
            yield
            return
        self._waiting = []
        try:
            yield
            self._write(self._waiting)
        except BaseException:
            self._forget()
            raise
        finally:
            self._waiting = None

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """A trial that runs, or a copy of a template."""
        number = len(self._of(study_id))
        trial = in_transaction(
            self.engine,
            lambda connection: trial_changes.new_trial(
                connection, study_id, number, template_trial
            ),
        )
        self._remember(study_id, trial)
        return trial._trial_id

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        """A value that was drawn; its distribution must be like that of other trials."""
        study, _ = self._place(trial_id)
        earlier = self._axes.setdefault((study, param_name), distribution)
        check_distribution_compatibility(earlier, distribution)
        trial = self._updatable(trial_id)
        change = trial_changes.parameter(trial, param_name, param_value_internal, distribution)
        self._change(change)

    def set_trial_state_values(
        self, trial_id: int, state: Stored, values: Sequence[float] | None = None
    ) -> bool:
        """False where a trial that runs is to be started."""
        trial = self._updatable(trial_id)
        if state == Stored.RUNNING and trial.state != Stored.WAITING:
            return False
        self._change(trial_changes.state(trial, state, values))
        return True

    def set_trial_intermediate_value(
        self, trial_id: int, step: int, intermediate_value: float
    ) -> None:
        """A point of the trial's curve."""
        self._change(trial_changes.step(self._updatable(trial_id), step, intermediate_value))

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """What the ledger notes."""
        self._change(trial_changes.attribute(self._updatable(trial_id), "user_attrs", key, value))

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """What Optuna notes."""
        self._change(trial_changes.attribute(self._updatable(trial_id), "system_attrs", key, value))

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """One trial; Optuna changes what it is given, so it gets its own."""
        study, number = self._place(trial_id)
        trial = self._trials[study][number]
        return trial if trial.state.is_finished() else _own(trial)

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[Stored] | None = None,
    ) -> list[FrozenTrial]:
        """Those of a study, by number."""
        known = self._of(study_id)
        found = [t for t in known if states is None or t.state in states]
        return copy.deepcopy(found) if deepcopy else found

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        """Raises ``KeyError`` where there is none."""
        known = self._of(study_id)
        if not 0 <= trial_number < len(known):
            raise KeyError(f"study {study_id} has no trial {trial_number}")
        return known[trial_number]._trial_id

    def _change(self, change: Change) -> None:
        if self._waiting is not None:
            self._waiting.append(change)
        else:
            self._write([change])
        study, number = self._place(change.after._trial_id)
        self._trials[study][number] = change.after

    def _write(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        try:
            in_transaction(self.engine, lambda c: trial_changes.write(c, changes))
        except BaseException:
            self._forget()
            raise

    def _of(self, study_id: int) -> list[FrozenTrial]:
        if study_id not in self._trials:
            self._trials[study_id] = []
            rows = TrialRows(self._backend, study_id)
            for trial in waiting(self.engine, rows.read):
                self._remember(study_id, trial)
        return self._trials[study_id]

    def _remember(self, study_id: int, trial: FrozenTrial) -> None:
        """The next trial of a study."""
        known = self._trials[study_id]
        self._places[trial._trial_id] = (study_id, len(known))
        known.append(trial)
        for name, axis in trial.distributions.items():
            self._axes.setdefault((study_id, name), axis)

    def _forget(self) -> None:
        """Reads the database again: what was not written is not remembered either."""
        self._trials.clear()
        self._places.clear()
        self._axes.clear()

    def _place(self, trial_id: int) -> tuple[int, int]:
        """Study and number of a trial.

        Raises:
            KeyError: there is none.
        """
        if trial_id not in self._places:
            chosen = select(TRIALS.c.study_id).where(TRIALS.c.trial_id == trial_id)
            study = in_transaction(self.engine, lambda c: c.execute(chosen).scalar())
            self._of(study if study is not None else -1)
        return self._places[trial_id]

    def _updatable(self, trial_id: int) -> FrozenTrial:
        study, number = self._place(trial_id)
        trial = self._trials[study][number]
        self.check_trial_is_updatable(trial_id, trial.state)
        return trial

    def create_new_study(
        self, directions: Sequence[StudyDirection], study_name: str | None = None
    ) -> int:
        """As the database does it, like all that concerns a whole study."""
        return self._backend.create_new_study(directions, study_name)

    def delete_study(self, study_id: int) -> None:
        """With its trials."""
        self._forget()
        self._backend.delete_study(study_id)

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """A note."""
        self._backend.set_study_user_attr(study_id, key, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """A note of Optuna's."""
        self._backend.set_study_system_attr(study_id, key, value)

    def get_study_id_from_name(self, study_name: str) -> int:
        """Raises ``KeyError`` where there is none."""
        return waiting(self.engine, lambda: self._backend.get_study_id_from_name(study_name))

    def get_study_name_from_id(self, study_id: int) -> str:
        """Raises ``KeyError`` where there is none."""
        return waiting(self.engine, lambda: self._backend.get_study_name_from_id(study_id))

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Of each objective; they never change."""
        if study_id not in self._directions:
            self._directions[study_id] = waiting(
                self.engine, lambda: self._backend.get_study_directions(study_id)
            )
        return self._directions[study_id]

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """The notes."""
        return waiting(self.engine, lambda: self._backend.get_study_user_attrs(study_id))

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """Optuna's notes."""
        return waiting(self.engine, lambda: self._backend.get_study_system_attrs(study_id))

    def get_all_studies(self) -> list[FrozenStudy]:
        """Those of the database."""
        return waiting(self.engine, lambda: self._backend.get_all_studies())

    def remove_session(self) -> None:
        """Ends this thread's connection."""
        self._backend.remove_session()


def _own(trial: FrozenTrial) -> FrozenTrial:
    """A copy whose dictionaries may be changed."""
    own = copy.copy(trial)
    for field in ("params", "distributions", "user_attrs", "system_attrs", "intermediate_values"):
        setattr(own, field, dict(getattr(trial, field)))
    return own
