"""Open the corpus of a specification as record batches, or read it into memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from sentune.corpora.formats import select
from sentune.corpora.formats.reading import Log, Readers, Row
from sentune.corpora.formats.registry import COMMON, FORMATS
from sentune.corpora.formats.spec import BAD_ROWS, Spec, check_options, parse
from sentune.corpora.schema import SCHEMAS, Corpus, Kind, fingerprint
from sentune.credentials import without_credentials
from sentune.errors import InvalidValue
from sentune.io.object_store import files_at, is_local
from sentune.user_code import installed

BATCH_ROWS = 16_384
PAIRS = (
    Kind.LABELLED_PAIRS, Kind.SEVERAL_LABELS, Kind.CONDITIONED_PAIRS, Kind.SCORED_PAIRS,
    Kind.OPERATIONS, Kind.CLASSIFIED, Kind.RELATED, Kind.QUERIES,
)  # fmt: skip
"""Kinds that a task can be evaluated on, in the order in which ``read_pairs`` prefers them."""

SENTENCE_COLUMNS = {
    Kind.TRIPLETS: (0, 1, 2),
    Kind.OPERATIONS: (1, 2, 3),
    Kind.QUERIES: (1,),
    Kind.SENTENCES: (0,),
}
"""Indices of the columns with sentences; 0 and 1 for all other kinds. Nulls are skipped."""

_MADE_OF = {Kind.TRIPLETS: Kind.LABELLED_PAIRS, Kind.SENTENCE_PAIRS: Kind.OPERATIONS}
"""Kinds that are derived from another kind; sentences are derived from any."""


@dataclass(frozen=True, kw_only=True)
class CorpusRows:
    """A corpus that is being read: a stream of record batches, and the log that counts rows."""

    spec: Spec
    kind: Kind
    batches: Iterator[pa.RecordBatch]
    log: Log


def open_rows(
    spec: str, kind: Kind, *, limit: int | None = None, bad_rows: str = BAD_ROWS
) -> CorpusRows:
    """Open a corpus as record batches with the schema of ``kind``.

    Args:
        spec: ``FORMAT:PATH?key=value&...``.
        limit: maximum number of rows, after slices.
        bad_rows: maximum number (``N``) or share (``P%``) of bad rows, which are left out. The
            option ``bad_rows`` of the specification has precedence.

    Raises:
        InvalidValue: the format or an option is unknown, or the corpus cannot be read as ``kind``.
    """
    source = parsed_spec(spec)
    part, premises = (select.parse_slice(o, source.options.get(o)) for o in ("rows", "premises"))
    log = Log(source.options.get("bad_rows", bad_rows))
    rows = _as_kind(source, kind, premises, log)
    if part is not None:
        rows = select.take(rows, part)
    batches = _batches(kind, islice(rows, limit), log)
    return CorpusRows(spec=source, kind=kind, batches=batches, log=log)


def read(spec: str, kind: Kind, *, limit: int | None = None, bad_rows: str = BAD_ROWS) -> Corpus:
    """Read a whole corpus into memory; see ``open_rows`` for the arguments.

    Raises:
        InvalidValue: as in ``open_rows``.
        CorpusError: a file is missing, damaged or empty, or has too many bad rows.
    """
    rows = open_rows(spec, kind, limit=limit, bad_rows=bad_rows)
    table = pa.Table.from_batches(rows.batches, schema=SCHEMAS[kind])
    if not table.num_rows:
        raise rows.log.nothing_left(rows.spec.path, kind)
    return Corpus(
        spec=without_credentials(spec),
        kind=kind,
        table=table,
        fingerprint=fingerprint(kind, table),
        counts={**rows.log.counts, "rows": table.num_rows},
        quarantine=tuple(rows.log.bad),
    )


def read_pairs(spec: str, *, prefer: Kind | None = None) -> Corpus:
    """Read a corpus for evaluation, as the first kind in ``PAIRS`` that it can be read as.

    ``prefer`` is a kind to try before the others, such as scored pairs for SICK.

    Raises:
        InvalidValue: the format has no such kind.
        CorpusError: as in ``read``.
    """
    given = kinds_of(spec)
    wanted = PAIRS if prefer is None else (prefer, *PAIRS)
    return read(spec, next((kind for kind in wanted if kind in given), wanted[0]))


def check_opens(spec: str, kind: Kind) -> None:
    """Check that a corpus in local files can be read as ``kind`` and has a row.

    Slices are ignored, and rows are not converted to ``kind``. Raises what ``read`` does.
    """
    source = parsed_spec(spec)
    if source.format == "hf" or not is_local(files_at(source.path)[0]):
        return
    rows, readers = open_rows(spec, kind), FORMATS[source.format].readers(source)
    native = readers[_native(readers)[kind]](source, rows.log)
    if next(iter(native), None) is None:
        raise rows.log.nothing_left(source.path, kind)


def kinds_of(spec: str) -> tuple[Kind, ...]:
    """Return all kinds that a corpus can be read as, native ones before derived ones."""
    source = parsed_spec(spec)
    return tuple(_native(FORMATS[source.format].readers(source)))


def parsed_spec(spec: str) -> Spec:
    """Parse a specification and check its format and options.

    Raises:
        InvalidValue: the format or an option is unknown.
    """
    name = spec.partition(":")[0]
    if name not in FORMATS and (plugin := installed("formats").get(name)):
        plugin.load()  # registers the format
    source = parse(spec, FORMATS)
    check_options(source, {**FORMATS[source.format].options, **COMMON})
    return source


def _as_kind(spec: Spec, kind: Kind, premises: slice | None, log: Log) -> Iterator[Row]:
    readers = FORMATS[spec.format].readers(spec)
    every = spec.choice("negatives", "one", ("one", "all")) == "all"
    sources = _native(readers, every=every)
    if kind not in sources:
        names = ", ".join(given for given in Kind if given in sources)
        raise InvalidValue(f"kind of {spec.text}", kind.value, f"it can be read as {names}")
    native = sources[kind]
    columns = SENTENCE_COLUMNS.get(native, (0, 1))
    rows = readers[native](spec, log)
    if premises is not None:
        rows = select.take_premises(rows, premises, columns[0])
    if native is kind:
        return rows
    if kind is Kind.TRIPLETS:
        return select.triplets(rows, log, every=every)
    if kind is Kind.SENTENCE_PAIRS:
        return select.sentence_pairs(rows, log)
    return select.sentences(rows, columns)


def _native(readers: Readers, *, every: bool = False) -> dict[Kind, Kind]:
    """Return kind that a corpus can be read as -> kind to read for it; native ones come first.

    If ``every`` contradiction of an entailment is wanted, triplets are derived from labelled pairs
    even if they are native.
    """
    found = {kind: kind for kind in Kind if kind in readers}
    for made, source in _MADE_OF.items():
        if source in readers and (made not in readers or (every and made is Kind.TRIPLETS)):
            found[made] = source
    if found:
        found.setdefault(Kind.SENTENCES, next(iter(found)))
    return found


def _batches(kind: Kind, rows: Iterator[Row], log: Log) -> Iterator[pa.RecordBatch]:
    schema = SCHEMAS[kind]
    while chunk := list(islice(rows, BATCH_ROWS)):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    log.check_share()
