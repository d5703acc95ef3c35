"""Tunes sentence-embedding methods on Ray clusters."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentune.api import StudyFailed, compare, evaluate, fit, load_study, method, tune
    from sentune.corpora.formats.own import format
    from sentune.embedder.embedder import Embedder
    from sentune.errors import SentuneError
    from sentune.methods.base import MethodSettings, SentenceMethod
    from sentune.study.space import Choice, Integer, SearchSpace, Uniform
    from sentune.study_result import StudyResult
    from sentune.tasks.own import task

__version__ = "0.2.0"

__all__ = [
    "Choice",
    "Embedder",
    "Integer",
    "MethodSettings",
    "SearchSpace",
    "SentenceMethod",
    "SentuneError",
    "StudyFailed",
    "StudyResult",
    "Uniform",
    "compare",
    "evaluate",
    "fit",
    "format",
    "load_study",
    "method",
    "task",
    "tune",
]

_MODULES = {
    "Embedder": "sentune.embedder.embedder",
    "SentuneError": "sentune.errors",
    **dict.fromkeys(("Choice", "Integer", "SearchSpace", "Uniform"), "sentune.study.space"),
    "StudyResult": "sentune.study_result",
    **dict.fromkeys(("MethodSettings", "SentenceMethod"), "sentune.methods.base"),
    "format": "sentune.corpora.formats.own",
    "task": "sentune.tasks.own",
    **dict.fromkeys(
        ("StudyFailed", "compare", "evaluate", "fit", "load_study", "method", "tune"), "sentune.api"
    ),
}


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that ``import sentune`` does not load torch."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
