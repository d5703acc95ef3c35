"""The search space of each method, and the default options of its job.

A module has a ``SearchSpace`` for each of its methods, and the job's default options, whose study
has the method's name. ``QUICK`` are the options that ``--quick`` sets.
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
    """Return method -> its job, for all modules of this package."""
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
    """Return the job of a built-in or user-defined method.

    Args:
        method: name of a built-in method or of an entry point in the group ``sentune.methods``, or
            the address of a class, ``MODULE:CLASS``.
        space: search space; None: that of the method, or the attribute ``space`` of a user-defined
            class, by default of batch size and learning rate.

    Raises:
        InvalidValue: there is no such method, the class is not a method, or the space is of another
            method.
    """
    if space is not None and not isinstance(space, SearchSpace):
        raise InvalidValue("space", space, "give a sentune.SearchSpace")
    known = definitions()
    if job := known.get(method):
        if space is None:
            return job
        if space.method not in ("", method):
            fix = f"the method is {method}; give a space of this method, or one without a method"
            raise InvalidValue("space.method", space.method, fix)
        return replace(job, space=replace(space, method=method))
    if ":" not in method and method not in installed("methods"):
        raise InvalidValue("METHOD", method, f"choose one of {', '.join(known)}")
    from sentune import methods  # imports torch
    from sentune.training.inputs import BUILTIN

    kind = methods.find(method)
    usual = SearchSpace(
        objective=kind.objective,
        settings={
            "batch_size": Choice(32, 64, 128),
            "learning_rate": Uniform(1e-5, 5e-3, log=True),
        },
    )
    own: SearchSpace = space or getattr(kind, "space", None) or usual
    defaults = JobOptions(study=kind.__name__.lower(), corpus=BUILTIN[kind.kind][0])
    return JobDefinition(space=replace(own, method=method), defaults=defaults)
