"""What changes in a trial: the statement for Optuna's tables, and the trial as it is after it.

The tables are those of the version that ``RDBStorage`` has checked on opening.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from optuna.distributions import BaseDistribution, distribution_to_json
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored
from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    and_,
    bindparam,
    func,
    insert,
    select,
    update,
)

from sentune.errors import StudyConflict
from sentune.study.store.trial_rows import NOTES, PARAMS, STEPS, SYSTEM, TRIALS, VALUES

Statement = tuple[Executable, dict[str, Any]]
"""Made once, with its values apart: building one takes as long as running it."""

ADD = {table: insert(table) for table in (TRIALS, PARAMS, VALUES, STEPS, NOTES, SYSTEM)}
TABLES = {"user_attrs": NOTES, "system_attrs": SYSTEM}


def _of(table: Any, *columns: str) -> ColumnElement[bool]:
    """The rows of a trial with these values; an update's own parameters have the plain names."""
    of = [table.c[name] == bindparam(f"of_{name}") for name in ("trial_id", *columns)]
    return and_(*of)


RENOTE = {table: update(table).where(_of(table, "key")) for table in TABLES.values()}
RESTEP = update(STEPS).where(_of(STEPS, "step"))
BEFORE = select(func.coalesce(func.max(TRIALS.c.number), -1)).where(
    TRIALS.c.study_id == bindparam("study"), TRIALS.c.trial_id != bindparam("place")
)
MOVE = update(TRIALS).where(_of(TRIALS, "state"))


@dataclass(frozen=True, kw_only=True)
class Change:
    """One write.

    Attributes:
        statements: that make it.
        before: the trial.
        after: the trial, another object.
    """

    statements: Sequence[Statement]
    before: FrozenTrial
    after: FrozenTrial


def attribute(trial: FrozenTrial, field: str, name: str, value: Any) -> Change:
    """A note, in ``user_attrs`` or ``system_attrs``; JSON types."""
    text, table, place = json.dumps(value), TABLES[field], trial._trial_id
    if name in getattr(trial, field):
        row = {"of_trial_id": place, "of_key": name, "value_json": text}
        return _set(trial, (RENOTE[table], row), field, name, json.loads(text))
    row = {"trial_id": place, "key": name, "value_json": text}
    return _set(trial, (ADD[table], row), field, name, json.loads(text))


def parameter(trial: FrozenTrial, name: str, inside: float, axis: BaseDistribution) -> Change:
    """A value that was drawn, as its distribution has it inside."""
    row = {
        "trial_id": trial._trial_id,
        "param_name": name,
        "param_value": inside,
        "distribution_json": distribution_to_json(axis),
    }
    drawn = {**trial.params, name: axis.to_external_repr(inside)}
    axes = {**trial.distributions, name: axis}
    return _changed(trial, [(ADD[PARAMS], row)], params=drawn, distributions=axes)


def step(trial: FrozenTrial, at: int, value: float) -> Change:
    """A point of the curve; NaN and infinities have a type of their own in the table."""
    stored, kind = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr(value)
    said = {"intermediate_value": stored, "intermediate_value_type": kind}
    if at in trial.intermediate_values:
        statement: Statement = RESTEP, {"of_trial_id": trial._trial_id, "of_step": at, **said}
    else:
        statement = ADD[STEPS], {"trial_id": trial._trial_id, "step": at, **said}
    return _set(trial, statement, "intermediate_values", at, float(value))


def state(trial: FrozenTrial, new: Stored, values: Sequence[float] | None) -> Change:
    """How it stands from here on, with its values where it has some."""
    now = datetime.now()
    times = {"datetime_start": now} if new == Stored.RUNNING else {}
    times |= {"datetime_complete": now} if new.is_finished() else {}
    moved = {"of_trial_id": trial._trial_id, "of_state": trial.state, "state": new}
    move = MOVE, {**moved, **{name: _utc(time) for name, time in times.items()}}
    valued = _valued(trial, values)
    return _changed(trial, [move, *valued.statements], state=new, values=values, **times)


