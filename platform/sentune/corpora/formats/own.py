"""Formats that a user brings: a function from a path to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from sentune.corpora.formats.arrow import row
from sentune.corpora.formats.reading import BadFieldError, Log, Reader, Row
from sentune.corpora.formats.registry import FORMATS, Format
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import SCHEMAS, Kind
from sentune.errors import InvalidValue

Function = TypeVar("Function", bound=Callable[..., Iterable[Mapping[str, Any]]])


def format(
    name: str, kind: Kind | str, *, options: Mapping[str, str] | None = None
) -> Callable[[Function], Function]:
    """Make a function the reader of a format of one's own, ``NAME:PATH``.

    The function takes the path, and the options of the specification as keywords, and yields a
    mapping for each row, with the columns of the kind. A row that cannot be used is left out and
    counted as of any format. It runs in the driver alone.

    Args:
        name: before the colon.
        kind: of the corpus, such as ``labelled-pairs``.
        options: that may stand behind the path, with their meaning.

    Raises:
        InvalidValue: the name is taken, or there is no such kind.
    """
    if name in FORMATS and not hasattr(FORMATS[name].given, "own"):
        raise InvalidValue("format", name, f"choose another name; taken: {', '.join(FORMATS)}")
    if kind not in list(Kind):
        raise InvalidValue("kind", kind, f"choose one of {', '.join(Kind)}")

    def registered(function: Function) -> Function:
        readers = _Own({Kind(kind): _reader(function, Kind(kind), options or {})})
        FORMATS[name] = Format(readers, options or {})
        return function

    return registered


class _Own(dict[Kind, Reader]):
    """Readers of a user's format, which a second definition replaces."""

    own = True


def _reader(
    function: Callable[..., Iterable[Mapping[str, Any]]], kind: Kind, options: Mapping[str, str]
) -> Reader:
    def read(spec: Spec, log: Log) -> Iterator[Row]:
        given = {name: value for name, value in spec.options.items() if name in options}
        for place, example in enumerate(function(spec.path, **given), start=1):
            log.counts["read"] += 1
            fields = {name: example.get(name) or None for name in SCHEMAS[kind].names}
            try:
                yield row(kind, fields)
            except BadFieldError as error:
                log.quarantine(spec.path, place, str(error))

    return read
