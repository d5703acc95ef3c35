"""What the trials of a closed-form job are given: sentences in shards, and word tables."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.prepare import prepare
from sentune.corpora.schema import Kind
from sentune.encoders.words import WordTable
from sentune.encoders.words.whole import save_whole
from sentune.job.options import ClosedFormOptions
from sentune.search.shipping import ShippedFolder, ship
from sentune.training.folders import whole_folder


@dataclass(frozen=True)
class ShippedWords:
    """A word table in the object store; on the driver's machine it stays where it is cached."""

    folder: ShippedFolder

    def open(self) -> WordTable:
        """The table, memory-mapped."""
        return WordTable.load(self.folder.open())


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """The prepared training corpus: distinct sentences in Parquet shards."""

    manifest: Mapping[str, Any]
    paths: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Sentences."""
        return sum(self.manifest["shards"])

    @property
    def nbytes(self) -> int:
        """What they take in memory."""
        files = [pq.ParquetFile(path).metadata for path in self.paths]
        return sum(f.row_group(i).total_byte_size for f in files for i in range(f.num_row_groups))

    def load(self) -> pa.Table:
        """All of them in memory."""
        return pa.concat_tables([pq.read_table(path) for path in self.paths])


def prepared(options: ClosedFormOptions, cache: Path) -> Sentences:
    """The training sentences as shards in the cache, under their fingerprint."""
    cache.mkdir(parents=True, exist_ok=True)
    draft = cache / f".{uuid4().hex}"
    manifest = prepare(options.corpus, str(draft), kind=Kind.SENTENCES, limit=options.limit)
    folder = cache / manifest["fingerprint"]
    place = folder if folder.is_dir() else draft.rename(folder)
    if draft.is_dir():
        shutil.rmtree(draft)
    shards = sorted(place.glob("*.parquet"))
    return Sentences(manifest=manifest, paths=tuple(str(path) for path in shards))


def shipped(table: WordTable, cache: Path) -> ShippedWords:
    """The table in the object store, from a folder that holds all of it."""
    folder = cache / table.fingerprint
    if not folder.is_dir():
        with whole_folder(folder) as beside:
            save_whole(table, beside)
    return ShippedWords(ship(str(folder)))
