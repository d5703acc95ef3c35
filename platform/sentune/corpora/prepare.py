"""Convert a corpus of any format to a folder of Parquet shards, read back as ``parquet:FOLDER``.

Training corpora are prepared in the cache, so that each is read once and then streamed.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sentune.corpora.batches import drawn_rows
from sentune.corpora.formats.arrow import MANIFEST, parse_manifest, shard_name
from sentune.corpora.formats.open import CorpusRows, open_rows, parsed_spec
from sentune.corpora.formats.own import OWN
from sentune.corpora.formats.spec import BAD_ROWS
from sentune.corpora.schema import SCHEMAS, BadRow, Corpus, Fingerprint, Kind
from sentune.corpora.stamps import source_stamp
from sentune.corpora.tokens import SHARD_ROWS, in_shards
from sentune.credentials import without_credentials
from sentune.errors import CorpusError, InvalidValue
from sentune.io.atomic import read_document, write_document
from sentune.io.cached_file import CachedFile, node_cache, stored_manifest, upload
from sentune.io.checksums import changed, damage
from sentune.io.folders import (
    checked_manifest,
    draft_beside,
    read_manifest,
    replace_folder,
    settle,
    write_manifest,
)
from sentune.io.object_store import files_at, is_local

logger = logging.getLogger(__name__)

QUARANTINE = "quarantine.jsonl"
SOURCES = "sources"
"""Folder in a cache with the manifests of prepared sources, in files named by source stamp."""

Run = Callable[..., dict[str, Any]]
"""Calls its first argument with the others on some machine, such as ``ray_map.on_worker``."""

_VERSION = 1


def prepare(
    spec: str,
    out: str,
    *,
    kind: Kind,
    limit: int | None = None,
    shard_rows: int = SHARD_ROWS,
    bad_rows: str = BAD_ROWS,
) -> dict[str, Any]:
    """Write a corpus as Parquet shards and return its manifest.

    The corpus is read as a stream: memory holds one shard, and what the format itself must
    collect (see ``formats.select``). The shards are written to a temporary folder and moved to
    ``out`` at the end. If ``out`` has the same rows already, undamaged, it is left unchanged.

    See ``open_rows`` for the other arguments.

    Raises:
        CorpusError: the corpus cannot be read, or ``out`` has other content.
        InvalidValue: ``shard_rows`` is below 1, or the specification is wrong.
        StorageError: the disk is full or read-only; an object store refuses, or does not answer.
    """
    if shard_rows < 1:
        raise InvalidValue("--shard-rows", shard_rows, "use at least 1")
    rows = open_rows(spec, kind, limit=limit, bad_rows=bad_rows)
    system, root = files_at(out)
    beside = draft_beside(Path(root)) if is_local(system) else TemporaryDirectory()
    with beside as draft:
        manifest = _write(rows, Path(draft), shard_rows)
        _settle(Path(draft), out, manifest)
    return manifest


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A corpus in Parquet shards.

    Attributes:
        folder: folder of the shards on the machine that wrote them.
        uri: URI of a copy of the folder in an object store; empty if there is none.
    """

    spec: str
    kind: Kind
    manifest: Mapping[str, Any]
    folder: Path
    uri: str = ""

    @property
    def num_rows(self) -> int:
        return sum(self.manifest["shards"])

    @property
    def cached(self) -> tuple[CachedFile, ...]:
        """The shards as every node can open them."""
        files = self.manifest["files"]
        names = map(shard_name, range(len(self.manifest["shards"])))
        return tuple(CachedFile.of(self.folder, name, files, self.uri) for name in names)

    @property
    def column_names(self) -> list[str]:
        return list(SCHEMAS[self.kind].names)

    @property
    def fingerprint(self) -> str:
        return str(self.manifest["fingerprint"])

    @property
    def nbytes(self) -> int:
        """Bytes of the rows in memory."""
        return int(self.manifest["nbytes"])

    def load(self) -> pa.Table:
        """Return all rows in memory."""
        return pa.concat_tables(map(self._read, self.cached))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as a stream, a shard at a time."""
        for file in self.cached:
            yield from self._read(file).to_batches()

    def _read(self, file: CachedFile) -> pa.Table:
        return pq.read_table(file.here(), schema=SCHEMAS[self.kind])

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return the rows with the given numbers, in the given order; read one shard at a time."""
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum([0, *self.manifest["shards"]])
        cuts = np.searchsorted(rows[order], ends)
        parts = [SCHEMAS[self.kind].empty_table()]
        for file, end, start, stop in zip(self.cached, ends[:-1], cuts[:-1], cuts[1:], strict=True):
            if stop > start:
                parts.append(self._read(file).take(rows[order[start:stop]] - end))
        return pa.concat_tables(parts).take(np.argsort(order))

    def sample(self, rows: int, seed: int = 0) -> Corpus:
        """Return a corpus of ``rows`` random rows, or of all if there are fewer."""
        chosen = np.sort(drawn_rows(self.num_rows, min(rows, self.num_rows), seed))
        table = self.take(chosen)
        return Corpus(spec=self.spec, kind=self.kind, table=table, fingerprint=self.fingerprint)

    def texts(self, *columns: str) -> Iterator[str]:
        """Yield the sentences of the columns, without nulls."""
        for batch in self.batches():
            for column in columns:
                yield from (text for text in batch.column(column).to_pylist() if text is not None)

    def described(self) -> dict[str, Any]:
        """Return the corpus's entry in the study's summary."""
        first = self.manifest["quarantine"].get("first")
        return {
            "spec": self.spec,
            "fingerprint": self.fingerprint,
            "rows": self.num_rows,
            "kind": self.kind.value,
            "counts": self.manifest["counts"],
            **({"first_bad": str(BadRow(**first))} if first else {}),
        }

    @property
    def manifest_file(self) -> str:
        """URI of the manifest if the shards have one, else its path."""
        return f"{self.uri or self.folder}/{MANIFEST}"


