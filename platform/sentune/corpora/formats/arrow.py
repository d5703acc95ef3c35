"""Parquet: prepared folders, and any file that has the columns of a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.formats.nli import check_label
from sentune.corpora.formats.reading import BadFieldError, Log, Row, number, sentence
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import SCHEMAS, Kind
from sentune.errors import CorpusError


def readers(spec: Spec) -> Mapping[Kind, Callable[[Spec, Log], Iterator[Row]]]:
    """The kinds whose columns the file or folder has."""
    names = set(_schema(files(spec.path)[0]).names)
    return {kind: partial(_read, kind) for kind in Kind if _required(kind) <= names}


def files(path: str) -> list[str]:
    """The Parquet files of a folder in the order of their names, or the one file itself.

    Raises:
        CorpusError: when there is none.
    """
    system, root = fsspec.core.url_to_fs(path)
    if system.isdir(root):
        found = sorted(name for name in system.ls(root, detail=False) if name.endswith(".parquet"))
    else:
        found = [root] if system.exists(root) else []
    if not found:
        raise CorpusError(path, "there is no Parquet file")
    return [system.unstrip_protocol(name) for name in found]


def row(kind: Kind, fields: Mapping[str, object]) -> Row:
    """Checks the fields of a row and brings them into the order of the kind's schema."""
    values: list[object] = []
    for column in SCHEMAS[kind]:
        value = fields.get(column.name)
        if column.name == "label" or (column.name == "reverse_label" and value is not None):
            values.append(check_label(value))
        elif column.name == "reverse_label":
            values.append(None)
        elif pa.types.is_floating(column.type):
            values.append(number(value, column.name))
        else:
            values.append(sentence(value, column.name))
    return tuple(values)


def _required(kind: Kind) -> set[str]:
    return {column.name for column in SCHEMAS[kind] if not column.nullable}


def _schema(path: str) -> pa.Schema:
    try:
        with fsspec.open(path, "rb") as stream:
            return pq.read_schema(stream)
    except pa.ArrowInvalid as error:
        raise CorpusError(path, f"no Parquet file: {error}") from error


def _read(kind: Kind, spec: Spec, log: Log) -> Iterator[Row]:
    """Rows of all files; the line of a bad row is its number in its file, from 1."""
    for path in files(spec.path):
        schema = _schema(path)
        if missing := _required(kind) - set(schema.names):
            raise CorpusError(path, f"the columns {', '.join(sorted(missing))} are missing")
        columns = [name for name in SCHEMAS[kind].names if name in schema.names]
        with fsspec.open(path, "rb") as stream:
            place = 0
            for batch in pq.ParquetFile(stream).iter_batches(batch_size=8_192, columns=columns):
                for fields in batch.to_pylist():
                    place += 1
                    log.counts["read"] += 1
                    try:
                        yield row(kind, fields)
                    except BadFieldError as error:
                        log.quarantine(path, place, str(error))
