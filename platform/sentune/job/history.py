"""What a new study takes from earlier ones of its storage: their best settings, to be tried first.

Results are never taken over: a point of an earlier study is trained anew. That is what tells this
from ``--warm-start``, which takes trials, and only from a study with the same corpora and code.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sentune.errors import InvalidValue
from sentune.job.families.base import JobFamily
from sentune.study.store.study_index import DESCRIPTION, StudyPlace, every_study, read_json

MOST = 2
"""Earlier studies of which points are taken, the newest."""


def take_history(job: JobFamily) -> dict[str, dict[str, Any]]:
    """Add the best settings of earlier studies to a prepared job's first points.

    What the study's first start took stands in ``study.json``, and each later start takes that; one
    of another method or objective, which it replaces, has nothing to say.

    Returns:
        Study -> its best settings, for ``study.json``; in the job's space they are only where
        ``--no-history`` is not given.
    """
    config = job.config
    with suppress(ValueError):  # damaged; the first trials stand in the store
        described = read_json(f"{config.folder}/{DESCRIPTION}")
        if described and _goal_of(described.get("space", {})) == _goal_of(job.space.to_dict()):
            return _added(job, described.get("history", {}))
    if job.options.no_history:
        return {}
    earlier = []
    with suppress(InvalidValue):  # a storage that is still empty
        earlier = every_study(config.storage)
    wanted = _kind_of(job.space.to_dict(), job.corpora())
    found: dict[str, dict[str, Any]] = {}
    for place in sorted(earlier, key=_started, reverse=True):
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


def _started(place: StudyPlace) -> str:
    return str(place.description.get("started", ""))


def _kind_of(space: Mapping[str, Any], corpora: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Return what two studies share where settings of one are worth a trial of the other: method,
    objective, class of encoder, and of each training corpus the kind of its rows and whether it is
    built in."""
    suited = (space.get("suited") or [""])[0]
    trained = [corpus for role, corpus in sorted(corpora.items()) if role.startswith("corpus")]
    kinds = [(c.get("kind"), str(c.get("spec")).startswith("builtin:")) for c in trained]
    return [*_goal_of(space), suited, *kinds]


def _goal_of(space: Mapping[str, Any]) -> list[Any]:
    return [space.get("method"), space.get("objective"), space.get("mode")]


def _best(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the winner of a study's finals, else of its best trial."""
    if (winner := summary.get("winner")) is not None:
        return dict(summary["finalists"][winner]["settings"])
    best = [trial for trial in summary.get("trials", ()) if trial["id"] == summary.get("best")]
    return dict(best[0]["settings"]) if best else {}
