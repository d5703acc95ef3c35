"""A study's trials read from the columns of Optuna's tables: ten thousand in a second.

Optuna's own reading makes an object of every row, which takes eight seconds for 10,000 trials of
ten attributes. The tables are those of the version that ``RDBStorage`` has checked on opening.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial
from sqlalchemy import Connection, Engine, Row, select

from sentune.errors import InvalidValue

TRIALS = models.TrialModel.__table__
PARAMS = models.TrialParamModel.__table__
VALUES = models.TrialValueModel.__table__
STEPS = models.TrialIntermediateValueModel.__table__
NOTES = models.TrialUserAttributeModel.__table__
SYSTEM = models.TrialSystemAttributeModel.__table__

CHUNK = 500  # SQLite takes 999 parameters in its older versions
"""Trials whose rows are asked for at once."""

_distribution = functools.lru_cache(maxsize=4096)(json_to_distribution)


def engine_of(storage: optuna.storages.BaseStorage) -> Engine:
    """Return the database behind a storage, also where Optuna keeps a cache before it.

    Raises:
        InvalidValue: it is none.
    """
    engine = getattr(getattr(storage, "_backend", storage), "engine", None)
    if isinstance(engine, Engine):
        return engine
    fix = "a study needs a database: give sqlite:////PATH or postgresql://..."
    raise InvalidValue("--optuna", type(storage).__name__, fix)


class TrialRows:
    """Trials of one study, read again as they change; those that have ended are kept.

    Args:
        storage: a database.
        study_id: Optuna's number of the study.
    """

    def __init__(self, storage: optuna.storages.BaseStorage, study_id: int) -> None:
        self._engine = engine_of(storage)
        self._study = study_id
        self._ended: dict[int, FrozenTrial] = {}

    def read(self, numbers: Collection[int] | None = None) -> list[FrozenTrial]:
        """Those with these numbers, or all, by number, as Optuna would give them."""
        chosen = select(TRIALS).where(TRIALS.c.study_id == self._study).order_by(TRIALS.c.number)
        if numbers is not None:
            chosen = chosen.where(TRIALS.c.number.in_(numbers))
        with self._engine.connect() as connection:
            rows = connection.execute(chosen).all()
            missing = [row for row in rows if row.trial_id not in self._ended]
            read = {
                trial._trial_id: trial
                for at in range(0, len(missing), CHUNK)
                for trial in _trials(connection, missing[at : at + CHUNK])
            }
        self._ended |= {place: trial for place, trial in read.items() if trial.state.is_finished()}
        known = {**self._ended, **read}
        return [known[row.trial_id] for row in rows]


def _trials(connection: Connection, rows: Sequence[Row[Any]]) -> Iterator[FrozenTrial]:
    ids = [row.trial_id for row in rows]

    def details(table: Any) -> dict[int, list[Row[Any]]]:
        found: dict[int, list[Row[Any]]] = defaultdict(list)
        for row in connection.execute(select(table).where(table.c.trial_id.in_(ids))):
            found[row.trial_id].append(row)
        return found

    params, values, steps = details(PARAMS), details(VALUES), details(STEPS)
    notes, system = details(NOTES), details(SYSTEM)
    for row in rows:
        place = row.trial_id
        drawn = sorted(params[place], key=lambda param: param.param_id)
        yield FrozenTrial(
            number=row.number,
            state=row.state,
            value=None,
            values=_values(values[place]),
            datetime_start=local(row.datetime_start),
            datetime_complete=local(row.datetime_complete),
            params={p.param_name: _param(p) for p in drawn},
            distributions={p.param_name: _dist(p) for p in drawn},
            user_attrs={note.key: json.loads(note.value_json) for note in notes[place]},
            system_attrs={note.key: json.loads(note.value_json) for note in system[place]},
            intermediate_values={step.step: _intermediate(step) for step in steps[place]},
            trial_id=place,
        )


def local(time: datetime | None) -> datetime | None:
    """Optuna's tables hold UTC; its trials hold local time. Neither says so."""
    return time and time.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)


def _dist(row: Row[Any]) -> BaseDistribution:
    return _distribution(row.distribution_json)


def _param(row: Row[Any]) -> Any:
    return _dist(row).to_external_repr(row.param_value)


def _values(rows: Sequence[Row[Any]]) -> list[float] | None:
    convert = models.TrialValueModel.stored_repr_to_value
    by_place = sorted(rows, key=lambda row: row.objective)
    return [convert(row.value, row.value_type) for row in by_place] or None


def _intermediate(row: Row[Any]) -> float:
    convert = models.TrialIntermediateValueModel.stored_repr_to_intermediate_value
    return convert(row.intermediate_value, row.intermediate_value_type)
