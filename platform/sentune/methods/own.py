"""Find and check methods that a user defines, by entry point or address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sentune import user_code
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.methods.base import SentenceMethod, Settings

TRAINED_ON = (
    Kind.TRIPLETS, Kind.SENTENCE_PAIRS, Kind.LABELLED_PAIRS, Kind.ADJACENT_SENTENCES,
    Kind.SENTENCES,
)  # fmt: skip
"""Kinds of corpora that a ``SentenceMethod`` can train on."""


def find_own(name: str, known: Iterable[str]) -> type[SentenceMethod]:
    """Return the method of an entry point's name or an address ``MODULE:CLASS``.

    Args:
        known: names of the package's own methods, for the error message.

    Raises:
        InvalidValue: there is no such method, or the class is not a valid one.
    """
    kind = checked(user_code.named("methods", name, "--method", known))
    kind.name = name
    return kind


def checked(kind: type[Any]) -> type[SentenceMethod]:
    """Return a user's class if it is a complete ``SentenceMethod``.

    Raises:
        InvalidValue: it is not a subclass, or lacks an attribute or a method.
    """
    if not isinstance(kind, type) or not issubclass(kind, SentenceMethod):
        raise InvalidValue("method", kind, "give a class derived from sentune.SentenceMethod")
    missing = [name for name in ("title", "settings_type") if not hasattr(kind, name)]
    if missing := [*missing, *sorted(kind.__abstractmethods__)]:
        raise InvalidValue("method", kind.__qualname__, f"define {', '.join(missing)} in it")
    own = kind.settings_type
    if not (isinstance(own, type) and issubclass(own, Settings) and "pooling" in own.model_fields):
        fix = "give a class derived from sentune.MethodSettings"
        raise InvalidValue(f"settings_type of {kind.__qualname__}", own, fix)
    if kind.kind not in TRAINED_ON:
        fix = f"choose one of {', '.join(TRAINED_ON)}"
        raise InvalidValue(f"kind of {kind.__qualname__}", kind.kind, fix)
    kind.kind = Kind(kind.kind)
    return kind
