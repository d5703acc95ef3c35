"""SentEval's tasks of pairs: MRPC, SICK and the STS Benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sentune.corpora.formats.columns import named
from sentune.corpora.formats.reading import (
    BadFieldError,
    Log,
    Row,
    check_label,
    lines,
    number,
    sentence,
)
from sentune.corpora.formats.spec import Spec
from sentune.corpora.formats.tables import stsb
from sentune.errors import CorpusError

Fields = Mapping[str, str]

_PARAPHRASE = {"0": "different", "1": "paraphrase"}
_SETS = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}
_SICK_LABELS = ("entailment_label", "entailment_judgment")
"""What ``SICK.txt`` and what the files of SemEval call it."""


def paraphrases(files: Mapping[str, str], log: Log) -> Iterator[Row]:
    """MRPC: quality (0 or 1), two ids and two sentences below a header."""
    for split, path in files.items():
        for line, fields in _table(path, log, "Quality", "#1 String", "#2 String"):
            try:
                if fields["Quality"] not in _PARAPHRASE:
                    raise BadFieldError(f"Quality is {fields['Quality']!r}, not 0 or 1")
                first = sentence(fields["#1 String"], "#1 String")
                second = sentence(fields["#2 String"], "#2 String")
            except BadFieldError as error:
                log.quarantine(path, line, str(error))
            else:
                yield first, second, _PARAPHRASE[fields["Quality"]], split


def sick_labels(files: Mapping[str, str], log: Log) -> Iterator[Row]:
    """SICK: pairs with a label of inference."""
    return _sick(files, log, _SICK_LABELS, lambda value: check_label(value.lower()))


def sick_scores(files: Mapping[str, str], log: Log) -> Iterator[Row]:
    """SICK: pairs with their relatedness from 1 to 5."""
    name = "relatedness_score"
    return _sick(files, log, (name,), lambda value: number(value, name))


def benchmark(files: Mapping[str, str], log: Log) -> Iterator[Row]:
    """The STS Benchmark: pairs with their similarity from 0 to 5."""
    for split, path in files.items():
        source = Spec(text=path, format="stsb", path=path, options={})
        yield from ((first, second, score, split) for first, second, score, _ in stsb(source, log))


def _sick(
    files: Mapping[str, str], log: Log, names: tuple[str, ...], value: Callable[[str], object]
) -> Iterator[Row]:
    """Pairs with the column of ``names`` that is there; ``SICK.txt`` names each row's split."""
    for part, path in files.items():
        own = ("SemEval_set",) if part not in _SETS.values() else ()
        for line, fields in _table(path, log, "sentence_A", "sentence_B", names, *own):
            try:
                first = sentence(fields["sentence_A"], "sentence_A")
                second = sentence(fields["sentence_B"], "sentence_B")
                gold = value(next(fields[name] for name in names if name in fields))
                split = _split(fields["SemEval_set"]) if own else part
            except BadFieldError as error:
                log.quarantine(path, line, str(error))
            else:
                yield first, second, gold, split


def _split(name: str) -> str:
    if name not in _SETS:
        raise BadFieldError(f"SemEval_set is {name!r}, not {', '.join(_SETS)}")
    return _SETS[name]


def _table(
    path: str, log: Log, *needed: str | tuple[str, ...]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows below a header, tab-separated with literal quotes; of a tuple, one name is needed.

    The header is no row. A row of another width goes to quarantine.

    Raises:
        CorpusError: the header lacks a column.
    """
    source = lines(path, log)
    header = next(source, (1, ""))[1].split("\t")
    log.counts["read"] -= 1
    choices = [(name,) if isinstance(name, str) else name for name in needed]
    missing = [" or ".join(names) for names in choices if not set(names) & set(header)]
    if missing:
        raise CorpusError(path, f"the header lacks {', '.join(missing)}", line=1)
    yield from named(source, header, path, log)
