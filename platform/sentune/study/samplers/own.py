"""Samplers that a user brings: classes of Optuna's kind, by entry point or address."""

from __future__ import annotations

import inspect
from typing import Any

from optuna.samplers import BaseSampler

from sentune import user_code
from sentune.code import result_code
from sentune.errors import InvalidValue
from sentune.study import SAMPLERS

OPTION = "--sampler"


def is_own(name: str) -> bool:
    """Return whether a name of ``--sampler`` is not one of the package's."""
    return name.partition(":")[0] not in SAMPLERS


def find_own(name: str) -> type[BaseSampler]:
    """Return the sampler of a name among the entry points, or of an address, ``MODULE:CLASS``.

    Raises:
        InvalidValue: there is none, it is no sampler, or a seed is not all that it needs.
    """
    plugins = user_code.installed("samplers")
    if name in plugins:
        kind = plugins[name].load()
    elif ":" in name:
        kind = user_code.find(name, OPTION)
    else:
        listed = ", ".join([*SAMPLERS, *plugins])
        raise InvalidValue(OPTION, name, f"give one of {listed}, grid:NAME, or MODULE:CLASS")
    if not isinstance(kind, type) or not issubclass(kind, BaseSampler):
        raise InvalidValue(OPTION, name, "name a class derived from optuna.samplers.BaseSampler")
    try:
        made(kind, 0)
    except Exception as error:
        fix = f"it is not made of a seed alone ({error}); name a class derived from it that is"
        raise InvalidValue(OPTION, name, fix) from error
    return kind


def made(kind: type[BaseSampler], seed: int) -> BaseSampler:
    """Return a new sampler; where it draws at random, from the seed."""
    takes_seed = "seed" in inspect.signature(kind).parameters
    return kind(seed=seed) if takes_seed else kind()  # type: ignore[call-arg]


def identity_of_own(name: str) -> dict[str, Any]:
    """Return what a study's fingerprint has of a user's sampler; nothing of the package's own."""
    if not is_own(name):
        return {}
    kind = find_own(name)
    module = name.partition(":")[0] if ":" in name else kind.__module__
    return {"sampler": {"name": name, **result_code([module])}}
