"""Definitions of jobs, a search space and options; the job of a method by its name or address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sentune.job.options import JobOptions, StudyOptions
from sentune.study.space.space import SearchSpace
from sentune.user_code import installed


@dataclass(frozen=True, kw_only=True)
class JobDefinition:
    """Arguments that a job's script hands to ``job.run``, which explains them."""

    space: SearchSpace
    defaults: StudyOptions
    quick: Mapping[str, Any] | None = None


def find_job(method: str, space: SearchSpace | None = None) -> JobDefinition:
    """Return the job that tunes a method of the package, or one of a user's own.

    Args:
        method: its name, here or among the entry points ``sentune.methods``, or its address,
            ``MODULE:CLASS``.
        space: what is searched; None: the method's own, which a user's class has as ``space``,
            else batch size and learning rate.

    Raises:
        InvalidValue: there is no such method, or the class is none.
    """
    from search_spaces import definitions, find

    if method in definitions() or not (":" in method or method in installed("methods")):
        job = find(method)
        return replace(job, space=space) if space is not None else job
    from sentune import methods  # it imports torch
    from sentune.study.space import Choice, Uniform

    kind = methods.find(method)
    usual = SearchSpace(
        objective=kind.objective,
        settings={
            "batch_size": Choice(32, 64, 128),
            "learning_rate": Uniform(1e-5, 5e-3, log=True),
        },
    )
    own: SearchSpace = space or getattr(kind, "space", None) or usual
    defaults = JobOptions(study=kind.__name__.lower())
    return JobDefinition(space=replace(own, method=method), defaults=defaults)
