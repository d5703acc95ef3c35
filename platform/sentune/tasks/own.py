"""The tasks by their names: the package's own, and those that a user brings by decorator, entry
point or address."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from sentune import user_code
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.tasks.transfer import TRANSFER

Class = TypeVar("Class", bound=type[Any])

POSES = {
    Kind.SEVERAL_LABELS: "ambiguous-rte",
    Kind.CONDITIONED_PAIRS: "csts",
    Kind.SCORED_PAIRS: "sts",
    Kind.OPERATIONS: "generation",
    Kind.QUERIES: "retrieval",
}

TASKS: dict[str, Kind] = {
    "rte": Kind.LABELLED_PAIRS,
    "direction": Kind.LABELLED_PAIRS,
    **{task: kind for kind, task in POSES.items()},
    **TRANSFER,
}

OWN: dict[str, type[Any]] = {}
"""Name -> class, of all that this process has defined."""


def task(name: str, kind: Kind | str) -> Callable[[Class], Class]:
    """Make a class an evaluation task of one's own, ``NAME=FORMAT:PATH``; a decorator.

    The class is made of a corpus and a name, and is a ``sentune.tasks.Task``, which judges the
    embeddings of its sentences, or a ``ModelTask``, which asks the model itself.

    Args:
        name: of the task; the first part of the names of its metrics.
        kind: of the corpora that it reads, such as ``labelled-pairs``.

    Raises:
        InvalidValue: the name is taken, there is no such kind, or the class lacks a method.
    """
    if name in TASKS:
        raise InvalidValue("task", name, f"choose another name; taken: {', '.join(TASKS)}")
    if not re.fullmatch(r"[\w.-]+", name):
        raise InvalidValue("task", name, "name it with letters, digits, '.', '_' and '-'")
    if kind not in list(Kind):
        raise InvalidValue("kind", kind, f"choose one of {', '.join(Kind)}")

    def registered(made: Class) -> Class:
        missing = [one for one in ("sentences", "evaluate") if not hasattr(made, one)]
        if not isinstance(made, type) or (missing and not hasattr(made, "run")):
            fix = f"define {', '.join(missing)} in the class, or run"
            raise InvalidValue("task", getattr(made, "__qualname__", made), fix)
        made.kind, made.reads = name, Kind(kind)
        OWN[name] = made
        return made

    return registered


def find_own(name: str, option: str = "task") -> type[Any]:
    """Return the task of a name in this process or among the entry points, or of an address.

    Args:
        option: that the name was given to.

    Raises:
        InvalidValue: there is none, or the class is no task.
    """
    kind = OWN.get(name) or user_code.named("tasks", name, option, [*TASKS, *OWN])
    if getattr(kind, "reads", None) is None:
        raise InvalidValue(option, name, "put @sentune.task(NAME, kind=...) before its class")
    return kind


def in_other_processes(name: str) -> str:
    """Return the name under which other processes find a task: its address, if it is known here."""
    return user_code.address_of(OWN[name]) if name in OWN else name
