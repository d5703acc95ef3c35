"""User-defined formats: a function that yields the rows of a path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from sentune.corpora.formats.arrow import rows_of
from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.registry import FORMATS, Format
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import SCHEMAS, Kind
from sentune.errors import InvalidValue

Function = TypeVar("Function", bound=Callable[..., Iterable[Mapping[str, Any]]])

OWN: set[str] = set()
"""Names of user-defined formats, which may be defined again."""


def format(
    name: str, kind: Kind | str, *, options: Mapping[str, str] | None = None
) -> Callable[[Function], Function]:
    """Register the decorated function as the reader of a format, used as ``NAME:PATH``.

    The function takes the path, and the specification's options as keyword arguments. It yields a
    mapping for each row, with the columns of the kind. Bad rows are left out and counted as in any
    format. The function runs in the driver only.

    Args:
        kind: kind of the corpus, such as ``labelled-pairs``.
        options: names of the format's options, with their meaning.

    Raises:
        InvalidValue: the name is taken or invalid, or there is no such kind.
    """
    if name in FORMATS and name not in OWN:
        raise InvalidValue("format", name, f"choose another name; taken: {', '.join(FORMATS)}")
    if not re.fullmatch(r"[\w-]+", name):
        raise InvalidValue("format", name, "name it with letters, digits, '_' and '-'")
    if kind not in list(Kind):
        raise InvalidValue("kind", kind, f"choose one of {', '.join(Kind)}")

    own, columns = Kind(kind), SCHEMAS[Kind(kind)].names

    def registered(function: Function) -> Function:
        def read(spec: Spec, log: Log) -> Iterator[Row]:
            given = {o: value for o, value in spec.options.items() if o in (options or {})}
            found = checked(function(spec.path, **given), Iterable)
            return rows_of(own, map(example, found), spec.path, log)

        def example(given: Any) -> dict[str, Any]:
            fields = checked(given, Mapping)
            return {c: None if (value := fields.get(c)) == "" else value for c in columns}

        def checked(given: Any, wanted: type) -> Any:
            if not isinstance(given, wanted):
                fix = f"let its function yield a dict of {', '.join(columns)} for each row"
                raise InvalidValue(f"format {name}", given, fix)
            return given

        FORMATS[name] = Format({own: read}, options or {})
        OWN.add(name)
        return function

    return registered
