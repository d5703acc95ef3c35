"""The package's errors, whose messages say what is wrong and how to fix it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentune.credentials import without_credentials

if TYPE_CHECKING:
    from pydantic import ValidationError


class SentuneError(Exception):
    """Base class of the errors that this package raises.

    Credentials are removed from the message, which goes to logs, databases and reports.
    """

    def __init__(self, *parts: object) -> None:
        super().__init__(*(without_credentials(part) for part in parts))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without calling ``__init__``, whose arguments differ between subclasses."""
        return type(self).__new__, (type(self),), {**vars(self), "args": self.args}


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    lines = (line.strip() for line in str(error).splitlines())
    return str(without_credentials(next((line for line in lines if line), "no message")))


def last_line(error: BaseException) -> str:
    """Return the last line of an error's text, the reason in Ray's errors; may be empty."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), "")


def named(error: BaseException) -> str:
    """Return the class and the first line of an error."""
    return f"{type(error).__name__}: {first_line(error)}"


class InvalidValue(SentuneError, ValueError):
    """Raised for a value that cannot be used.

    Args:
        field: the option, setting or field as the user writes it (``--trials``, ``batch_size``).
        value: the given value; an empty text counts as missing.
        fix: what is allowed; end of the message "<field>: <value> cannot be used; <fix>".
    """

    def __init__(self, field: str, value: object, fix: str) -> None:
        what = "missing" if isinstance(value, str) and not value else f"{value!r} cannot be used"
        super().__init__(f"{field}: {what}; {fix}")
        self.field, self.value, self.fix = field, value, fix


def option_name(field: str) -> str:
    """Return ``--max-examples`` for ``max_examples``."""
    return "--" + field.replace("_", "-")


def invalid_value(
    error: ValidationError, given: Mapping[str, Any], shown: Callable[[str], str] = str
) -> InvalidValue:
    """Convert pydantic's first error to an ``InvalidValue``.

    Args:
        given: name of a field -> its value.
        shown: returns the name of a field as the user writes it.
    """
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InvalidValue):
        return cause
    message = first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][0]) if first["loc"] else "settings"  # the error is of several fields
    return InvalidValue(shown(name), given.get(name), message[:1].lower() + message[1:])


class CheckpointGone(InvalidValue):
    """Raised if a run continues from a checkpoint of another run that is missing or damaged."""


class CorpusError(SentuneError):
    """Raised for a corpus that cannot be read; names file, line if known, and reason."""

    def __init__(self, path: str | Path, reason: str, *, line: int | None = None) -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {reason}")
        self.path, self.reason, self.line = path, reason, line


class DamagedFile(SentuneError):
    """Raised for a damaged file; says what is wrong and how to fix it."""

    def __init__(self, path: str | Path, why: str, fix: str) -> None:
        super().__init__(f"{path}: {why}; {fix}")
        self.path, self.why, self.fix = path, why, fix


class TrialFailed(SentuneError):
    """Raised if a trial cannot continue; the message is the reason shown to the user."""


class StudyConflict(SentuneError):
    """Raised if a study has another space, corpus, method or objective, or another driver."""


class Overtaken(StudyConflict):
    """Raised in a driver that was replaced by another start of its study and must not write."""


class PlanError(InvalidValue):
    """Raised for a plan that cannot run on the cluster."""