def new_trial(
    connection: Connection, study_id: int, number: int, template: FrozenTrial | None = None
) -> FrozenTrial:
    """A trial that runs from now on, or one like a template.

    Args:
        connection: in a transaction.
        study_id: Optuna's number of the study.
        number: of the trial; the study has as many.
        template: what it holds.

    Raises:
        StudyConflict: the study has more trials than this driver has started.
    """
    trial = _empty(number) if template is None else template
    row = {
        "study_id": study_id,
        "number": number,
        "state": trial.state,
        "datetime_start": _utc(trial.datetime_start),
        "datetime_complete": _utc(trial.datetime_complete),
    }
    made = connection.execute(ADD[TRIALS], row)
    place = int(made.inserted_primary_key[0])  # type: ignore[index]  # it is None in bulk alone
    if connection.execute(BEFORE, {"study": study_id, "place": place}).scalar() != number - 1:
        raise StudyConflict(f"another driver has started trial {number} of this study")
    now = {"_trial_id": place, "state": trial.state, "datetime_start": trial.datetime_start}
    new = _changed(_empty(number), [], **now, datetime_complete=trial.datetime_complete).after
    return _filled(connection, new, trial)


def _filled(connection: Connection, new: FrozenTrial, template: FrozenTrial) -> FrozenTrial:
    def add(change: Change) -> FrozenTrial:
        for statement, values in change.statements:
            connection.execute(statement, values)
        return change.after

    for name, axis in template.distributions.items():
        new = add(parameter(new, name, axis.to_internal_repr(template.params[name]), axis))
    for field in TABLES:
        for name, value in getattr(template, field).items():
            new = add(attribute(new, field, name, value))
    for at, value in template.intermediate_values.items():
        new = add(step(new, at, value))
    return add(_valued(new, template.values))


def _valued(trial: FrozenTrial, values: Sequence[float] | None) -> Change:
    statements: list[Statement] = []
    for objective, value in enumerate(values or ()):
        stored, kind = models.TrialValueModel.value_to_stored_repr(value)
        row = {"objective": objective, "value": stored, "value_type": kind}
        statements.append((ADD[VALUES], {"trial_id": trial._trial_id, **row}))
    return _changed(trial, statements, values=None if values is None else list(values))


def _empty(number: int) -> FrozenTrial:
    return FrozenTrial(
        number=number, state=Stored.RUNNING, value=None, datetime_start=datetime.now(),
        datetime_complete=None, params={}, distributions={}, user_attrs={}, system_attrs={},
        intermediate_values={}, trial_id=-1,
    )  # fmt: skip


def _utc(time: datetime | None) -> datetime | None:
    return time and time.astimezone(UTC).replace(tzinfo=None)


def write(connection: Connection, changes: Sequence[Change]) -> None:
    """Makes changes, in order.

    Args:
        connection: in a transaction.
        changes: of any number of trials.

    Raises:
        StudyConflict: a trial does not stand in the database as it does here.
    """
    checked: set[int] = set()
    for change in changes:
        place = change.before._trial_id
        if place not in checked:
            checked.add(place)
            _check(connection, change.before)
        for statement, values in change.statements:
            connection.execute(statement, values)


def _check(connection: Connection, trial: FrozenTrial) -> None:
    """A statement that changes nothing: it locks the row, and finds it only as it should be."""
    same = {"of_trial_id": trial._trial_id, "of_state": trial.state, "state": trial.state}
    if connection.execute(MOVE, same).rowcount != 1:
        raise StudyConflict(f"another driver has changed trial {trial.number} of this study")


def _set(trial: FrozenTrial, statement: Statement, field: str, name: Any, value: Any) -> Change:
    return _changed(trial, [statement], **{field: {**getattr(trial, field), name: value}})


def _changed(trial: FrozenTrial, statements: Sequence[Statement], **values: Any) -> Change:
    after = copy.copy(trial)
    for field, value in values.items():
        setattr(after, field, value)
    return Change(statements=statements, before=trial, after=after)
