"""What is searched for each method, and the options of its job where nothing else is said.

A module holds a ``SearchSpace`` for each method that it is about, and the options of its job, whose
study has the method's name; ``QUICK`` are the options that ``--quick`` sets.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from sentune.errors import InvalidValue
from sentune.job.definition import JobDefinition
from sentune.job.options import StudyOptions
from sentune.study.space import SearchSpace


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


def find(method: str) -> JobDefinition:
    """Return the job that tunes a method.

    Raises:
        InvalidValue: there is no such method.
    """
    known = definitions()
    if method not in known:
        raise InvalidValue("METHOD", method, f"choose one of {', '.join(known)}")
    return known[method]
