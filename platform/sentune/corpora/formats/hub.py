"""The formats ``hf``, ``csv``, ``tsv``, ``json`` and ``jsonl``, with columns of any names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from sentune.corpora.formats.arrow import NO_LABEL, kinds_with, row
from sentune.corpora.formats.reading import BadFieldError, Log, Readers, Row, parsed
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.corpora.schema import LABELS, SCHEMAS, Kind
from sentune.errors import CorpusError, InvalidValue
from sentune.io.bounded_read import bounded_blocks

FILE_OPTIONS = {
    "columns": "ours=theirs,... such as premise=sentence1,hypothesis=sentence2",
    "labels": "theirs=ours,... such as 0=entailment,1=neutral,2=contradiction",
}
OPTIONS = {"config": "configuration of the dataset", "split": "default train", **FILE_OPTIONS}

_DELIMITERS = {"csv": ",", "tsv": ""}
"""Format with a header -> ``csv_of`` of ``Log.records``; in ``tsv`` quotes are literal."""

_FIRST = 1_000
"""Number of objects of a JSON file whose keys are taken as its columns."""

_LABEL_COLUMNS = ("label", "reverse_label", "labels")


def readers(spec: Spec) -> Readers:
    """Return the readers of all kinds whose columns the dataset has, under our names or mapped.

    Raises:
        InvalidValue: the option ``columns`` names an unknown column of ours or of the dataset, the
            option ``labels`` names an unknown label, or the columns fit no kind.
        CorpusError: the dataset cannot be loaded.
    """
    theirs = spec.mapping("columns")
    ours = {name for schema in SCHEMAS.values() for name in schema.names}
    if unknown := set(theirs) - ours:
        fix = f"our columns are {', '.join(sorted(ours))}"
        raise spec.refused("columns", fix, ", ".join(sorted(unknown)))
    names = _names(spec)
    for our, their in theirs.items():
        if their not in names:
            fix = f"the dataset has {', '.join(names)}"
            raise spec.refused("columns", fix, f"{our}={their}")
    used = {theirs.get(our, our) for our in ours}
    if twice := sorted(name for name in used if names.count(name) > 1):
        reason = f"the header has {', '.join(twice)} more than once; rename one of them"
        raise CorpusError(spec.path, reason)
    kinds = {kind: partial(_read, kind) for kind in kinds_with({*names, *theirs})}
    if not kinds:
        fix = (
            f"map its columns ({', '.join(names)}) to ours, such as "
            "columns=premise=THEIRS,hypothesis=THEIRS,label=THEIRS"
        )
        if spec.format in _DELIMITERS and len(names) == 1 and re.search("[;,|\t]", names[0]):
            fix = f"its header is one column, {names[0]!r}; csv: needs commas, and tsv: tabs"
        raise InvalidValue(FIELD, spec.text, fix)
    wrong = set(spec.mapping("labels").values()) - set(LABELS)
    if wrong and Kind.CLASSIFIED not in kinds:
        fix = f"our labels are {', '.join(LABELS)}"
        raise spec.refused("labels", fix, ", ".join(sorted(wrong)))
    return kinds


def _names(spec: Spec) -> list[str]:
    """Return the column names of the corpus, for JSON the keys of the first objects.

    Raises:
        CorpusError: the file is empty, or its header or all first objects are invalid.
    """
    if spec.format == "hf":
        dataset = _load(spec)
        with _one_error(spec):
            return list(dataset.column_names or next(iter(dataset), {}))
    log = Log("100%")
    if spec.format in _DELIMITERS:
        _, names = next(log.records(spec.path, csv_of=_DELIMITERS[spec.format]), (1, []))
    else:
        first = islice(_objects(spec, log), _FIRST)
        names = list({name: None for _, fields in first for name in fields})
    bad = log.bad[0] if log.bad else None
    if bad and (spec.format in _DELIMITERS or not names):
        raise CorpusError(spec.path, bad.reason, line=bad.line)
    if not names:
        raise CorpusError(spec.path, "the file is empty")
    return names


def _load(spec: Spec) -> Any:
    import datasets  # imported here because it takes seconds

    with _one_error(spec):
        saved = Path(spec.path, datasets.config.DATASET_STATE_JSON_FILENAME).is_file()
        if saved and spec.options.keys().isdisjoint(("split", "config")):
            return datasets.load_from_disk(spec.path)
        split, config = spec.options.get("split", "train"), spec.options.get("config")
        return datasets.load_dataset(spec.path, config, split=split, streaming=True)


@contextmanager
def _one_error(spec: Spec) -> Iterator[None]:
    """Convert errors of the package ``datasets`` in the block to ``CorpusError``."""
    try:
        yield
    except Exception as error:  # each of its readers raises other errors
        raise CorpusError(spec.path, f"datasets cannot load it: {error}") from error


def _examples(dataset: Any, spec: Spec, log: Log) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a dataset with their numbers, from 1, and count them."""
    with _one_error(spec):
        for place, example in enumerate(dataset, start=1):
            log.counts["read"] += 1
            yield place, example


