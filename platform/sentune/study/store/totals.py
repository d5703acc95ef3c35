"""Figures of a whole study by a few statements, without reading its trials."""

from __future__ import annotations

import json
from typing import Any

import optuna
from sqlalchemy import ColumnElement, and_, func, select

from sentune.records import Spent
from sentune.study.store.trial_codec import COST, MEMORY, MILESTONE, SETTINGS, TWIN, WARM_FROM
from sentune.study.store.trial_rows import NOTES, SYSTEM, TRIALS, VALUES, engine_of

RUNNING, WAITING, PRUNED = "RUNNING", "WAITING", "PRUNED"
NO_MEMORY = f"constraints:{MEMORY}"
"""Optuna's name of the note; it is made for trials alone that found none."""


class Totals:
    """Counts and sums over a study's trials; copies of its own and points that wait are left out.

    What was taken over from other studies can be the best, and is neither counted nor paid for.

    Args:
        storage: a database.
        study_id: Optuna's number of the study.
    """

    def __init__(self, storage: optuna.storages.BaseStorage, study_id: int) -> None:
        self._engine, self._study = engine_of(storage), study_id

    def counts(self) -> dict[str, int]:
        """Optuna's state (``COMPLETE``) -> number of trials; ``INFEASIBLE`` found no memory."""
        chosen = select(TRIALS.c.state, func.count()).where(self._own()).group_by(TRIALS.c.state)
        found = {state.name: number for state, number in self._rows(chosen)}
        system = SYSTEM.alias()
        mine = (system.c.trial_id == TRIALS.c.trial_id) & (system.c.key == NO_MEMORY)
        without = select(func.count()).where(
            self._own(), TRIALS.c.state == PRUNED, select(system.c.trial_id).where(mine).exists()
        )
        if number := int(self._rows(without)[0][0]):
            found |= {PRUNED: found[PRUNED] - number, "INFEASIBLE": number}
        return found

    def taken_over(self) -> int:
        """Number of trials that other studies ran."""
        chosen = select(func.count()).select_from(TRIALS).where(self._known(), ~self._own())
        return int(self._rows(chosen)[0][0])

    def best(self, mode: str, number: int = 1) -> list[tuple[int, float]]:
        """Number and value of the best complete trials by the first objective, best first."""
        order = VALUES.c.value.desc() if mode == "max" else VALUES.c.value
        chosen = (
            select(TRIALS.c.number, VALUES.c.value)
            .join(VALUES, VALUES.c.trial_id == TRIALS.c.trial_id)
            .where(self._known(), VALUES.c.objective == 0, VALUES.c.value.is_not(None))
            .order_by(order, TRIALS.c.number)
            .limit(number)
        )
        return [(row[0], row[1]) for row in self._rows(chosen)]

    def running(self) -> list[int]:
        """Numbers of the trials that have not ended."""
        chosen = select(TRIALS.c.number).where(self._own(), TRIALS.c.state == RUNNING)
        return [row[0] for row in self._rows(chosen)]

    def latest(self, number: int) -> list[int]:
        """Numbers of the trials that were started last."""
        chosen = select(TRIALS.c.number).where(self._own())
        return [row[0] for row in self._rows(chosen.order_by(TRIALS.c.number.desc()).limit(number))]

    def spent(self) -> Spent:
        """Trials, examples and GPU hours; the driver's lock tells the hours."""
        return Spent(
            trials=sum(self.counts().values()),
            examples=self._examples(),
            gpu_hours=self._gpu_seconds() / 3600,
        )

    def _examples(self) -> int:
        """The last milestone of each trial; its name ends in its examples, with leading zeros."""
        last = (
            select(func.max(NOTES.c.key))
            .join(TRIALS, TRIALS.c.trial_id == NOTES.c.trial_id)
            .where(self._own(), NOTES.c.key.startswith(MILESTONE))
            .group_by(NOTES.c.trial_id)
        )
        return sum(int(row[0].removeprefix(MILESTONE)) for row in self._rows(last))

    def _gpu_seconds(self) -> float:
        chosen = (
            select(NOTES.c.value_json)
            .join(TRIALS, TRIALS.c.trial_id == NOTES.c.trial_id)
            .where(self._own(), NOTES.c.key.startswith(COST))
        )
        costs = [json.loads(row[0]) for row in self._rows(chosen)]
        return sum(cost["seconds"] * cost["gpus"] for cost in costs)

    def _known(self) -> ColumnElement[bool]:
        """Of this study, started, and no copy."""
        return and_(
            TRIALS.c.study_id == self._study,
            TRIALS.c.state != WAITING,
            _noted(SETTINGS),
            ~_noted(TWIN),
        )

    def _own(self) -> ColumnElement[bool]:
        """Run by this study itself."""
        return and_(self._known(), ~_noted(WARM_FROM))

    def _rows(self, chosen: Any) -> list[Any]:
        with self._engine.connect() as connection:
            return list(connection.execute(chosen))


def _noted(key: str) -> ColumnElement[bool]:
    notes = NOTES.alias()  # of its own, where the statement around it reads notes too
    mine = (notes.c.trial_id == TRIALS.c.trial_id) & (notes.c.key == key)
    return select(notes.c.trial_id).where(mine).exists()
