"""Takes the best settings of earlier studies of the same storage as the first trials of a new one.

These settings are trained again; no results are copied. ``--warm-start`` differs: it takes over
trials, and only from a study with the same corpora and code.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sentune.errors import InvalidValue
from sentune.job.families.base import JobFamily
from sentune.study.store.study_index import DESCRIPTION, every_study, read_json

MOST = 2
"""Number of earlier studies, the newest ones, whose settings are taken."""


def take_history(job: JobFamily) -> dict[str, dict[str, Any]]:
    """Add the best settings of earlier studies to the first points of a prepared job.

    The first start records these settings in ``study.json``, and later starts take them from there.
    A ``study.json`` of another method or objective is ignored.

    Returns:
        Study -> its best settings, for ``study.json``. With ``--no-history`` they are not added to
        the job's space.
    """
    config = job.config
    with suppress(ValueError):  # it is damaged; the store has the first trials
        described = read_json(f"{config.folder}/{DESCRIPTION}")
        if described and _goal_of(described.get("space", {})) == _goal_of(job.space.to_dict()):
            return _added(job, described.get("history", {}))
    if job.options.no_history:
        return {}
    earlier = []
    with suppress(InvalidValue):  # the storage is still empty
        earlier = every_study(config.storage)
    wanted = _kind_of(job.space.to_dict(), job.corpora())
    found: dict[str, dict[str, Any]] = {}
    earlier.sort(key=lambda place: str(place.description.get("started", "")), reverse=True)
    for place in earlier:
        known = place.summary() if place.name != config.name else {}
        alike = _kind_of(known.get("space", {}), known.get("corpora", {})) == wanted
        if alike and known.get("state") == "complete" and (best := _best(known)):
            found[place.name] = best
            if len(found) == MOST:
                break
    return _added(job, found)


def _added(job: JobFamily, found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    if not job.options.no_history:
        job.space = replace(job.space, history=found)
    return found


def _kind_of(space: Mapping[str, Any], corpora: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Return a key that is equal for studies whose best settings are worth trying in each other.

    It consists of the method, the objective, the class of the encoder, and for each training corpus
    its kind of rows and whether it is built in.
    """
    suited = (space.get("suited") or [""])[0]
    trained = [corpus for role, corpus in sorted(corpora.items()) if role.startswith("corpus")]
    kinds = [(c.get("kind"), str(c.get("spec")).startswith("builtin:")) for c in trained]
    return [*_goal_of(space), suited, *kinds]


def _goal_of(space: Mapping[str, Any]) -> list[Any]:
    return [space.get("method"), space.get("objective"), space.get("mode")]


def _best(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the winner of a study's finals; without finals of its best trial."""
    if (winner := summary.get("winner")) is not None:
        return dict(summary["finalists"][winner]["settings"])
    best = summary.get("best")
    return next((dict(t["settings"]) for t in summary.get("trials", ()) if t["id"] == best), {})