def _objects(spec: Spec, log: Log) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the numbered objects of a JSON file, which has one per line or an array of them.

    An array is read into memory as a whole.
    """
    blocks = bounded_blocks(spec.path)
    start = next(blocks, b"")
    if not start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        yield from log.objects(spec.path)
        return
    try:
        found = parsed((start + b"".join(blocks)).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CorpusError(spec.path, f"invalid UTF-8 at byte {error.start}") from error
    except BadFieldError as error:
        raise CorpusError(spec.path, str(error)) from error
    for place, fields in enumerate(found, start=1):
        log.counts["read"] += 1
        with log.checks(spec.path, place):
            if not isinstance(fields, dict):
                raise BadFieldError("not a JSON object")
            yield place, fields


def _read(kind: Kind, spec: Spec, log: Log) -> Iterator[Row]:
    """Yield the rows of the corpus; for datasets and arrays, a bad row's line is its number."""
    theirs, features = spec.mapping("columns"), None
    if spec.format == "hf":
        dataset = _load(spec)
        features, examples = dataset.features, _examples(dataset, spec, log)
    elif spec.format in _DELIMITERS:
        examples = log.headed(spec.path, csv_of=_DELIMITERS[spec.format])
    else:
        examples = _objects(spec, log)
    names = _label_names(spec, features or {}, theirs)
    for line, example in examples:
        fields = {name: example.get(theirs.get(name, name)) for name in SCHEMAS[kind].names}
        fields = {name: None if value == "" else value for name, value in fields.items()}
        with log.checks(spec.path, line):
            for name in _LABEL_COLUMNS:
                if (value := fields.get(name)) is not None:
                    known, classes = names[name], kind is Kind.CLASSIFIED
                    fields[name] = known.get(str(value), value) if classes else _label(value, known)
            if fields.get("label") == "-":
                log.counts["unlabelled"] += 1
            else:
                yield row(kind, fields)


def _label_names(
    spec: Spec, features: Mapping[str, Any], theirs: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return label column -> value -> label, from the option and the dataset's ClassLabel."""
    given = spec.mapping("labels")
    tables: dict[str, dict[str, str]] = {}
    for column in _LABEL_COLUMNS:
        feature = features.get(theirs.get(column, column))
        names = getattr(getattr(feature, "feature", feature), "names", None) or ()
        signs = {"-1": "-"} if names else {}
        tables[column] = {str(i): given.get(n, n) for i, n in enumerate(names)} | signs | given
    return tables


def _label(value: object, names: Mapping[str, str]) -> Any:
    """Return our label of a value, or of each in a list; ``-`` if annotators did not agree."""
    if isinstance(value, list):
        return [_label(item, names) for item in value]
    name = names.get(str(value), str(value)).lower()
    if str(value) in NO_LABEL or name == "-":
        return "-"
    if name not in LABELS:
        raise BadFieldError(f"label {value} has no name; give labels={value}=entailment,...")
    return name
