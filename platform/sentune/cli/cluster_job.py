"""A job's script and its options, read as far as they say what is asked for."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from sentune import job
from sentune.errors import InvalidValue
from sentune.job.options import StudyOptions, option_name, parse
from sentune.study.space.space import SearchSpace


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a script hands to ``job.run``.

    Attributes:
        space: what is searched.
        defaults: its options where the command line says nothing.
        quick: what ``--quick`` sets; None: it has no such flag.
    """

    space: SearchSpace
    defaults: StudyOptions
    quick: Mapping[str, Any] | None


def read_job(script: Path) -> Asked:
    """Runs a job's script up to its ``job.run``, which here only takes note.

    Raises:
        InvalidValue: there is no such file, or it starts no job.
    """
    if not script.is_file():
        raise InvalidValue("JOB", str(script), "give a job's script, such as jobs/tune_gumbel.py")
    with _noting() as asked, _beside(script):
        runpy.run_path(str(script), run_name="__main__")
    if not asked:
        raise InvalidValue("JOB", str(script), "it never calls sentune.job.run")
    return asked[0]


def options_of(asked: Asked, arguments: Sequence[str]) -> StudyOptions:
    """The options of a command line, as the script itself would have them.

    Args:
        asked: by the script.
        arguments: ``--trials 40 --set key=value ...``.

    Raises:
        InvalidValue: naming the option, the value and what is allowed.
    """
    given = dict(_given(asked, arguments))
    base = asked.defaults
    if given.pop("quick", False):
        base = parse(dict(asked.quick or {}), base)
    return parse(given, base)


def _given(asked: Asked, arguments: Sequence[str]) -> Iterator[tuple[str, Any]]:
    fields = type(asked.defaults).model_fields
    repeated: dict[str, list[str]] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        field = name.removeprefix("--").replace("-", "_")
        if name == "--quick" and asked.quick is not None and not equals:
            yield "quick", True
            continue
        if field not in fields or option_name(field) != name:
            raise InvalidValue(word, value, f"{asked.space.method}'s job has no such option")
        kind = fields[field].annotation
        if kind is bool:
            yield field, True
            continue
        text = value if equals else next(words, None)
        if text is None:
            raise InvalidValue(name, None, "a value follows it")
        if _repeats(asked.defaults, field):
            repeated.setdefault(field, []).append(text)
        else:
            yield field, text
    yield from ((field, tuple(texts)) for field, texts in repeated.items())


def _repeats(defaults: StudyOptions, field: str) -> bool:
    return get_origin(type(defaults).model_fields[field].annotation) is tuple


@contextmanager
def _noting() -> Iterator[list[Asked]]:
    found: list[Asked] = []

    def note(
        space: SearchSpace, defaults: StudyOptions, *, quick: Mapping[str, Any] | None = None
    ) -> None:
        found.append(Asked(space=space, defaults=defaults, quick=quick))

    run, job.run = job.run, note
    try:
        yield found
    finally:
        job.run = run


@contextmanager
def _beside(script: Path) -> Iterator[None]:
    """As Python does for a script: its folder comes first on the path."""
    before = list(sys.path)
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.path[:] = before
