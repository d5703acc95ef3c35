"""Write rows from memory (data frames, dicts, tuples) as a corpus that every process can read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.formats.arrow import NO_LABEL, kinds_with
from sentune.corpora.schema import LABELS, SCHEMAS, Kind
from sentune.errors import InvalidValue, first_line
from sentune.io.object_store import files_at

Data: TypeAlias = (
    "str | Path | pd.DataFrame | pa.Table | Mapping[str, Sequence[Any]] | Iterable[Any]"
)
"""``FORMAT:PATH``, or rows: a pandas or pyarrow table, a ``datasets.Dataset``, a dict of columns,
or an iterable of dicts or tuples."""

_COLUMNS = {name for schema in SCHEMAS.values() for name in schema.names}

_NO_CLASS = -1
"""Class number in ``datasets`` of a row without a class."""


def specs_of(data: Data | Sequence[Data], role: str, folder: str) -> tuple[str, ...]:
    """Return the specifications ``FORMAT:PATH`` of one or several corpora, writing rows to files.

    A list of specifications or tables is several corpora, another list is rows. Rows are written to
    files in ``folder``, a path or URI, that are named by their content. ``role`` is the argument's
    name in messages.

    Raises:
        InvalidValue: the rows fit no kind of corpus; the message lists the kinds' columns.
    """
    items = list(data) if isinstance(data, list | tuple) else [data]
    if not items or not all(map(_is_corpus, items)):
        items = [data]
    return tuple(
        str(item) if isinstance(item, str | Path) else _written(item, role, folder)
        for item in items
    )


def _is_corpus(item: object) -> bool:
    """Return whether ``item`` is a specification or a table rather than a row."""
    if isinstance(item, str):  # "query: a dog" is a sentence
        return re.match(r"([\w.:-]+=)?[\w.-]+:\S", item) is not None
    return isinstance(item, Path | pd.DataFrame | pa.Table) or hasattr(item, "column_names")


def are_columns(data: Mapping[str, Any], role: str) -> bool:
    """Return whether a mapping's keys are the columns of a corpus.

    Raises:
        InvalidValue: ``data`` is a ``datasets.DatasetDict``; the message lists its splits.
    """
    if hasattr(data, "column_names"):
        splits = ", ".join(data)
        raise InvalidValue(role, type(data).__name__, f"give one of its splits: {splits}")
    return bool(kinds_with(data.keys()))


def _written(data: Any, role: str, folder: str) -> str:
    """Write rows as Parquet and return their specification; equal rows share a file."""
    try:
        table = _table(data, role)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        fix = "give columns of equal length, each with values of one type"
        if isinstance(error, UnicodeEncodeError):
            fix = "give text without lone surrogates"
        raise InvalidValue(role, first_line(error), fix) from error
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    content = buffer.getvalue().to_pybytes()
    path = f"{folder}/{hashlib.sha256(content).hexdigest()[:16]}.parquet"
    files, place = files_at(path)
    if not files.exists(place):
        files.makedirs(place.rpartition("/")[0], exist_ok=True)
        with files.transaction:  # writes atomically
            files.pipe_file(place, content)
    return f"parquet:{path.replace('?', '%3F')}"


def _known(names: Iterable[Any], role: str) -> list[str]:
    """Return the names that are columns of some kind of corpus.

    Raises:
        InvalidValue: the names fit no kind; the message lists the kinds' columns.
    """
    given = list(names)
    if not kinds_with({*given}):
        needed = {kind: [c.name for c in SCHEMAS[kind] if not c.nullable] for kind in Kind}
        kinds = "; ".join(f"{kind.value}: {', '.join(names)}" for kind, names in needed.items())
        raise InvalidValue(role, ", ".join(map(str, given)), f"name the columns as in {kinds}")
    known = [name for name in given if name in _COLUMNS]
    if len({*known}) < len(known):
        raise InvalidValue(role, ", ".join(known), "give each column a name of its own")
    return known


def _table(data: Any, role: str) -> pa.Table:
    """Return rows of any type as an Arrow table with the columns of a kind of corpus."""
    if isinstance(data, pa.Table):
        return data.select(_known(data.column_names, role))
    if isinstance(data, pd.DataFrame):
        return pa.Table.from_pandas(data[_known(data.columns, role)], preserve_index=False)
    if isinstance(data, Mapping):
        are_columns(data, role)
        return pa.table({name: list(data[name]) for name in _known(data, role)})
    # a datasets.Dataset, whose classes are numbers with names
    if hasattr(data, "column_names") and getattr(data, "features", None):
        plain = data.with_format(None).select_columns(_known(data.features, role))
        names = {n: f.names for n, f in plain.features.items() if hasattr(f, "names")}
        labelled = [row for row in plain if "label" not in names or row["label"] != _NO_CLASS]
        found = {name: [row[name] for row in labelled] for name in plain.features}
        for name, classes in names.items():
            found[name] = [None if v in (None, _NO_CLASS) else classes[v] for v in found[name]]
        return pa.table(found)
    rows = list(data) if isinstance(data, Iterable) else [data]
    if rows and all(isinstance(row, Mapping) for row in rows):
        wanted = _known(dict.fromkeys(name for row in rows for name in row), role)
        return pa.table({name: [row.get(name) for row in rows] for name in wanted})
    tuples = [_fields(row) for row in rows]
    columns = list(zip(*tuples, strict=True)) if len({len(row) for row in tuples}) == 1 else []
    kind = _kind(columns)
    if kind is None:
        fix = (
            "give dicts, or tuples of one kind: (sentence,), (sentence, sentence), (anchor, "
            "positive, negative), (premise, hypothesis, label) or (sentence1, sentence2, score)"
        )
        raise InvalidValue(role, repr(rows[0])[:80] if rows else "no row", fix)
    names = SCHEMAS[kind].names[: len(columns)]
    return pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})


def _fields(row: Any) -> tuple[Any, ...]:
    """Return the fields of a row without column names; none if it is no such row."""
    if isinstance(row, str):
        return (row,)
    return tuple(row) if isinstance(row, Iterable) and not isinstance(row, Mapping) else ()


def _kind(columns: Sequence[Sequence[Any]]) -> Kind | None:
    """Return the kind of rows without column names, by the number and types of the columns."""
    texts = all(isinstance(value, str) for column in columns[:2] for value in column)
    if not texts or not 1 <= len(columns) <= 3:
        return None
    if len(columns) < 3:
        return Kind.SENTENCES if len(columns) == 1 else Kind.SENTENCE_PAIRS
    last = columns[-1]
    if all(isinstance(value, str) for value in last):
        labels = {*LABELS, *NO_LABEL} & {value.lower() for value in last}
        return Kind.LABELLED_PAIRS if labels else Kind.TRIPLETS
    numbers = all(isinstance(v, Real) and not isinstance(v, bool) for v in last)
    return Kind.SCORED_PAIRS if numbers else None
