"""Formats that a user brings: a function from a path to rows."""

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
"""Names of the formats of this process's user, which a second definition replaces."""


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
            found = function(spec.path, **given)
            return rows_of(own, map(example, found), spec.path, log)

        def example(given: Any) -> dict[str, Any]:
            if not isinstance(given, Mapping):
                fix = f"let its function yield a dict of {', '.join(columns)} for each row"
                raise InvalidValue(f"format {name}", given, fix)
            return {c: None if (value := given.get(c)) == "" else value for c in columns}

        FORMATS[name] = Format({own: read}, options or {})
        OWN.add(name)
        return function

    return registered
