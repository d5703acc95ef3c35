"""SentEval's tasks of single sentences: MR, CR, SUBJ, MPQA, SST2 and TREC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sentune.corpora.formats.raw import raw_lines
from sentune.corpora.formats.reading import BadFieldError, Log, Row, lines, sentence

_SENTIMENTS = {"0": "negative", "1": "positive"}
_QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


def labelled(files: Mapping[str, str], log: Log) -> Iterator[Row]:
    """A file for each label, one sentence a line in Latin-1; there are no splits.

    Blank lines are counted and left out (CR has 4 of 3,775; SentEval encodes them as a full stop
    or an empty sentence, as the model's code sees fit).
    """
    for label, path in files.items():
        for _, text in _latin(path, log):
            if text.strip():
                yield text.strip(), None, label, None
            else:
                log.counts["blank"] += 1


def sentiment(files: Mapping[str, str], log: Log) -> Iterator[Row]:
    """SST2: ``sentence TAB label`` in SentEval's ``sentiment-SPLIT``, ``label sentence`` in
    ``stsa.binary.SPLIT``; labels are 0 and 1."""
    for split, path in files.items():
        for line, text in lines(path, log):
            first, tab, last = text.rpartition("\t")
            mark, _, words = (last, tab, first) if tab else text.partition(" ")
            try:
                if mark.strip() not in _SENTIMENTS:
                    raise BadFieldError(f"the label is {mark!r}, not 0 or 1")
                row = sentence(words, "text"), None, _SENTIMENTS[mark.strip()], split
            except BadFieldError as error:
                log.quarantine(path, line, str(error))
            else:
                yield row


def questions(files: Mapping[str, str], log: Log) -> Iterator[Row]:
    """TREC: ``COARSE:fine question`` in Latin-1; the coarse one is the label."""
    for split, path in files.items():
        for line, text in _latin(path, log):
            coarse, _, rest = text.strip().partition(":")
            try:
                if coarse not in _QUESTIONS:
                    raise BadFieldError(f"the label is {coarse!r}, not of {', '.join(_QUESTIONS)}")
                row = sentence(rest.partition(" ")[2], "text"), None, coarse, split
            except BadFieldError as error:
                log.quarantine(path, line, str(error))
            else:
                yield row


def _latin(path: str, log: Log) -> Iterator[tuple[int, str]]:
    """Numbered lines (from 1) of a Latin-1 file, as ``reading.lines`` gives those of UTF-8.

    SentEval reads these files so. ``latin_1`` counts the lines with a byte beyond ASCII, and
    ``latin_1_like_utf_8`` those of them that would be UTF-8 too: a file that was converted is
    misread, and shows here. Lines end at a newline only: in Latin-1, the byte 85 (an ellipsis in
    MR and SUBJ) is a line end to Python.

    Raises:
        CorpusError: as ``raw.raw_lines``.
    """
    for line, raw in raw_lines(path):
        log.counts["read"] += 1
        if not raw.isascii():
            log.counts["latin_1"] += 1
            log.counts["latin_1_like_utf_8"] += _is_utf8(raw)
        yield line, raw.decode("latin-1").rstrip("\r\n")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
