"""The formats ``text``, with one sentence per line, and ``books``, split into sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import sentencex

from sentune.corpora.formats import select
from sentune.corpora.formats.reading import Log, Row, raw_lines
from sentune.corpora.formats.spec import Spec
from sentune.errors import CorpusError
from sentune.io.object_store import files_at

OPTIONS = {
    "language": "ISO 639 code of the language, whose abbreviations end no sentence; default en",
    "encoding": "utf-8 or latin-1; default utf-8",
    "min_words": "shorter sentences are left out; default 1",
    "max_words": "longer sentences are left out; default: none",
}

_ENDS = (".txt", ".txt.gz")

_MOST = 1 << 16
"""Characters of a paragraph that are segmented together; a longer one is cut behind a sentence.
The longest paragraph in 16 books from Project Gutenberg has 50,078 characters (Paradise Lost). A
limit of 4,000 gives 0.7 % more sentences in them, because a quotation that a cut leaves open is
split into sentences and a whole one is not."""


class _Options(NamedTuple):
    language: str
    encoding: str
    shortest: int
    longest: float


def one_a_line(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield the sentences of a file with one per line; blank lines are counted and left out."""
    for _, line in log.lines(spec.path):
        if line.strip():
            yield (line.strip(),)
        else:
            log.counts["blank"] += 1


def adjacent(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield each sentence with the one that follows it in the same file.

    The path is a file, or a folder whose ``.txt`` and ``.txt.gz`` files are read recursively in
    alphabetical order, except hidden ones. Paragraphs end at blank lines, and line breaks within
    them are spaces. Pairs cross the ends of paragraphs. Headings are kept.

    The log counts lines as ``read``. It also counts what is left out: ``short`` and ``long``
    sentences, and ``damaged`` paragraphs, which have a line that cannot be decoded. No pair
    crosses such a gap. ``cut`` counts 65,536 characters without an end of a sentence, which are
    taken as one sentence.
    """
    for path in _files(spec):
        for before, sentence in pairwise(_sentences(path, _options(spec), log)):
            if before is not None and sentence is not None:
                yield before, sentence


def sentences(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield the distinct sentences in order of first appearance; see ``adjacent``."""
    found = (
        (sentence,)
        for path in _files(spec)
        for sentence in _sentences(path, _options(spec), log)
        if sentence is not None
    )
    return select.sentences(found, (0,))


def _options(spec: Spec) -> _Options:
    language = spec.options.get("language", "en")
    if not re.fullmatch("[a-z]{2,3}", language):
        raise spec.refused("language", "use an ISO 639 code, such as en")
    shortest = spec.integer("min_words", 1, minimum=1)
    limited = "max_words" in spec.options
    longest = spec.integer("max_words", 1, minimum=shortest) if limited else float("inf")
    encoding = spec.choice("encoding", "utf-8", ("utf-8", "latin-1"))
    return _Options(language, encoding, shortest, longest)


def _files(spec: Spec) -> list[str]:
    system, root = files_at(spec.path)
    if not system.isdir(root):
        return [spec.path]
    names = sorted(
        name
        for name in system.find(root)
        if name.endswith(_ENDS) and "/." not in name.removeprefix(root)
    )
    if not names:
        raise CorpusError(spec.path, f"no file in the folder ends with {' or '.join(_ENDS)}")
    return [spec.path.rstrip("/") + name.removeprefix(root.rstrip("/")) for name in names]


def _sentences(path: str, options: _Options, log: Log) -> Iterator[str | None]:
    """Yield the sentences of a file, and None for each gap."""
    for sentence in _split(path, options, log):
        words = len(sentence.split()) if sentence is not None else 0
        reason = "short" if words < options.shortest else "long" if words > options.longest else ""
        if sentence is None:
            reason = "damaged"
        if reason:
            log.counts[reason] += 1
        yield None if reason else sentence


def _split(path: str, options: _Options, log: Log) -> Iterator[str | None]:
    """Yield all sentences of a file, and None for a damaged paragraph."""
    held, damaged = "", False
    for line in _lines(path, options, log):
        if line is None:
            held, damaged = "", True
        elif not line:
            yield from [None] if damaged else _segments(held, options)
            held, damaged = "", False
        elif not damaged:
            held = f"{held} {line}" if held else line
            if len(held) > _MOST:
                *whole, held = _segments(held, options)
                yield from whole
                if not whole:
                    log.counts["cut"] += 1
                    yield held
                    held = ""
    yield from [None] if damaged else _segments(held, options)


def _segments(text: str, options: _Options) -> list[str]:
    parts = (part.strip() for part in sentencex.segment(options.language, text))
    return [part for part in parts if part]


def _lines(path: str, options: _Options, log: Log) -> Iterator[str | None]:
    """Yield lines with their white space normalised, and None for one that cannot be decoded."""
    for number, raw in raw_lines(path):
        log.counts["read"] += 1
        content = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        try:
            yield " ".join(content.decode(options.encoding).split())
        except UnicodeDecodeError as error:
            fix = "if the file is Latin-1, add encoding=latin-1"
            log.quarantine(path, number, f"invalid UTF-8 at byte {error.start}; {fix}")
            yield None
