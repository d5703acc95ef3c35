"""The methods, one file per paper: encoder, geometry, loss, and settings with the paper's defaults.

A class in a file of this folder is registered under its ``name``. A user's own method is found by
its address, ``MODULE:CLASS``, or by the name of an entry point in the group ``sentune.methods``.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from sentune import user_code
from sentune.errors import InvalidValue
from sentune.methods.base import GradientMethod, SentenceMethod, checked
from sentune.methods.closed_form import ClosedForm
from sentune.methods.gausscse import Gausscse
from sentune.methods.gumbelcse import Gumbelcse
from sentune.methods.intersent import Intersent
from sentune.methods.invertible import Invertible


def _named(base: type[Any]) -> dict[str, type[Any]]:
    """Return name -> class for the subclasses of ``base`` in this package that define a name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found: list[type[Any]] = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, base) and kind.__module__ == module.__name__
    ]
    return {kind.name: kind for kind in found if "name" in vars(kind)}


REGISTRY: dict[str, type[SentenceMethod]] = _named(SentenceMethod)
"""Methods that embed sentences and compare them, trained by gradient."""

TRAINED: dict[str, type[GradientMethod]] = _named(GradientMethod)
"""All methods trained by gradient."""

CLOSED_FORM: dict[str, type[ClosedForm]] = _named(ClosedForm)
"""Methods on word vectors that are fitted in closed form."""


def find(name: str) -> type[GradientMethod]:
    """Return the gradient-trained method of a name, an entry point or an address ``MODULE:CLASS``.

    Raises:
        InvalidValue: there is no such method, or the class is not a valid one.
    """
    if name not in TRAINED:
        kind = checked(user_code.named("methods", name, "--method", (*TRAINED, *CLOSED_FORM)))
        kind.name = name
        return kind
    return TRAINED[name]


def find_closed_form(name: str) -> type[ClosedForm]:
    """Return the method on word vectors of a name.

    Raises:
        InvalidValue: there is no such method.
    """
    if name not in CLOSED_FORM:
        raise InvalidValue("method", name, f"choose one of {', '.join(CLOSED_FORM)}")
    return CLOSED_FORM[name]


__all__ = [
    "CLOSED_FORM",
    "REGISTRY",
    "ClosedForm",
    "Gausscse",
    "GradientMethod",
    "Gumbelcse",
    "Intersent",
    "Invertible",
    "SentenceMethod",
    "checked",
    "find",
    "find_closed_form",
]
