"""The format ``parquet``: prepared folders, and any files with the columns of a kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.formats.nli import in_order
from sentune.corpora.formats.operations import operation_row
from sentune.corpora.formats.reading import (
    BadFieldError,
    Log,
    Readers,
    Row,
    check_label,
    number,
    sentence,
)
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.corpora.schema import SCHEMAS, SPLITS, Kind
from sentune.errors import CorpusError, InvalidValue, first_line
from sentune.io.bounded_read import check_regular
from sentune.io.checksums import checksum
from sentune.io.folders import checked_manifest
from sentune.io.object_store import files_at

MANIFEST = "manifest.json"
"""Manifest of a folder that ``prepare`` wrote: kind, shards and checksums."""

_PAGES = 1 << 20
"""Bytes of a column that are read at a time, because a row group may have any size."""

NO_LABEL = ("-", "-1")
"""Values that stand for a missing label in SNLI and in ``datasets``."""

_AGAIN = "delete the folder and prepare the corpus again"


def readers(spec: Spec) -> Readers:
    """Return the reader of a prepared folder's kind, or of all kinds whose columns a file has."""
    if manifest := _manifest(spec.path):
        kind = Kind(manifest["kind"])
        return {kind: partial(_read, kind, manifest)}
    with _opened(files(spec.path)[0]) as file:
        names = set(file.schema_arrow.names)
    if not (kinds := kinds_with(names)):
        found = ", ".join(sorted(names))
        fix = f"rename its columns ({found}) to those of a kind, such as premise, hypothesis, label"
        raise InvalidValue(FIELD, spec.text, fix)
    return {kind: partial(_read, kind, {}) for kind in kinds}


def kinds_with(names: Set[str]) -> tuple[Kind, ...]:
    """Return the kinds whose required columns are among ``names``.

    Conditioned pairs are not offered as scored or related pairs, because their scores are
    meaningless without the condition.
    """
    kinds = tuple(kind for kind in Kind if _required(kind) <= names)
    if Kind.CONDITIONED_PAIRS in kinds:
        return tuple(k for k in kinds if k not in (Kind.SCORED_PAIRS, Kind.RELATED))
    return kinds


def shard_name(number: int) -> str:
    """Return the file name of a shard of a prepared folder."""
    return f"part-{number:05d}.parquet"


def files(path: str) -> list[str]:
    """Return the Parquet files of a folder, sorted by name and without hidden ones, or the file.

    Raises:
        CorpusError: there is no Parquet file.
    """
    system, root = files_at(path)
    if system.isdir(root):
        names = system.ls(root, detail=False)
        found = sorted(n for n in names if n.endswith(".parquet") and "/." not in n[len(root) :])
    else:
        found = [root] if system.exists(root) else []
    if not found:
        raise CorpusError(path, "there is no Parquet file; check the path")
    return [system.unstrip_protocol(name) for name in found]


def row(kind: Kind, fields: Mapping[str, object]) -> Row:
    """Check the fields of a row and return them in the order of the kind's schema."""
    if kind is Kind.OPERATIONS:
        return operation_row(fields)
    return tuple(_value(kind, column, fields.get(column.name)) for column in SCHEMAS[kind])


def rows_of(
    kind: Kind, examples: Iterable[Mapping[str, object]], path: str, log: Log
) -> Iterator[Row]:
    """Yield the checked rows of examples; the line of a bad row is its number, from 1."""
    for line, fields in enumerate(examples, start=1):
        log.counts["read"] += 1
        if kind is Kind.LABELLED_PAIRS and str(fields.get("label")) in NO_LABEL:
            log.counts["unlabelled"] += 1
            continue
        with log.checks(path, line):
            yield row(kind, fields)


def _value(kind: Kind, column: pa.Field, value: object) -> object:
    if value is None and column.nullable:
        return None
    if pa.types.is_floating(column.type):
        return number(value, column.name)
    check = _CHECKS.get((kind, column.name))
    return check(value) if check else sentence(value, column.name)


def _split(value: object) -> str:
    if value not in SPLITS:
        raise BadFieldError(f"split is {value!r}, not one of {', '.join(SPLITS)}")
    return str(value)


def _class(value: object) -> str:
    return str(value) if isinstance(value, int) else sentence(value, "label")


def _ids(value: object) -> list[str]:
    if not isinstance(value, list) or not value:
        raise BadFieldError("relevant is not a list of ids")
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


def _manifest(path: str) -> dict[str, Any]:
    """Return the manifest of a prepared folder, empty for any other path."""
    system, root = files_at(path)
    name = f"{root.rstrip('/')}/{MANIFEST}"
    try:
        return parse_manifest(system.cat_file(name)) if system.exists(name) else {}
    except ValueError as error:
        raise CorpusError(name, f"the file is damaged ({error}); {_AGAIN}") from None


def parse_manifest(content: bytes) -> dict[str, Any]:
    """Parse a prepared folder's manifest; return an empty dict for another program's file.

    Manifests of version 0.2.0 have no ``files`` and no checksum.

    Raises:
        ValueError: the manifest is damaged.
    """
    with suppress(ValueError):
        found = json.loads(content)
        if not isinstance(found, dict) or found.keys().isdisjoint({"fingerprint", "shards"}):
            return {}
        if found.keys().isdisjoint({"checksum", "files"}):
            return found
    return checked_manifest(content)


@contextmanager
def _opened(path: str, was: Mapping[str, Any] | None = None) -> Iterator[pq.ParquetFile]:
    """Yield an open Parquet file; convert errors in the block to ``CorpusError``.

    If its size and checksum are known (``was``), the whole file is checked first.
    """
    check_regular(path)
    try:
        with fsspec.open(path, "rb") as stream:
            if was is not None:
                content = stream.read()
                if checksum(content) != was:
                    raise CorpusError(path, f"the shard's checksum or size differs; {_AGAIN}")
                stream = pa.BufferReader(content)
            yield pq.ParquetFile(stream, page_checksum_verification=True, buffer_size=_PAGES)
    except FileNotFoundError as error:
        raise CorpusError(path, f"there is no such file; {_AGAIN}") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = f"not a Parquet file, or a damaged one: {first_line(error)}"
        raise CorpusError(path, f"{reason}; fetch or write it again") from error


def _read(kind: Kind, manifest: Mapping[str, Any], spec: Spec, log: Log) -> Iterator[Row]:
    sizes, sums = manifest.get("shards", []), manifest.get("files", {})
    shards = [f"{spec.path.rstrip('/')}/{shard_name(i)}" for i in range(len(sizes))]
    for place, path in enumerate(shards if manifest else files(spec.path)):
        with _opened(path, sums.get(shard_name(place))) as file:
            names = file.schema_arrow.names
            if missing := _required(kind) - set(names):
                raise CorpusError(path, f"the columns {', '.join(sorted(missing))} are missing")
            if manifest and file.metadata.num_rows != sizes[place]:
                reason = f"{file.metadata.num_rows} rows, but {MANIFEST} says {sizes[place]}"
                raise CorpusError(path, f"{reason}; {_AGAIN}")
            columns = [name for name in SCHEMAS[kind].names if name in names]
            batches = file.iter_batches(batch_size=8_192, columns=columns)
            examples = (fields for batch in batches for fields in batch.to_pylist())
            yield from rows_of(kind, examples, path, log)
