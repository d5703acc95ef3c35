"""Shared by all readers: reading of lines and rows, quarantine of bad rows, checks of fields."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sentune.corpora.formats.spec import Spec, parse_bad_rows
from sentune.corpora.schema import LABELS, BadRow, Kind
from sentune.credentials import without_credentials
from sentune.errors import CorpusError
from sentune.io import object_store
from sentune.io.bounded_read import LINE_BYTES, bounded_lines

Row = tuple[Any, ...]
"""One row, with its fields in the order of the kind's schema."""

Reader = Callable[[Spec, "Log"], Iterator[Row]]
Readers = Mapping[Kind, Reader]
"""Kind that a corpus can be read as -> its reader."""

_TO_UTF_8 = "convert it: iconv -f {} -t UTF-8 FILE > NEW"

_SURROGATES = re.compile("[\ud800-\udfff]")


class BadFieldError(ValueError):
    """A field is invalid, so that its row cannot be used; the message is the reason."""


class Log:
    """Reads lines and rows of JSON, TSV and CSV, counts them and quarantines bad ones.

    Args:
        limit: maximum number (``N``) or share of the rows (``P%``) that may be bad.
        owner: log in which the bad rows are recorded instead; None: this one.

    Attributes:
        counts: ``read`` (rows of the source), ``bad`` (quarantined) and the format's own counts
            (``unlabelled``, ``blank``, ...).
        bad: the quarantined rows.
        left_out: number of the rows read that are not checked, and no part of the share.
    """

    def __init__(self, limit: str, owner: Log | None = None) -> None:
        self.limit, self._owner, self.left_out = limit, owner, 0
        self._most, self._share = parse_bad_rows(limit)
        self.counts: Counter[str] = Counter()
        self.bad: list[BadRow] = []

    def quarantine(self, path: str, line: int, reason: str) -> None:
        """Record a bad row; raise a ``CorpusError`` if there are more than allowed."""
        if self._owner is not None:
            self._owner.quarantine(path, line, reason)
            return
        self.bad.append(BadRow(path=without_credentials(path), line=line, reason=reason))
        self.counts["bad"] += 1
        if len(self.bad) > self._most:
            count = f"this is bad row {len(self.bad):,} and {self.limit} are allowed"
            raise CorpusError(path, f"{reason}; {self._refusal(count)}", line=line)

    def apart(self) -> Log:
        """Return a log for a second file of the same rows, or rows of several lines.

        Its bad rows are recorded in this log; its counts are its own.
        """
        return Log(self.limit, owner=self)

    def check_share(self) -> None:
        """Raise a ``CorpusError`` if too large a share of all rows was bad; call it at the end."""
        rows = self.counts["read"] - self.left_out
        if len(self.bad) > self._share * rows:
            count = f"{len(self.bad):,} of {rows:,} rows are bad"
            path = self.bad[0].path
            raise CorpusError(path, self._refusal(f"{count} and {self.limit} are allowed"))

    def _refusal(self, count: str) -> str:
        first = self.bad[0]
        fix = "fix the file"
        if "invalid UTF-8" in first.reason:
            fix = f"if the file is Latin-1, {_TO_UTF_8.format('LATIN1')}"
        return (
            f"{count} (the first: line {first.line}, {first.reason}); {fix}, or allow more "
            "with --bad-rows (a job, sentune corpora) or bad_rows=N among the corpus's options"
        )

    def nothing_left(self, path: str, kind: Kind) -> CorpusError:
        """Return the error for a corpus without a usable row, with counts and the first reason."""
        reason = f"no {kind.value} are left of {self.counts['read']:,} rows"
        for name, count in self.counts.items():
            reason += "" if name == "read" else f", {count:,} {name.replace('_', ' ')}"
        if self.bad:
            reason += f"; the first bad row: line {self.bad[0].line}, {self.bad[0].reason}"
        return CorpusError(path, reason)

    def checks(self, path: str, line: int) -> Checks:
        """Quarantine the row if the block raises a ``BadFieldError``."""
        return Checks(self, path, line)

    def lines(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the lines of a UTF-8 file with their numbers, from 1; quarantine invalid ones.

        Lines end at a newline only, because SNLI has U+2028 and similar characters in sentences.
        """
        for line, raw in raw_lines(path):
            self.counts["read"] += 1
            try:
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError as error:
                self.quarantine(path, line, f"invalid UTF-8 at byte {error.start}")
                continue
            yield line, text.rstrip("\r\n")

    def parallel(self, first: str, second: str, what: str) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield pairs of lines of two parallel files; if one line is bad, the pair is left out.

        Only the lines of ``first`` are counted. ``what`` describes a line of ``second``.

        Raises:
            CorpusError: the files have different numbers of lines (after all are read).
        """
        before, other = self.counts["read"], self.apart()
        partners = other.lines(second)
        place, partner = 0.0, ""
        for line, text in self.lines(first):
            while place < line:
                place, partner = next(partners, (math.inf, ""))
            if place == line:
                yield line, (text, partner)
        for _ in partners:
            pass
        sizes = self.counts["read"] - before, other.counts["read"]
        if sizes[0] != sizes[1]:
            reason = f"{sizes[1]} lines, but {first} has {sizes[0]}; each needs one {what}"
            raise CorpusError(second, reason)

    def objects(self, path: str, *needed: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (line, object) of a ``.jsonl`` file for objects that have all keys in ``needed``.

        Blank lines are counted and left out.
        """
        for line, text in self.lines(path):
            if not text.strip():
                self.counts["blank"] += 1
                continue
            with self.checks(path, line):
                fields = parsed(text)
                if not isinstance(fields, dict):
                    raise BadFieldError("not a JSON object")
                for key in needed:
                    if key not in fields:
                        raise BadFieldError(f"the key {key} is missing")
                yield line, fields

    def columns(self, path: str, *, fewest: int, most: int) -> Iterator[tuple[int, list[str]]]:
        """Yield numbered rows of ``fewest`` to ``most`` tab-separated columns, quotes literal."""
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        for line, text in self.lines(path):
            fields = text.split("\t")
            if fewest <= len(fields) <= most:
                yield line, fields
            else:
                count = f"{len(fields)} column{'s' if len(fields) > 1 else ''}"
                self.quarantine(path, line, f"{count} instead of {wanted}")

    def headed(
        self, path: str, *needed: str | tuple[str, ...], csv_of: str = ""
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield numbered rows below a header as dicts; see ``records``.

        Raises:
            CorpusError: the header lacks a column in ``needed``, of which a tuple is alternatives.
        """
        source = self.records(path, csv_of=csv_of)
        line, header = next(source, (1, [""]))
        self.counts["read"] -= 1
        choices = [(name,) if isinstance(name, str) else name for name in needed]
        if missing := [" or ".join(names) for names in choices if not set(names) & set(header)]:
            found = ", ".join(header)[:200] or "empty"
            reason = f"the header lacks {', '.join(missing)}; it is {found}"
            raise CorpusError(path, reason, line=line)
        for line, values in source:
            with self.checks(path, line):
                if len(values) != len(header):
                    reason = f"{len(values)} columns, but the header has {len(header)}"
                    raise BadFieldError(reason)
                yield line, dict(zip(header, values, strict=True))

    def records(self, path: str, *, csv_of: str = "") -> Iterator[tuple[int, list[str]]]:
        """Yield numbered rows of tab-separated columns, the header first; quotes are literal.

        With ``csv_of``, a delimiter, the file is CSV. Fields may then be quoted and contain line
        breaks, and a row has the number of its last line. Blank lines between rows are counted and
        left out. Invalid CSV of one line is quarantined.

        Raises:
            CorpusError: a row of several lines is invalid or has another number of columns than
                the header, probably because an unclosed quote has swallowed further rows.
        """
        if not csv_of:
            for line, text in self.lines(path):
                if text:
                    yield line, text.split("\t")
                else:
                    self.counts["blank"] += 1
            return
        width, lines = 0, list[int]()  # the numbers of a row's lines

        def rows() -> Iterator[str]:
            for line, content in self.lines(path):
                lines.append(line)
                self.counts["read"] -= 1
                yield content + "\n"

        csv.field_size_limit(LINE_BYTES)  # for the whole process; the default is 131,072
        reader = csv.reader(rows(), delimiter=csv_of, strict=True)
        while True:
            lines.clear()
            fields, damage = list[str](), ""
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                damage = str(error)
            self.counts["read"] += 1
            width = width or len(fields)
            if len(lines) > 1 and fields and len(fields) != width:
                damage = f"{len(fields)} columns, but the header has {width}"
            if damage and len(lines) > 1:
                reason = f"the row that begins here ends in line {lines[-1]} ({damage})"
                fix = "close the quote that is left open"
                raise CorpusError(path, f"the quotes are damaged: {reason}; {fix}", line=lines[0])
            if damage:
                self.quarantine(path, lines[-1], damage)
            elif fields:
                yield lines[-1], fields
            else:
                self.counts["blank"] += 1


class Checks:
    """Context manager of ``Log.checks``; a generator would add a third to the time of SNLI."""

    __slots__ = ("_line", "_log", "_path")

    def __init__(self, log: Log, path: str, line: int) -> None:
        self._log, self._path, self._line = log, path, line

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if not isinstance(error, BadFieldError):
            return False
        self._log.quarantine(self._path, self._line, str(error))
        return True


def raw_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the undecoded lines of a file with their numbers, from 1.

    Raises:
        CorpusError: as in ``sentune.io.bounded_read.bounded_lines``, or the file is UTF-16.
    """
    for number, raw in enumerate(bounded_lines(path), start=1):
        if number == 1 and _is_utf_16(raw):
            raise CorpusError(path, f"the file is UTF-16; {_TO_UTF_8.format('UTF-16')}", line=1)
        yield number, raw


def names_in(folder: str) -> set[str]:
    """Return the names of a folder's files and subfolders.

    Raises:
        CorpusError: there is no such folder.
    """
    system, root = object_store.files_at(folder)
    if not system.isdir(root):
        raise CorpusError(folder, "there is no such folder; check the path")
    return set(object_store.names_in(system, root))


def _is_utf_16(start: bytes) -> bool:
    """Return whether a file's first bytes have UTF-16's mark, or zeros in every other byte."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    even, odd = start[:8:2], start[1:8:2]
    return len(start) > 3 and any(even) != any(odd)


def parsed(text: str) -> Any:
    """Parse JSON; raise ``BadFieldError`` if it is invalid."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} of the record" if "\n" in text else f"column {error.colno}"
        raise BadFieldError(f"not valid JSON: {error.msg} at {place}") from None
    except (ValueError, RecursionError) as error:  # huge numbers, deep nesting
        raise BadFieldError(f"unusable JSON: {error}") from None


def sentence(value: object, name: str) -> str:
    """Return a sentence, stripped; raise ``BadFieldError`` if it is no string or empty."""
    if not isinstance(value, str):
        raise BadFieldError(f"{name} is {'missing' if value is None else 'not a string'}")
    text = value.strip()
    if not text:
        raise BadFieldError(f"{name} is empty")
    if not text.isascii() and _SURROGATES.search(text):  # JSON can contain a lone one
        raise BadFieldError(f"{name} has half of a surrogate pair")
    return text


def check_label(value: object) -> str:
    """Return an inference label in lower case; raise ``BadFieldError`` for any other value."""
    if value is None:
        raise BadFieldError("label is missing")
    if isinstance(value, int | float):
        raise BadFieldError(f"label {value} has no name; give labels as texts")
    if (label := str(value).lower()) not in LABELS:
        raise BadFieldError(f"unknown label {value!r}")
    return label


def number(value: object, name: str) -> float:
    """Return a finite number; raise ``BadFieldError`` for any other value."""
    try:
        result = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise BadFieldError(f"{name} is not a number: {value!r}") from None
    if not math.isfinite(result):
        raise BadFieldError(f"{name} is not finite: {value!r}")
    return result
