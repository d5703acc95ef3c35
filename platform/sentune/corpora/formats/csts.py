"""C-STS: similarity of two sentences under a condition, and its re-annotation LC-STS.

C-STS (Deshpande et al. 2023, princeton-nlp/c-sts): CSV files with the columns ``sentence1``,
``sentence2``, ``condition`` and ``label``, 1 to 5; the labels of its test file are hidden (-1).

LC-STS (Tu et al. 2024, brandeis-llc/L-CSTS): a TSV file with the columns ``uid``, the number from 0
of a row of C-STS's development file, and ``reannotated-label``, -1 where no condition fits.
"""

from __future__ import annotations

from collections.abc import Iterator

from sentune.corpora.formats.reading import (
    BadFieldError,
    Log,
    Row,
    by_name,
    check_header,
    lines,
    number,
    records,
    sentence,
)
from sentune.corpora.formats.spec import Spec
from sentune.errors import CorpusError

OPTIONS = {"labels": "LC-STS's .tsv, whose labels replace those of the same rows"}
_COLUMNS = ("sentence1", "sentence2", "condition", "label")
_LC_COLUMNS = ["uid", "reannotated-label"]
_NO_SCORE = -1.0
_LOWEST, _HIGHEST = 1, 5


def pairs(spec: Spec, log: Log) -> Iterator[Row]:
    """Conditioned pairs of a C-STS file; with ``labels=FILE`` scored by LC-STS.

    Dropped and counted: ``unscored`` rows (-1) and, with ``labels``, rows ``not_reannotated``. The
    line of a bad row is the last one that it covers.

    Raises:
        CorpusError: a file is missing or lacks a column, or ``labels`` is damaged or has rows that
            the C-STS file lacks.
    """
    again = _labels(spec.options["labels"]) if "labels" in spec.options else None
    source = records(spec.path, log)
    line, header = next(source, (1, []))
    check_header(spec.path, header, _COLUMNS, line)
    rows = 0
    for place, (line, values) in enumerate(source):
        rows += 1
        with log.checks(spec.path, line):
            fields = by_name(header, values)
            texts = [sentence(fields[name], name) for name in _COLUMNS[:3]]
            score = _score(fields["label"]) if again is None else again.get(place)
            if score is None:
                log.counts["not_reannotated"] += 1
            elif score == _NO_SCORE:
                log.counts["unscored"] += 1
            else:
                yield *texts, score
    if again and max(again) >= rows:
        reason = f"it labels row {max(again)}, but {spec.path} has {rows} rows, numbered from 0"
        raise CorpusError(spec.options["labels"], reason)


def _score(value: object) -> float:
    score = number(value, "label")
    if score != _NO_SCORE and not _LOWEST <= score <= _HIGHEST:
        raise BadFieldError(f"label is {value!r}, neither from {_LOWEST} to {_HIGHEST} nor -1")
    return score


def _labels(path: str) -> dict[int, float]:
    """Row number -> label of LC-STS. Strict: a label of another row would go unnoticed."""
    found: dict[int, float] = {}
    for line, text in lines(path, Log("0")):
        fields = text.split("\t")
        if line == 1 and fields != _LC_COLUMNS:
            reason = f"the header is {text!r}, not uid and reannotated-label with a tab between"
            raise CorpusError(path, reason, line=1)
        if line == 1:
            continue
        try:
            uid, label = fields
            place, score = int(uid), _score(label)
        except ValueError as error:
            raise CorpusError(path, f"no number and label: {error}", line=line) from None
        if place < 0 or place in found:
            reason = "comes twice" if place in found else "is negative"
            raise CorpusError(path, f"uid {place} {reason}", line=line)
        found[place] = score
    return found
