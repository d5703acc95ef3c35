"""``hf:NAME``, and files with any columns (``csv:``, ``tsv:``, ``json:``, ``jsonl:``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from sentune.corpora.formats.arrow import kinds_with, row
from sentune.corpora.formats.reading import BadFieldError, Log, Readers, Row
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.corpora.schema import LABELS, SCHEMAS, Kind
from sentune.errors import CorpusError, InvalidValue
from sentune.io.bounded_read import check_regular

FILE_OPTIONS = {
    "columns": "ours=theirs,... such as premise=sentence1,hypothesis=sentence2",
    "labels": "theirs=ours,... such as 0=entailment,1=neutral,2=contradiction",
}
OPTIONS = {"config": "configuration of the dataset", "split": "default train", **FILE_OPTIONS}

_TABLE = {"keep_default_na": False}  # "NA" and "null" are words
_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "csv": ("csv", _TABLE),
    "tsv": ("csv", {**_TABLE, "sep": "\t"}),
    "json": ("json", {}),
    "jsonl": ("json", {}),
}
"""Format -> the reader of ``datasets`` for such files, and what it is told."""

_LABEL_COLUMNS = ("label", "reverse_label", "labels")
_UNLABELLED = "-"


def readers(spec: Spec) -> Readers:
    """Return the kinds whose columns the dataset has, under our names or the given ones.

    Raises:
        InvalidValue: for a column that is none of ours or names nothing of theirs, or a label of
            pairs that is none of ours.
        CorpusError: the dataset cannot be loaded.
    """
    theirs = spec.mapping("columns")
    ours = {name for schema in SCHEMAS.values() for name in schema.names}
    if unknown := set(theirs) - ours:
        fix = f"our columns are {', '.join(sorted(ours))}"
        raise InvalidValue(f"{FIELD} option columns", ", ".join(sorted(unknown)), fix)
    names = set(_names(_load(spec), spec))
    for our, their in theirs.items():
        if their not in names:
            fix = f"the dataset has {', '.join(sorted(names))}"
            raise InvalidValue(f"{FIELD} option columns", f"{our}={their}", fix)
    kinds = {kind: partial(_read, kind) for kind in kinds_with(names | set(theirs))}
    if not kinds:
        fix = "map its columns with columns=ours=theirs,..."
        raise InvalidValue(FIELD, spec.text, fix)
    wrong = set(spec.mapping("labels").values()) - set(LABELS)
    if wrong and Kind.CLASSIFIED not in kinds:
        fix = f"our labels are {', '.join(LABELS)}"
        raise InvalidValue(f"{FIELD} option labels", ", ".join(sorted(wrong)), fix)
    return kinds


def _load(spec: Spec) -> Any:
    import datasets  # only here: importing it takes seconds

    with _one_error(spec):
        if spec.format not in _FILES:
            split, config = spec.options.get("split", "train"), spec.options.get("config")
            return datasets.load_dataset(spec.path, config, split=split, streaming=True)
        check_regular(spec.path)
        reader, told = _FILES[spec.format]
        told = {"data_files": spec.path, "split": "train", "streaming": True, **told}
        found = datasets.load_dataset(reader, **told)
        if reader != "csv":
            return found
        # its cells are texts, whatever the first ones look like
        texts = datasets.Features({name: datasets.Value("string") for name in _names(found, spec)})
        return datasets.load_dataset(reader, features=texts, **told)


def _names(dataset: Any, spec: Spec) -> list[str]:
    """Return the names of its columns."""
    with _one_error(spec):
        return list(dataset.column_names or next(iter(dataset), {}))


@contextmanager
def _one_error(spec: Spec) -> Iterator[None]:
    """Raise what ``datasets`` raises for files that it cannot read as ``CorpusError``."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise CorpusError(spec.path, f"datasets cannot load it: {error}") from error


def _examples(dataset: Any, spec: Spec) -> Iterator[Any]:
    with _one_error(spec):
        yield from dataset


def _read(kind: Kind, spec: Spec, log: Log) -> Iterator[Row]:
    """Rows of the split; the line of a bad row is its number, from 1."""
    dataset, theirs = _load(spec), spec.mapping("columns")
    label = _class if kind is Kind.CLASSIFIED else _label
    names = _label_names(spec, dataset, theirs)
    for place, example in enumerate(_examples(dataset, spec), start=1):
        log.counts["read"] += 1
        fields = {name: example.get(theirs.get(name, name)) for name in SCHEMAS[kind].names}
        fields = {name: None if value == "" else value for name, value in fields.items()}
        with log.checks(spec.path, place):
            for name in _LABEL_COLUMNS:
                if fields.get(name) is not None:
                    fields[name] = label(fields[name], names[name])
            if fields.get("label") == _UNLABELLED:
                log.counts["unlabelled"] += 1
            else:
                yield row(kind, fields)


def _label_names(spec: Spec, dataset: Any, theirs: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """For each label column: what a value is called, by the option or the dataset's ClassLabel."""
    given = spec.mapping("labels")
    tables: dict[str, dict[str, str]] = {}
    for column in _LABEL_COLUMNS:
        feature = (dataset.features or {}).get(theirs.get(column, column))
        names = getattr(getattr(feature, "feature", feature), "names", None) or ()
        signs = {"-1": _UNLABELLED} if names else {}
        tables[column] = {str(i): given.get(n, n) for i, n in enumerate(names)} | signs | given
    return tables


def _class(value: object, names: Mapping[str, str]) -> Any:
    """Class of a value: its name, or without one the value as it stands."""
    return names.get(str(value), value)


def _label(value: object, names: Mapping[str, str]) -> Any:
    """Our label of a value, or of each of a list; -1 and ``-`` are signs for no agreement."""
    if isinstance(value, list):
        return [_label(item, names) for item in value]
    if value in (-1, _UNLABELLED):
        return _UNLABELLED
    if str(value).isdigit() and str(value) not in names:
        raise BadFieldError(f"label {value} has no name; give labels=0=entailment,...")
    return names.get(str(value), str(value)).lower()
