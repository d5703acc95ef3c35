"""One file per paper: encoder, geometry, loss, and settings with the paper's defaults."""

from __future__ import annotations

from sentune.errors import InvalidValue
from sentune.methods.base import MethodSettings, SentenceMethod
from sentune.methods.gausscse import Gausscse, GausscseSettings
from sentune.methods.gumbelcse import Gumbelcse, GumbelcseSettings
from sentune.methods.simcse import (
    Simcse,
    SimcseSettings,
    UnsupervisedSimcse,
    UnsupervisedSimcseSettings,
)

REGISTRY: dict[str, type[SentenceMethod]] = {
    method.name: method for method in (Simcse, UnsupervisedSimcse, Gausscse, Gumbelcse)
}


def find(name: str) -> type[SentenceMethod]:
    """The method of that name.

    Raises:
        InvalidValue: there is none.
    """
    if name not in REGISTRY:
        raise InvalidValue("--method", name, f"choose one of {', '.join(REGISTRY)}")
    return REGISTRY[name]


__all__ = [
    "REGISTRY",
    "Gausscse",
    "GausscseSettings",
    "Gumbelcse",
    "GumbelcseSettings",
    "MethodSettings",
    "SentenceMethod",
    "Simcse",
    "SimcseSettings",
    "UnsupervisedSimcse",
    "UnsupervisedSimcseSettings",
    "find",
]
