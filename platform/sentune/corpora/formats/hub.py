"""``hf:NAME``: datasets by name or folder, streamed through Hugging Face ``datasets``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from sentune.corpora.formats.arrow import kinds_with, row
from sentune.corpora.formats.reading import BadFieldError, Log, Readers, Row
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.corpora.schema import LABELS, SCHEMAS, Kind
from sentune.errors import CorpusError, InvalidValue

OPTIONS = {
    "config": "configuration of the dataset",
    "split": "default train",
    "columns": "ours:theirs,... such as premise:sentence1,hypothesis:sentence2",
    "labels": "theirs:ours,... such as 0:entailment,1:neutral,2:contradiction",
}
_LABEL_COLUMNS = ("label", "reverse_label", "labels")


def readers(spec: Spec) -> Readers:
    """Return the kinds whose columns the dataset has, under our names or the given ones.

    Raises:
        InvalidValue: for a column or label that is none of ours, or names nothing of theirs.
        CorpusError: when the dataset cannot be loaded.
    """
    theirs = spec.mapping("columns")
    ours = {name for schema in SCHEMAS.values() for name in schema.names}
    if unknown := set(theirs) - ours:
        fix = f"our columns are {', '.join(sorted(ours))}"
        raise InvalidValue(f"{FIELD} option columns", ", ".join(sorted(unknown)), fix)
    if wrong := set(spec.mapping("labels").values()) - set(LABELS):
        fix = f"our labels are {', '.join(LABELS)}"
        raise InvalidValue(f"{FIELD} option labels", ", ".join(sorted(wrong)), fix)
    found = _load(spec)
    names = set(found.column_names or next(iter(found), {}))
    for our, their in theirs.items():
        if their not in names:
            fix = f"the dataset has {', '.join(sorted(names))}"
            raise InvalidValue(f"{FIELD} option columns", f"{our}:{their}", fix)
    kinds = {kind: partial(_read, kind) for kind in kinds_with(names | set(theirs))}
    if not kinds:
        fix = "map its columns with columns=ours:theirs,..."
        raise InvalidValue(FIELD, spec.text, fix)
    return kinds


def _load(spec: Spec) -> Any:
    import datasets  # only here: importing it takes seconds

    split = spec.options.get("split", "train")
    try:
        config = spec.options.get("config")
        return datasets.load_dataset(spec.path, config, split=split, streaming=True)
    except (FileNotFoundError, ValueError, ConnectionError) as error:
        raise CorpusError(spec.path, f"datasets cannot load it: {error}") from error


def _read(kind: Kind, spec: Spec, log: Log) -> Iterator[Row]:
    """Rows of the split; the line of a bad row is its number, from 1."""
    dataset, theirs = _load(spec), spec.mapping("columns")
    labels = _label_names(spec, dataset, theirs)
    for place, example in enumerate(dataset, start=1):
        log.counts["read"] += 1
        fields = {name: example.get(theirs.get(name, name)) for name in SCHEMAS[kind].names}
        try:
            for name in _LABEL_COLUMNS:
                if fields.get(name) is not None:
                    fields[name] = _label(fields[name], labels[name])
            if fields.get("label") == "-":
                log.counts["unlabelled"] += 1
            else:
                yield row(kind, fields)
        except BadFieldError as error:
            log.quarantine(spec.path, place, str(error))


def _label_names(spec: Spec, dataset: Any, theirs: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """For each label column: what a value is called, by the option or the dataset's ClassLabel."""
    given = spec.mapping("labels")
    tables: dict[str, dict[str, str]] = {}
    for column in _LABEL_COLUMNS:
        feature = (dataset.features or {}).get(theirs.get(column, column))
        names = getattr(getattr(feature, "feature", feature), "names", None) or ()
        tables[column] = {str(i): given.get(n, n.lower()) for i, n in enumerate(names)} | given
    return tables


def _label(value: object, names: Mapping[str, str]) -> Any:
    """Our label of a value, or of each of a list; -1 and ``-`` are signs for no agreement."""
    if isinstance(value, list):
        return [_label(item, names) for item in value]
    if value in (-1, "-"):
        return "-"
    if isinstance(value, int) and str(value) not in names:
        raise BadFieldError(f"label {value} has no name; give labels=0:entailment,...")
    return names.get(str(value), str(value).lower())