def prepared(
    spec: str,
    kind: Kind,
    cache: Path,
    *,
    limit: int | None = None,
    uri: str = "",
    run: Run | None = None,
) -> Prepared:
    """Return a corpus as Parquet shards in the cache, in a folder named by their fingerprint.

    If the source's files are unchanged since an earlier run, they are not read. The shards'
    checksums are compared each time. Damaged shards are created again, with a warning.

    Args:
        uri: URI of the cache in an object store; empty if all nodes see the cache.
        run: calls a function on a worker (``ray_map.on_worker``). It is used if source and cache
            are both in object stores, but not for a user's own format. None: read here.
    """
    stamp = source_stamp(spec, kind.value, limit, SHARD_ROWS)
    manifest = _known(cache, stamp, uri)
    if manifest is None:
        source = parsed_spec(spec)
        here = source.format in OWN or is_local(files_at(source.path)[0])
        if run is not None and uri and not here:
            manifest = run(_made, spec, kind, None, limit, uri)
        else:
            manifest = _made(spec, kind, cache, limit, uri)
        if stamp is not None and stamp == source_stamp(spec, kind.value, limit, SHARD_ROWS):
            for place in filter(None, (str(cache), uri)):
                text = json.dumps(manifest, indent=1)
                write_document(f"{place}/{SOURCES}", f"{stamp}.json", text)
    folder = cache / str(manifest["fingerprint"])
    shown, stored = without_credentials(spec), uri and f"{uri}/{folder.name}"
    return Prepared(spec=shown, kind=kind, manifest=manifest, folder=folder, uri=stored)


def _made(spec: str, kind: Kind, cache: Path | None, limit: int | None, uri: str) -> dict[str, Any]:
    """Read a source into the cache (None: the node's own) and return the shards' manifest."""
    cache = cache or node_cache() / kind.value
    with draft_beside(cache / kind.value) as draft:
        manifest = _write(open_rows(spec, kind, limit=limit), draft, SHARD_ROWS)
        folder = cache / str(manifest["fingerprint"])
        if not settle(draft, folder):
            there, fault = read_manifest(folder / MANIFEST)
            if not fault and any(there.get(n) != manifest[n] for n in ("fingerprint", "shards")):
                fault = "its rows or its shards differ"
            if fault := fault or damage(folder, there["files"]):
                logger.warning("%s is created again: %s", folder, fault)
                replace_folder(draft, folder)
    if uri:
        upload(folder, f"{uri}/{folder.name}")
    return manifest


