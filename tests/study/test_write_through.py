"""A driver's storage: what it remembers is what the database holds, whatever happens."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from pprint import pformat
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import TrialState, create_trial
from sqlalchemy import text

from sentune.errors import StudyConflict
from sentune.study.store.storage import open_storage
from sentune.study.store.write_through import WriteThrough

AXIS = FloatDistribution(0.0, 1.0)


@pytest.fixture
def storage(tmp_path: Path) -> WriteThrough:
    return open_storage(f"sqlite:///{tmp_path / 'optuna.db'}")


@pytest.fixture
def study(storage: WriteThrough) -> optuna.Study:
    return optuna.create_study(storage=storage, study_name="s", direction="maximize")


def stored(storage: WriteThrough) -> list[Any]:
    """The trials as Optuna's own storage reads them."""
    return [vars(t) for t in storage._backend.get_all_trials(1)]


def remembered(study: optuna.Study) -> list[Any]:
    return [vars(t) for t in study.get_trials(deepcopy=False)]


def test_what_is_remembered_is_what_optuna_reads_after_every_write(
    storage: WriteThrough, study: optuna.Study
) -> None:
    study.enqueue_trial({"x": 0.25})
    study.add_trial(
        create_trial(value=0.5, params={"x": 0.1}, distributions={"x": AXIS}, user_attrs={"a": [1]})
    )
    first, second, third = study.ask(), study.ask(), study.ask()
    choice = CategoricalDistribution(("tanh", "relu"))
    writes: list[Callable[[], Any]] = [
        lambda: first._suggest("x", AXIS),
        lambda: second._suggest("kind", choice),
        lambda: first.set_user_attr("tuple", (1, {"2": None})),
        lambda: first.set_user_attr("tuple", "another"),
        lambda: first.set_constraint("small", 0.5),
        lambda: first.report(math.nan, 100),
        lambda: first.report(math.inf, 200),
        lambda: first.report(-1.5, 300),
        lambda: second.report(0.75, 100),
        lambda: study.tell(first, 0.5),
        lambda: study.tell(second, state=TrialState.PRUNED),
        lambda: study.tell(third, state=TrialState.FAIL),
        study.ask,
    ]
    assert remembered(study) == stored(storage)
    for write in writes:
        write()
        # NaN is not equal to itself, so trials are compared as they are printed
        assert pformat(remembered(study)) == pformat(stored(storage))
    assert first.params["x"] == 0.25


def test_a_reader_keeps_the_trial_that_it_has_read(study: optuna.Study) -> None:
    trial = study.ask()
    (read,) = study.get_trials(deepcopy=False)
    trial.set_user_attr("a", 1)
    study.tell(trial, 1.0)
    assert (read.user_attrs, read.state, read.values) == ({}, TrialState.RUNNING, None)


def test_writes_together_are_stored_whole_or_not_at_all(
    storage: WriteThrough, study: optuna.Study
) -> None:
    trial = study.ask()
    with storage.together():
        trial.set_user_attr("a", 1)
        with storage.together():
            trial.report(0.5, 100)
        assert remembered(study)[0]["_user_attrs"] == {"a": 1}, "known inside"
        assert stored(storage)[0]["_user_attrs"] == {}, "and not written yet"
    assert remembered(study) == stored(storage)
    whole = remembered(study)

    def half() -> None:
        with storage.together():
            trial.set_user_attr("b", 1)
            study.tell(trial, 1.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert remembered(study) == stored(storage) == whole


def test_a_write_that_fails_is_not_remembered(storage: WriteThrough, study: optuna.Study) -> None:
    trial = study.ask()
    refuse = "begin select raise(abort, 'the disk is full'); end"
    with storage.engine.begin() as connection:
        connection.execute(
            text(f"create trigger full before insert on trial_intermediate_values {refuse}")
        )

    def both() -> None:
        with storage.together():
            trial.set_user_attr("a", 1)
            trial.report(0.5, 100)

    for write in (both, lambda: trial.report(0.5, 200)):
        with pytest.raises(StorageInternalError, match="the disk is full"):
            write()
        (known,) = study.get_trials(deepcopy=False)
        assert (known.user_attrs, known.intermediate_values) == ({}, {})
        assert remembered(study) == stored(storage)


def test_a_finished_trial_takes_no_more(study: optuna.Study) -> None:
    trial = study.ask()
    study.tell(trial, 1.0)
    with pytest.raises(UpdateFinishedTrialError):
        trial.set_user_attr("a", 1)


@pytest.mark.parametrize("write", ["note", "tell", "ask"])
def test_a_driver_that_slept_while_another_went_on_writes_nothing(
    storage: WriteThrough, study: optuna.Study, write: str
) -> None:
    """Its lock was taken over meanwhile; it finds the trials otherwise than it left them."""
    asleep = study.ask()
    awake = optuna.load_study(study_name="s", storage=open_storage(str(storage.engine.url)))
    awake.tell(0, 1.0)
    awake.ask()
    before = stored(storage)
    writes: dict[str, Callable[[], Any]] = {
        "note": lambda: asleep.set_user_attr("a", 1),
        "tell": lambda: study.tell(asleep, 2.0),
        "ask": study.ask,
    }
    with pytest.raises(StudyConflict, match="another driver"):
        writes[write]()
    assert stored(storage) == before
