"""Training corpora as Parquet shards in the cache: any length, read once, streamed from there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.prepare import prepare
from sentune.corpora.schema import SCHEMAS, Kind
from sentune.credentials import without_credentials


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