def _known(cache: Path, stamp: str | None, uri: str) -> dict[str, Any] | None:
    """Return the manifest of a source that was prepared before; None if there are no whole shards.

    The caller then reads the source again, which replaces damaged shards.
    """
    places = [f"{place}/{SOURCES}" for place in (cache, uri) if place and stamp is not None]
    found = (read_document(place, f"{stamp}.json") for place in places)
    try:
        text = next((text for text in found if text is not None), None)
        if text is None:
            return None
        manifest = checked_manifest(text.encode())
    except ValueError as error:  # UnicodeDecodeError is one
        file = cache / SOURCES / f"{stamp}.json"
        logger.warning("%s is damaged (%s); the corpus is read again", file, error)
        return None
    shards = {name: was for name, was in manifest["files"].items() if name != QUARANTINE}
    folder = cache / str(manifest["fingerprint"])
    stored = uri and f"{uri}/{folder.name}"
    if not (damage(folder, shards) or read_manifest(folder / MANIFEST)[1]):
        if stored:
            upload(folder, stored)
        return manifest
    return manifest if stored and stored_manifest(stored, MANIFEST) else None


def _write(rows: CorpusRows, folder: Path, shard_rows: int) -> dict[str, Any]:
    """Write shards, bad rows and manifest into an empty folder; return the manifest."""
    state, sizes, nbytes = Fingerprint(rows.kind), list[int](), 0
    tables = (pa.Table.from_batches([batch]) for batch in rows.batches)
    for table in in_shards(tables, shard_rows):
        for batch in table.to_batches():
            state.update(batch)
        pq.write_table(table, folder / shard_name(len(sizes)), compression="zstd")
        sizes.append(table.num_rows)
        nbytes += table.nbytes
    if not sizes:
        raise rows.log.nothing_left(rows.spec.path, rows.kind)
    bad = [asdict(row) for row in rows.log.bad]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in bad)
    (folder / QUARANTINE).write_text(text, encoding="utf-8")
    reasons = Counter(row["reason"] for row in bad)
    content = {
        "version": _VERSION,
        "kind": rows.kind.value,
        "fingerprint": state.hexdigest(),
        "spec": without_credentials(rows.spec.text),
        "counts": {**rows.log.counts, "rows": sum(sizes)},
        "quarantine": {
            "rows": len(bad),
            "reasons": dict(reasons.most_common(20)),
            **({"first": bad[0]} if bad else {}),
        },
        "shards": sizes,
        "nbytes": nbytes,
    }
    return write_manifest(folder / MANIFEST, content)


def _settle(draft: Path, out: str, manifest: dict[str, Any]) -> None:
    """Move a draft to the folder or URI ``out``, unless that has the same content, undamaged.

    Raises:
        CorpusError: ``out`` has other content.
    """
    system, root = files_at(out)
    local = is_local(system)
    if local and settle(draft, Path(root)):
        return
    if local or (system.exists(root) and system.ls(root, detail=False)):
        if not (fault := _fault(out, manifest)):
            return
        logger.warning("%s is created again: %s", out, fault)
    if local:
        replace_folder(draft, Path(root))
        return
    if system.exists(root):
        system.rm(root, recursive=True)
    system.makedirs(root, exist_ok=True)
    upload(draft, out)


def _fault(out: str, manifest: dict[str, Any]) -> str:
    """Return how the same corpus in ``out`` is damaged; empty if it is not.

    Raises:
        CorpusError: ``out`` has other content.
    """
    there, fix = dict[str, Any](), "choose another folder or delete it"
    try:
        text = read_document(out, MANIFEST)
        there = {} if text is None else parse_manifest(text.encode())
        fault = " is missing" if text is None else " was written by another program"
    except ValueError as error:  # UnicodeDecodeError is one
        fault = f": {error}"
    if not there:
        raise CorpusError(out, f"the folder is no prepared corpus ({MANIFEST}{fault}); {fix}")
    if any(there.get(name) != manifest[name] for name in ("fingerprint", "shards")):
        held, new = (
            f"{m['spec']}, {m['kind']}, {sum(m['shards'])} rows, fingerprint {m['fingerprint']}"
            for m in (there, manifest)
        )
        reason = f"the folder contains another corpus ({held}) than this one ({new})"
        raise CorpusError(out, f"{reason}; {fix}")
    return changed(out, there["files"]) if "files" in there else "it has no checksums"
