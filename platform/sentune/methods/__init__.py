"""One file per paper: encoder, geometry, loss, and settings with the paper's defaults."""

from __future__ import annotations

from sentune.errors import InvalidValue
from sentune.methods.base import GradientMethod, MethodSettings, SentenceMethod
from sentune.methods.closed_form import ClosedForm, ClosedFormSettings
from sentune.methods.gausscse import Gausscse, GausscseSettings
from sentune.methods.gumbelcse import Gumbelcse, GumbelcseSettings
from sentune.methods.intersent import Intersent, IntersentSettings
from sentune.methods.invertible import Invertible, InvertibleSettings
from sentune.methods.laes import Laes, LaesSettings
from sentune.methods.sif import Sif, SifSettings
from sentune.methods.simcse import (
    PairSimcse,
    Simcse,
    SimcseSettings,
    UnsupervisedSimcse,
    UnsupervisedSimcseSettings,
)

REGISTRY: dict[str, type[SentenceMethod]] = {
    method.name: method for method in (Simcse, PairSimcse, UnsupervisedSimcse, Gausscse, Gumbelcse)
}

"""Methods that embed sentences and compare them, trained by gradient."""

GENERATIVE: dict[str, type[GradientMethod]] = {
    method.name: method for method in (Intersent, Invertible)
}
"""Methods whose batches have a way of their own through the model, trained by gradient."""

CLOSED_FORM: dict[str, type[ClosedForm]] = {method.name: method for method in (Sif, Laes)}
"""Methods on word vectors, fitted in closed form."""


def find(name: str) -> type[GradientMethod]:
    """The method of that name that is trained by gradient.

    Raises:
        InvalidValue: there is none.
    """
    known: dict[str, type[GradientMethod]] = {**REGISTRY, **GENERATIVE}
    if name not in known:
        raise InvalidValue("--method", name, f"choose one of {', '.join(known)}")
    return known[name]


def find_closed_form(name: str) -> type[ClosedForm]:
    """The method on word vectors of that name.

    Raises:
        InvalidValue: there is none.
    """
    if name not in CLOSED_FORM:
        raise InvalidValue("method", name, f"choose one of {', '.join(CLOSED_FORM)}")
    return CLOSED_FORM[name]


__all__ = [
    "CLOSED_FORM",
    "GENERATIVE",
    "REGISTRY",
    "ClosedForm",
    "ClosedFormSettings",
    "Gausscse",
    "GausscseSettings",
    "GradientMethod",
    "Gumbelcse",
    "GumbelcseSettings",
    "Intersent",
    "IntersentSettings",
    "Invertible",
    "InvertibleSettings",
    "Laes",
    "LaesSettings",
    "MethodSettings",
    "PairSimcse",
    "SentenceMethod",
    "Sif",
    "SifSettings",
    "Simcse",
    "SimcseSettings",
    "UnsupervisedSimcse",
    "UnsupervisedSimcseSettings",
    "find",
    "find_closed_form",
]
