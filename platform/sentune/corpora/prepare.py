"""Any format -> a folder of Parquet shards with a manifest, read back as ``parquet:FOLDER``.

A training corpus is prepared in the cache: of any length, read once, streamed from there.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.fingerprint import Fingerprint
from sentune.corpora.formats import CorpusRows, open_rows
from sentune.corpora.formats.arrow import MANIFEST
from sentune.corpora.schema import SCHEMAS, Kind
from sentune.corpora.tokens import SHARD_ROWS, in_shards
from sentune.credentials import without_credentials
from sentune.errors import CorpusError, InvalidValue
from sentune.io.object_store import puts_at_once

QUARANTINE = "quarantine.jsonl"
_VERSION = 1


def prepare(
    spec: str,
    out: str,
    *,
    kind: Kind,
    limit: int | None = None,
    shard_rows: int = SHARD_ROWS,
    bad_rows: int = 100,
) -> dict[str, Any]:
    """Write a corpus as Parquet shards and return its manifest.

    The corpus is read as a stream: memory holds one shard, and what the format itself must
    collect (see ``formats.select``). Everything goes to a folder beside ``out`` and is moved
    there in the end. Where ``out`` holds the same rows already, it stays as it is.

    Args:
        spec: ``FORMAT:PATH?key=value&...``.
        out: local folder or fsspec URI.
        kind: what to read the corpus as.
        limit: at most this many rows.
        shard_rows: rows of a shard.
        bad_rows: how many bad rows are put aside before they are an error.

    Raises:
        CorpusError: for a corpus that cannot be read, or an ``out`` with other content.
    """
    if shard_rows < 1:
        raise InvalidValue("--shard-rows", shard_rows, "use at least 1")
    system, root = fsspec.core.url_to_fs(out, use_listings_cache=False)
    root = root.rstrip("/")
    place = PurePosixPath(root)
    draft = str(place.with_name(f".{place.name}-{uuid4().hex}"))
    rows = open_rows(spec, kind, limit=limit, bad_rows=bad_rows)
    system.makedirs(draft)
    try:
        manifest = _write(rows, system, draft, shard_rows)
        _settle(system, draft, root, out, manifest)
    finally:
        if system.exists(draft):
            system.rm(draft, recursive=True)
    return manifest


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A corpus in Parquet shards.

    Attributes:
        spec: ``FORMAT:PATH`` as the user wrote it.
        manifest: as ``sentune.corpora.prepare`` wrote it.
        paths: of the shards, in order.
    """

    spec: str
    kind: Kind
    manifest: Mapping[str, Any]
    paths: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Of all shards."""
        return sum(self.manifest["shards"])

    @property
    def fingerprint(self) -> str:
        """Of kind and rows."""
        return str(self.manifest["fingerprint"])

    @property
    def nbytes(self) -> int:
        """What the rows take in memory."""
        files = [pq.ParquetFile(path).metadata for path in self.paths]
        return sum(f.row_group(i).total_byte_size for f in files for i in range(f.num_row_groups))

    def load(self) -> pa.Table:
        """All rows in memory."""
        return pa.concat_tables([pq.read_table(path) for path in self.paths])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as a stream, a shard at a time."""
        for path in self.paths:
            yield from pq.read_table(path, schema=SCHEMAS[self.kind]).to_batches()

    def texts(self, *columns: str) -> Iterator[str]:
        """The sentences of the columns as a stream, those that are there."""
        for batch in self.batches():
            for column in columns:
                yield from (text for text in batch.column(column).to_pylist() if text is not None)

    def described(self) -> dict[str, Any]:
        """As it stands in the summary."""
        return {
            "spec": self.spec,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "kind": self.kind.value,
            "counts": self.manifest["counts"],
        }


def prepared(spec: str, kind: Kind, cache: Path, *, limit: int | None = None) -> Prepared:
    """Return the corpus as shards in the cache, under their fingerprint."""
    cache.mkdir(parents=True, exist_ok=True)
    draft = cache / f".{uuid4().hex}"
    manifest = prepare(spec, str(draft), kind=kind, limit=limit)
    folder = cache / manifest["fingerprint"]
    place = folder if folder.is_dir() else draft.rename(folder)
    if draft.is_dir():
        shutil.rmtree(draft)
    shards = sorted(place.glob("*.parquet"))
    return Prepared(
        spec=without_credentials(spec),
        kind=kind,
        manifest=manifest,
        paths=tuple(str(path) for path in shards),
    )


def _manifest(system: Any, root: str) -> dict[str, Any] | None:
    name = f"{root.rstrip('/')}/{MANIFEST}"
    if not system.exists(name):
        return None
    manifest: dict[str, Any] = json.loads(system.cat_file(name))
    return manifest


def _write(rows: CorpusRows, system: Any, folder: str, shard_rows: int) -> dict[str, Any]:
    state, sizes = Fingerprint(rows.kind), []
    tables = (pa.Table.from_batches([batch]) for batch in rows.batches)
    for number, table in enumerate(in_shards(tables, shard_rows)):
        for batch in table.to_batches():
            state.update(batch)
        with system.open(f"{folder}/part-{number:05d}.parquet", "wb") as stream:
            pq.write_table(table, stream, compression="zstd")
        sizes.append(table.num_rows)
    if not sizes:
        raise CorpusError(rows.spec.path, f"no {rows.kind.value} are left: {dict(rows.log.counts)}")
    reasons = Counter(bad.reason for bad in rows.log.bad)
    manifest = {
        "version": _VERSION,
        "kind": rows.kind.value,
        "fingerprint": state.hexdigest(),
        "spec": without_credentials(rows.spec.text),
        "counts": {**rows.log.counts, "rows": sum(sizes)},
        "quarantine": {"rows": len(rows.log.bad), "reasons": dict(reasons.most_common(20))},
        "shards": sizes,
    }
    bad = [{"path": b.path, "line": b.line, "reason": b.reason} for b in rows.log.bad]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in bad)
    system.pipe_file(f"{folder}/{QUARANTINE}", text.encode())
    system.pipe_file(f"{folder}/{MANIFEST}", json.dumps(manifest, indent=1).encode())
    return manifest


def _settle(system: Any, draft: str, root: str, out: str, manifest: dict[str, Any]) -> None:
    """Moves the draft to its place, unless the same content is there already."""
    if not system.exists(root) or not system.ls(root, detail=False):
        _move(system, draft, root)
        return
    there = _manifest(system, root)
    if there is None:
        raise CorpusError(out, "the folder holds something else; choose an empty one")
    if there["fingerprint"] != manifest["fingerprint"] or there["shards"] != manifest["shards"]:
        reason = (
            f"the folder holds another corpus ({there['spec']}, {there['kind']}, "
            f"{sum(there['shards'])} rows, fingerprint {there['fingerprint']}) than this one "
            f"({manifest['spec']}, {manifest['kind']}, {sum(manifest['shards'])} rows, "
            f"fingerprint {manifest['fingerprint']}); choose another folder or delete it"
        )
        raise CorpusError(out, reason)


def _move(system: Any, draft: str, root: str) -> None:
    """The draft in its place; in an object store one by one, the manifest last."""
    if not puts_at_once(system):
        if system.exists(root):
            system.rm(root, recursive=True)
        system.mv(draft, root, recursive=True)
        return
    names = [path.rsplit("/", 1)[-1] for path in system.ls(draft, detail=False)]
    for name in sorted(names, key=lambda name: name == MANIFEST):
        system.pipe_file(f"{root}/{name}", system.cat_file(f"{draft}/{name}"))
