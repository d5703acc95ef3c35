"""Errors that say what is wrong and what to do about it; none tells a credential."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentune.credentials import without_credentials

if TYPE_CHECKING:
    from pydantic import ValidationError


class SentuneError(Exception):
    """Base of every error that this package raises on purpose.

    Its text goes to logs, databases and reports, so credentials in it are left out.
    """

    def __init__(self, *parts: object) -> None:
        super().__init__(*(without_credentials(part) for part in parts))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without ``__init__``, whose arguments are each subclass's own."""
        return type(self).__new__, (type(self),), {**vars(self), "args": self.args}


def first_line(error: BaseException) -> str:
    """Return the first words of an error's text."""
    lines = (line.strip() for line in str(error).splitlines())
    return str(without_credentials(next((line for line in lines if line), "no message")))


def last_line(error: BaseException) -> str:
    """Return the last line of an error's text, where Ray says why; empty where it has none."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), "")


def named(error: BaseException) -> str:
    """Return the kind of an error and its first words."""
    return f"{type(error).__name__}: {first_line(error)}"


class InvalidValue(SentuneError, ValueError):
    """A value that cannot be used, found where it enters.

    Args:
        field: the option, setting or field as its user writes it (``--trials``, ``batch_size``).
        value: what was given; None and an empty text are missing.
        fix: what is allowed, as the end of "<field>: <value> cannot be used; ...".
    """

    def __init__(self, field: str, value: object, fix: str) -> None:
        missing = value is None or (isinstance(value, str) and not value)
        what = "missing" if missing else f"{value!r} cannot be used"
        super().__init__(f"{field}: {what}; {fix}")
        self.field, self.value, self.fix = field, value, fix


def invalid_value(
    error: ValidationError, given: Mapping[str, Any], shown: Callable[[str], str] = str
) -> InvalidValue:
    """Return pydantic's first error as ours.

    Args:
        given: name of a field -> its value.
        shown: name of a field -> as its user writes it.
    """
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InvalidValue):
        return cause
    message = first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][0]) if first["loc"] else "settings"  # of several together
    return InvalidValue(shown(name), given.get(name), message[:1].lower() + message[1:])


class CheckpointGone(InvalidValue):
    """The checkpoint of another run from which one was to go on is missing or damaged."""


class CorpusError(SentuneError):
    """A corpus that cannot be read, with file, line where known, and reason."""

    def __init__(self, path: str | Path, reason: str, *, line: int | None = None) -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {reason}")
        self.path, self.reason, self.line = path, reason, line


class DamagedFile(SentuneError):
    """A file that does not hold what was written, with what is wrong and what to do."""

    def __init__(self, path: str | Path, why: str, fix: str) -> None:
        super().__init__(f"{path}: {why}; {fix}")
        self.path, self.why, self.fix = path, why, fix


class TrialFailed(SentuneError):
    """A trial that cannot go on; the message is the reason shown to the user."""


class StudyConflict(SentuneError):
    """A study that exists with another space, corpus, method or objective."""


class Overtaken(StudyConflict):
    """A driver that another start of its study has replaced: it must not write any more."""


class PlanError(InvalidValue):
    """A plan that cannot run on the cluster at hand."""
