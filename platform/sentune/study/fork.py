"""Fork of a study: a new study takes over the old trials that are still valid.

If only the space or the seed has changed, a trial has the same result in the new study: the sampler
learns from it, and it is not trained again. If the corpora, the method, the objective or the budget
have changed, results cannot be compared, and no trial is taken over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as Stored

from sentune.credentials import without_credentials
from sentune.errors import InvalidValue, StudyConflict
from sentune.formatting import counted, differences
from sentune.io.databases import sqlite_path
from sentune.study.config import StudyConfig
from sentune.study.samplers.study_adapter import distribution
from sentune.study.space.space import SearchSpace
from sentune.study.store import trial_codec as codec
from sentune.study.store.storage import open_storage, stored_fingerprint, study_id
from sentune.study.store.study_index import StudyPlace, find_study
from sentune.training.checkpoint_storage import storage_of

STEPS = ("rungs", "milestones", "rung_rows")
"""Parts of a fingerprint that affect the curve of a trial, but not its value."""


def place_of_trials(storage: str, name: str, optuna_url: str | None) -> StudyPlace:
    """Return the place of a study with its trials in the given database, or else in its own one.

    Raises:
        InvalidValue: there is no such study, or its database cannot be opened.
    """
    file = sqlite_path(optuna_url or "")
    made_later = file is not None and not file.exists()
    try:
        place = find_study(storage, name, optuna_url)
        if optuna_url and (made_later or study_id(open_storage(optuna_url), name) is None):
            return find_study(storage, name)
    except InvalidValue as error:
        raise InvalidValue("--fork or --warm-start", name, error.fix) from error
    return place


def refuse_foreign_trials(config: StudyConfig, storage: BaseStorage, url: str) -> None:
    """Check that a study's folder has no runs of trials that are missing in its database.

    Such runs come from another database, or this one was lost. A new study would give its trials
    the same numbers, and so use their checkpoints.

    Raises:
        StudyConflict: there are such runs; names both places and the fix.
    """
    runs = storage_of(config.runs_folder).entries()
    if not runs or study_id(storage, config.name) is not None:
        return
    found_runs = (
        f"{config.runs_folder} has {counted(len(runs), 'run')} of a study {config.name!r}, but "
        f"{without_credentials(url)} has no such study.\n"
    )
    other = ""
    with suppress(InvalidValue):  # the other database may need a password, or be gone
        found = find_study(config.storage, config.name).url
        if found not in ("", url) and study_id(open_storage(found), config.name) is not None:
            other = found
    if not other:
        raise StudyConflict(
            f"{found_runs}Give the --optuna (or SENTUNE_OPTUNA) that it was started with, or "
            "another --study NAME."
        )
    shown = without_credentials(other)
    how = f"with --optuna {shown}" if "://" in other else "without --optuna and SENTUNE_OPTUNA"
    raise StudyConflict(
        f"{found_runs}They are in {shown}: continue {how}, give another --study NAME, or add\n"
        "--fork NAME to start a new study that takes over the old trials that are still valid."
    )


def fork_from(
    place: StudyPlace, study: optuna.Study, now: Mapping[str, Any], space: SearchSpace
) -> tuple[int, list[str]]:
    """Add the valid trials of an old study to a new one, each once.

    Args:
        place: place of the old study.
        study: the new study.
        now: fingerprint of the new study, in JSON types.
        space: narrowed search space of the new study.

    Returns:
        The number of trials that the new study has from the old one, including those that earlier
        starts added, and a sentence for each reason why others were left out.

    Raises:
        InvalidValue: the old study has no trials yet.
    """
    storage = open_storage(place.url) if place.url else None
    number = study_id(storage, place.name)
    if storage is None or number is None:
        fix = "that study has no trials yet; start it first"
        raise InvalidValue("--fork or --warm-start", place.name, fix)
    was = stored_fingerprint(storage.get_study_user_attrs(number)) or {}
    states = (Stored.COMPLETE, Stored.PRUNED)
    ended = storage.get_all_trials(number, deepcopy=False, states=states)
    ended = [trial for trial in ended if codec.own(trial) and codec.known(trial)]
    gone_on = {trial.user_attrs.get(codec.PARENT) for trial in ended}
    ended = [trial for trial in ended if trial.number not in gone_on]
    if others := [*differences(_decisive(was), _decisive(now))]:
        left_out = counted(len(ended), "trial")
        return 0, [f"{left_out} left out: {line}" for line in others]
    same_steps = all(was.get(part) == now.get(part) for part in STEPS)
    taken = {
        (trial.user_attrs[codec.WARM_FROM], trial.user_attrs.get(codec.WARM_NUMBER))
        for trial in study.get_trials(deepcopy=False)
        if codec.WARM_FROM in trial.user_attrs
    }
    left: Counter[str] = Counter()
    for trial in ended:
        if why := _misfit(trial, space, same_steps=same_steps):
            left[why] += 1
        elif (place.name, trial.number) not in taken:
            study.add_trial(_moved(trial, space, old=place.name, same_steps=same_steps))
    reasons = [f"{counted(count, 'trial')} left out: {why}" for why, count in left.items()]
    return len(ended) - left.total(), reasons


def _decisive(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a fingerprint that must be equal for a trial to be valid in both studies:
    all but the seed, the sampler, ``STEPS`` and the searched values."""
    kept = {name: part for name, part in fingerprint.items() if name not in ("seed", "sampler")}
    searched = ("settings", "fixed", "conditions")
    space = {name: part for name, part in kept.get("space", {}).items() if name not in searched}
    return {**kept, **dict.fromkeys(STEPS), "space": space}


def _misfit(trial: FrozenTrial, space: SearchSpace, *, same_steps: bool) -> str:
    """Return why a trial is not valid in a new study with this space; empty if it is."""
    if trial.state == Stored.PRUNED and not same_steps:
        return "stopped at a rung that the new study does not have"
    if codec.MEMBER in trial.user_attrs:
        return "a segment of a population, whose settings changed during training"
    settings = trial.user_attrs[codec.SETTINGS]
    point = space.draw(lambda name, _: settings.get(name))
    for name in point:
        if name not in settings:
            return f"without a value of {name}, which the new study searches"
        if not space.settings[name].contains(settings[name]):
            return f"{name} outside the new study's {space.settings[name]}"
    for name, fixed in space.fixed.items():
        if name not in settings:
            return f"without a value of {name}, which the new study fixes"
        if settings[name] != fixed:
            return f"{name} is not {fixed}, as in the new study"
    if strange := [name for name in settings if name not in point and name not in space.fixed]:
        return f"with a value of {', '.join(strange)}, which the new study does not have"
    return ""


def _moved(trial: FrozenTrial, space: SearchSpace, *, old: str, same_steps: bool) -> FrozenTrial:
    """Return the trial as one of the new study, without its cost, which the old study paid."""
    settings = trial.user_attrs[codec.SETTINGS]
    point = space.draw(lambda name, _: settings[name])
    attributes: dict[str, Any] = {codec.WARM_FROM: old, codec.WARM_NUMBER: trial.number}
    for name, value in trial.user_attrs.items():
        if name in (codec.SEED, codec.SETTINGS):
            attributes[name] = value
        elif name.startswith((codec.MILESTONE, codec.INHERITED)):
            attributes[name] = {key: part for key, part in value.items() if key != "cost"}
    return create_trial(
        state=trial.state,
        values=trial.values,
        params=point,
        distributions={name: distribution(space.settings[name]) for name in point},
        intermediate_values=trial.intermediate_values if same_steps else {},
        constraints=trial.constraints or None,
        user_attrs=attributes,
    )
