"""SimCSE's CSV, the STS Benchmark's TSV and plain text."""

from __future__ import annotations

from collections.abc import Iterator

from sentune.corpora.formats.delimited import records
from sentune.corpora.formats.reading import BadFieldError, Log, Row, lines, number, sentence
from sentune.corpora.formats.spec import Spec
from sentune.errors import CorpusError

_TRIPLET = ("sent0", "sent1", "hard_neg")


def simcse(spec: Spec, log: Log) -> Iterator[Row]:
    """Triplets of a CSV file with the header ``sent0,sent1,hard_neg``.

    The line of a bad row is the last one that it covers.
    """
    source = records(spec.path, log)
    _, header = next(source, (1, []))
    if tuple(header) != _TRIPLET:
        reason = f"the header is {','.join(header)} where {','.join(_TRIPLET)} is expected"
        raise CorpusError(spec.path, reason, line=1)
    for line, fields in source:
        try:
            if len(fields) != len(_TRIPLET):
                raise BadFieldError(f"{len(fields)} columns where there should be {len(_TRIPLET)}")
            row = tuple(sentence(value, name) for value, name in zip(fields, _TRIPLET, strict=True))
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
        else:
            yield row


def stsb(spec: Spec, log: Log) -> Iterator[Row]:
    """Scored pairs of an STS Benchmark file: genre, file, year, id, score, and two sentences.

    Tab-separated without header; quotes are literal; columns after the seventh are sources. The
    genre (main-captions, main-news, ...) is the subset.
    """
    for line, text in lines(spec.path, log):
        fields = text.split("\t")
        try:
            if len(fields) < 7:
                raise BadFieldError(f"{len(fields)} columns where there should be at least 7")
            first, second = sentence(fields[5], "sentence1"), sentence(fields[6], "sentence2")
            yield first, second, number(fields[4], "score"), fields[0].strip() or None
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))


def text(spec: Spec, log: Log) -> Iterator[Row]:
    """Sentences of a file that has one on each line; blank lines are counted and left out."""
    for _, line in lines(spec.path, log):
        if line.strip():
            yield (line.strip(),)
        else:
            log.counts["blank"] += 1
