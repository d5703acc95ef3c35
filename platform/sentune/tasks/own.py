"""Registry of tasks by name: the built-in ones, and users' by decorator, entry point or address."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from sentune import user_code
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.tasks.transfer import TRANSFER

Class = TypeVar("Class", bound=type[Any])

POSES = {  # kind of corpus -> task that it is evaluated by
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
"""Name -> class of the tasks that users have defined in this process."""


def task(name: str, kind: Kind | str) -> Callable[[Class], Class]:
    """Return a decorator that registers a class as an evaluation task, ``NAME=FORMAT:PATH``.

    The class takes a corpus and a name. It implements ``sentune.tasks.Task``, which evaluates the
    embeddings of its sentences, or ``ModelTask``, which calls the model itself.

    Args:
        name: name of the task, the first part of the names of its metrics.
        kind: kind of the corpora that it reads, such as ``labelled-pairs``.

    Raises:
        InvalidValue: the name is taken or malformed, the kind is unknown, or the class lacks a
            method.
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
    """Return the user's task of a name, from this process or the entry points, or of an address.

    Args:
        option: option that the name was given to, for the error message.

    Raises:
        InvalidValue: there is no such task, or the class is not registered as a task.
    """
    kind = OWN.get(name) or user_code.named("tasks", name, option, [*TASKS, *OWN])
    if getattr(kind, "reads", None) is None:
        raise InvalidValue(option, name, "put @sentune.task(NAME, kind=...) before its class")
    return kind


def in_other_processes(name: str) -> str:
    """Return the name that other processes can load a task by: a user's address, else its name."""
    return user_code.address_of(OWN[name]) if name in OWN else name
