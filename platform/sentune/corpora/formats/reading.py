"""What every reader shares: numbered lines, checks of fields, and the log of bad rows."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from sentune.corpora.formats.raw import raw_lines
from sentune.corpora.schema import LABELS, BadRow
from sentune.credentials import without_credentials
from sentune.errors import CorpusError

Row = tuple[Any, ...]
"""One row, in the order of its kind's schema."""


_SURROGATES = re.compile("[\ud800-\udfff]")


class BadFieldError(ValueError):
    """A field that makes its row unusable; the message is the reason."""


class Log:
    """Counts what was read and keeps the rows that could not be used.

    ``counts`` has ``read`` (rows of the source), ``bad`` (quarantined) and whatever the format
    adds (``unlabelled``, ``blank``, ...).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.counts: Counter[str] = Counter()
        self.bad: list[BadRow] = []

    def quarantine(self, path: str, line: int, reason: str) -> None:
        """Put a row aside.

        Raises:
            CorpusError: when there are more bad rows than allowed.
        """
        self.bad.append(BadRow(path=without_credentials(path), line=line, reason=reason))
        self.counts["bad"] += 1
        if len(self.bad) > self.limit:
            first = self.bad[0]
            message = (
                f"{reason}; this is bad row {len(self.bad)} and {self.limit} are allowed "
                f"(the first: line {first.line}, {first.reason}); "
                "mend the file or allow more with --bad-rows"
            )
            raise CorpusError(path, message, line=line)


def lines(path: str, log: Log) -> Iterator[tuple[int, str]]:
    """Numbered lines (from 1) of a UTF-8 file, local or fsspec, plain or compressed (``.gz``).

    Lines end at a newline only (SNLI has U+2028 and its like inside sentences). A line that is
    no UTF-8 goes to quarantine.

    Raises:
        CorpusError: as ``raw.raw_lines``.
    """
    for line, raw in raw_lines(path):
        log.counts["read"] += 1
        try:
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            log.quarantine(path, line, f"no UTF-8 at byte {error.start}")
            continue
        yield line, text.rstrip("\r\n")


def sentence(value: object, name: str) -> str:
    """Return a sentence without white space around it; refuse what is no text or empty."""
    if not isinstance(value, str):
        raise BadFieldError(f"{name} is no text" if value is not None else f"{name} is missing")
    text = value.strip()
    if not text:
        raise BadFieldError(f"{name} is empty")
    if not text.isascii() and _SURROGATES.search(text):  # JSON may escape half a sign
        raise BadFieldError(f"{name} has half of a surrogate pair")
    return text


def check_label(value: object) -> str:
    """One of the three labels of inference; refuses anything else."""
    if value not in LABELS:
        raise BadFieldError(f"unknown label {value!r}")
    return str(value)


def number(value: object, name: str) -> float:
    """Return a finite number; refuse anything else."""
    try:
        result = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise BadFieldError(f"{name} is no number: {value!r}") from None
    if not math.isfinite(result):
        raise BadFieldError(f"{name} is not finite: {value!r}")
    return result
