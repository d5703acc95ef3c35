"""Parquet: prepared folders, and any file that has the columns of a kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.formats.nli import in_order
from sentune.corpora.formats.operations import operation_row
from sentune.corpora.formats.reading import BadFieldError, Log, Row, check_label, number, sentence
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import SCHEMAS, SPLITS, Kind
from sentune.errors import CorpusError

MANIFEST = "manifest.json"
"""Tells the kind of a folder that ``prepare`` wrote."""


def readers(spec: Spec) -> Mapping[Kind, Callable[[Spec, Log], Iterator[Row]]]:
    """Return the kind of a prepared folder; of any other, the kinds whose columns it has."""
    system, root = fsspec.core.url_to_fs(spec.path)
    manifest = f"{root.rstrip('/')}/{MANIFEST}"
    if system.exists(manifest):
        kind = Kind(json.loads(system.cat_file(manifest))["kind"])
        return {kind: partial(_read, kind)}
    names = set(_schema(files(spec.path)[0]).names)
    return {kind: partial(_read, kind) for kind in kinds_with(names)}


def kinds_with(names: Set[str]) -> tuple[Kind, ...]:
    """Return the kinds whose required columns are among ``names``.

    Pairs with a condition are neither scored nor related pairs: without it their scores mean
    nothing.
    """
    kinds = tuple(kind for kind in Kind if _required(kind) <= names)
    if Kind.CONDITIONED_PAIRS in kinds:
        return tuple(k for k in kinds if k not in (Kind.SCORED_PAIRS, Kind.RELATED))
    return kinds


def files(path: str) -> list[str]:
    """Return the Parquet files of a folder in the order of their names, or the one file itself.

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
    """Check the fields of a row and bring them into the order of the kind's schema."""
    if kind is Kind.OPERATIONS:
        return operation_row(fields)
    return tuple(_value(kind, column, fields.get(column.name)) for column in SCHEMAS[kind])


def _value(kind: Kind, column: pa.Field, value: object) -> object:
    if value is None and column.nullable:
        return None
    if pa.types.is_floating(column.type):
        return number(value, column.name)
    check = _CHECKS.get((kind, column.name))
    return check(value) if check else sentence(value, column.name)


def _split(value: object) -> str:
    if value not in SPLITS:
        raise BadFieldError(f"split is {value!r}, none of {', '.join(SPLITS)}")
    return str(value)


def _class(value: object) -> str:
    """Classes are often numbers."""
    return str(value) if isinstance(value, int) else sentence(value, "label")


def _ids(value: object) -> list[str]:
    if not isinstance(value, list) or not value:
        raise BadFieldError("relevant is no list of ids")
    return [sentence(item, "an id of relevant") for item in value]


_CHECKS: dict[tuple[Kind, str], Callable[[object], object]] = {
    (Kind.LABELLED_PAIRS, "label"): check_label,
    (Kind.LABELLED_PAIRS, "reverse_label"): check_label,
    (Kind.SEVERAL_LABELS, "labels"): in_order,
    (Kind.CLASSIFIED, "label"): _class,
    (Kind.CLASSIFIED, "split"): _split,
    (Kind.RELATED, "split"): _split,
    (Kind.QUERIES, "relevant"): _ids,
}


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
