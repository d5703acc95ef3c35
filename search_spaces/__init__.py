"""What is searched for each method, and the options of its job where nothing else is said.

A module holds a ``SearchSpace`` for each method that it is about, and the options of its job, whose
study has the method's name; ``QUICK`` are the options that ``--quick`` sets.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from sentune.errors import InvalidValue
from sentune.job.command import JobDefinition
from sentune.job.options import JobOptions, StudyOptions
from sentune.study.space import Choice, SearchSpace, Uniform
from sentune.user_code import installed


def definitions() -> dict[str, JobDefinition]:
    """Return method -> the job that tunes it, of all modules of this package."""
    found = {}
    for module in iter_modules(__path__):
        values = vars(import_module(f"{__name__}.{module.name}"))
        defaults = {v.study: v for v in values.values() if isinstance(v, StudyOptions)}
        for space in values.values():
            if isinstance(space, SearchSpace):
                found[space.method] = JobDefinition(
                    space=space, defaults=defaults[space.method], quick=values.get("QUICK")
                )
    return found


def find_job(method: str, space: SearchSpace | None = None) -> JobDefinition:
    """Return the job that tunes a method of the package, or one of a user's own.

    Args:
        method: its name, here or among the entry points ``sentune.methods``, or its address,
            ``MODULE:CLASS``.
        space: what is searched; None: the method's own, which a user's class has as ``space``,
            else batch size and learning rate.

    Raises:
        InvalidValue: there is no such method, the class is none, or the space is of another method.
    """
    known = definitions()
    if job := known.get(method):
        if space is None:
            return job
        if space.method not in ("", method):
            fix = f"it is tuned by {method}; give tune the space's method, or one without a method"
            raise InvalidValue("space.method", space.method, fix)
        return replace(job, space=replace(space, method=method))
    if ":" not in method and method not in installed("methods"):
        raise InvalidValue("METHOD", method, f"choose one of {', '.join(known)}")
    from sentune import methods  # it imports torch

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
