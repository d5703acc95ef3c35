"""ParaNMT and Quora's duplicate questions, as reconstruction of one sentence from the other."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from sentune.corpora.formats.columns import ApartLog, columns
from sentune.corpora.formats.reading import BadFieldError, Log, Row, lines, sentence
from sentune.corpora.formats.spec import Spec
from sentune.errors import CorpusError

_QUORA = ("question1", "question2", "is_duplicate")


def paranmt(spec: Spec, log: Log) -> Iterator[Row]:
    """Reconstruction of ParaNMT (Wieting and Gimpel 2018): two sentences, tab, perhaps a score."""
    for line, (first, target, *_) in columns(spec.path, log, fewest=2, most=3):
        try:
            row = (
                "reconstruction",
                sentence(first, "sentence1"),
                None,
                sentence(target, "sentence2"),
            )
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
        else:
            yield row


def quora(spec: Spec, log: Log) -> Iterator[Row]:
    """Reconstruction of Quora's official TSV: question1 -> question2 where they are duplicates.

    The others are counted as ``no_duplicates``. Fields may be quoted and then hold line breaks;
    the line of a bad row is the last one that it covers.
    """
    source = _quoted(spec.path, log)
    line, header = next(source, (1, []))
    log.counts["read"] -= bool(header)
    if missing := [name for name in _QUORA if name not in header]:
        raise CorpusError(spec.path, f"the header lacks {', '.join(missing)}", line=line)
    for line, values in source:
        try:
            first, target, duplicate = _questions(header, values)
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
            continue
        if duplicate:
            yield "reconstruction", first, None, target
        else:
            log.counts["no_duplicates"] += 1


def _questions(header: list[str], values: list[str]) -> tuple[str, str, bool]:
    """Return the two questions, and whether they are duplicates."""
    if len(values) != len(header):
        raise BadFieldError(f"{len(values)} columns where the header has {len(header)}")
    fields = dict(zip(header, values, strict=True))
    first, second = (sentence(fields[name], name) for name in _QUORA[:2])
    if fields["is_duplicate"] not in ("0", "1"):
        raise BadFieldError(f"is_duplicate is {fields['is_duplicate']!r}, neither 0 nor 1")
    return first, second, fields["is_duplicate"] == "1"


def _quoted(path: str, log: Log) -> Iterator[tuple[int, list[str]]]:
    """Records with the last line that each covers."""
    position = 0

    def texts() -> Iterator[str]:
        nonlocal position
        for line, text in lines(path, ApartLog(log)):
            position = line
            yield text + "\n"

    try:
        for fields in csv.reader(texts(), delimiter="\t"):
            log.counts["read"] += 1
            yield position, fields
    except csv.Error as error:  # a quote that is never closed swallows the rows behind it
        raise CorpusError(path, f"the quotes are damaged: {error}", line=position) from error
