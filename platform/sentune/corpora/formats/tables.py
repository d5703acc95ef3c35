"""SimCSE's CSV, and plain text."""

from __future__ import annotations

from collections.abc import Iterator

from sentune.corpora.formats.reading import BadFieldError, Log, Row, lines, records, sentence
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
        with log.checks(spec.path, line):
            if len(fields) != len(_TRIPLET):
                raise BadFieldError(f"{len(fields)} columns where there should be {len(_TRIPLET)}")
            yield tuple(sentence(value, name) for value, name in zip(fields, _TRIPLET, strict=True))


def text(spec: Spec, log: Log) -> Iterator[Row]:
    """Sentences of a file that has one on each line; blank lines are counted and left out."""
    for _, line in lines(spec.path, log):
        if line.strip():
            yield (line.strip(),)
        else:
            log.counts["blank"] += 1
