"""What readers share: the log that reads lines and rows and puts bad ones aside, and checks."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from sentune.corpora.formats.spec import Spec, parse_bad_rows
from sentune.corpora.schema import LABELS, BadRow, Kind
from sentune.credentials import without_credentials
from sentune.errors import CorpusError
from sentune.io.bounded_read import LINE_BYTES, bounded_lines
from sentune.io.object_store import files_at

Row = tuple[Any, ...]
"""One row, in the order of its kind's schema."""

Reader = Callable[[Spec, "Log"], Iterator[Row]]
Readers = Mapping[Kind, Reader]
"""The kinds that a corpus holds, and how to read them."""

_SURROGATES = re.compile("[\ud800-\udfff]")


class BadFieldError(ValueError):
    """A field that makes its row unusable; the message is the reason."""


class Log:
    """Reads lines and rows of JSON, TSV and CSV, counts them and puts aside what is unusable.

    ``counts`` has ``read`` (rows of the source), ``bad`` (quarantined) and whatever the format
    adds (``unlabelled``, ``blank``, ...). ``limit`` bad rows are allowed: ``N``, or ``P%`` of the
    rows of the source.
    """

    def __init__(self, limit: str) -> None:
        self.limit = limit
        self._most, self._share = parse_bad_rows(limit)
        self.counts: Counter[str] = Counter()
        self.bad: list[BadRow] = []

    def quarantine(self, path: str, line: int, reason: str) -> None:
        """Put a row aside; a ``CorpusError`` where there are more than allowed."""
        self.bad.append(BadRow(path=without_credentials(path), line=line, reason=reason))
        self.counts["bad"] += 1
        if len(self.bad) > self._most:
            count = f"this is bad row {len(self.bad):,} and {self.limit} are allowed"
            raise CorpusError(path, f"{reason}; {self._refusal(count)}", line=line)

    def check_share(self) -> None:
        """Raise a ``CorpusError`` where the share of bad rows, once all are read, is too large."""
        if len(self.bad) > self._share * self.counts["read"]:
            count = f"{len(self.bad):,} of {self.counts['read']:,} rows are bad"
            path = self.bad[0].path
            raise CorpusError(path, self._refusal(f"{count} and {self.limit} are allowed"))

    def _refusal(self, count: str) -> str:
        first = self.bad[0]
        return (
            f"{count} (the first: line {first.line}, {first.reason}); mend the file or allow more "
            "with --bad-rows (a job, sentune corpora) or bad_rows=N among the corpus's options"
        )

    def nothing_left(self, path: str, kind: Kind) -> CorpusError:
        """Return the error of a corpus without a usable row, with the first bad row's reason."""
        counts = {"read": 0, **self.counts}
        rest = (f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items() if name != "read")
        reason = f"no {kind.value} are left of {counts['read']:,} rows"
        reason += "".join(f", {counted}" for counted in rest)
        if self.bad:
            reason += f"; the first bad row: line {self.bad[0].line}, {self.bad[0].reason}"
        return CorpusError(path, reason)

    def checks(self, path: str, line: int) -> Checks:
        """Put the row aside where the block raises a ``BadFieldError``."""
        return Checks(self, path, line)

    def lines(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield numbered lines (from 1) of a UTF-8 file; others go to quarantine.

        Lines end at a newline only: SNLI has U+2028 and its like inside sentences.
        """
        for line, raw in raw_lines(path):
            self.counts["read"] += 1
            try:
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError as error:
                self.quarantine(path, line, f"no UTF-8 at byte {error.start}")
                continue
            yield line, text.rstrip("\r\n")

    def parallel(self, first: str, second: str, what: str) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield numbered lines that two files have both; a bad line takes its partner with it.

        The lines of the first file are counted; the second has one ``what`` for each.

        Raises:
            CorpusError: the files differ in their numbers of lines, once all are read.
        """
        before, other = self.counts["read"], ApartLog(self)
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
            reason = f"{sizes[1]} lines, but {first} has {sizes[0]}: one {what} a pair is needed"
            raise CorpusError(second, reason)

    def objects(self, path: str, *needed: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield numbered objects (from 1) of a ``.jsonl`` file that have the keys of ``needed``.

        Blank lines are counted and left out.
        """
        for line, text in self.lines(path):
            if not text.strip():
                self.counts["blank"] += 1
                continue
            with self.checks(path, line):
                fields = parsed(text)
                if not isinstance(fields, dict):
                    raise BadFieldError("no JSON object")
                for key in needed:
                    if key not in fields:
                        raise BadFieldError(f"the key {key} is missing")
                yield line, fields

    def columns(self, path: str, *, fewest: int, most: int) -> Iterator[tuple[int, list[str]]]:
        """Yield numbered rows of ``fewest`` to ``most`` columns, tabs between, quotes literal."""
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        for line, text in self.lines(path):
            fields = text.split("\t")
            if fewest <= len(fields) <= most:
                yield line, fields
            else:
                count = f"{len(fields)} column{'s' if len(fields) > 1 else ''}"
                self.quarantine(path, line, f"{count} where there should be {wanted}")

    def headed(
        self, path: str, *needed: str | tuple[str, ...], csv_of: str = ""
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield numbered rows below a header, by its names; see ``records``.

        Raises:
            CorpusError: the header lacks a name of ``needed``, of a tuple all names.
        """
        source = self.records(path, csv_of=csv_of)
        line, header = next(source, (1, [""]))
        self.counts["read"] -= 1
        choices = [(name,) if isinstance(name, str) else name for name in needed]
        if missing := [" or ".join(names) for names in choices if not set(names) & set(header)]:
            raise CorpusError(path, f"the header lacks {', '.join(missing)}", line=line)
        for line, values in source:
            with self.checks(path, line):
                if len(values) != len(header):
                    reason = f"{len(values)} columns where the header has {len(header)}"
                    raise BadFieldError(reason)
                yield line, dict(zip(header, values, strict=True))

    def records(self, path: str, *, csv_of: str = "") -> Iterator[tuple[int, list[str]]]:
        """Yield numbered rows, the header first, with tabs between and quotes literal.

        With ``csv_of``, a delimiter, the file is CSV: fields may be quoted and hold line breaks,
        and a row has the number of the last line that it covers. Blank lines between rows are
        counted and left out. A line that is no CSV goes to quarantine.

        Raises:
            CorpusError: a row of several lines is no CSV, or has more or fewer columns than the
                header: a quote that is not closed swallows the rows behind it.
        """
        if not csv_of:
            for line, text in self.lines(path):
                if text:
                    yield line, text.split("\t")
                else:
                    self.counts["blank"] += 1
            return
        first = last = width = 0

        def rows() -> Iterator[str]:
            nonlocal first, last
            for line, content in self.lines(path):
                first, last = first or line, line
                self.counts["read"] -= 1
                yield content + "\n"

        csv.field_size_limit(LINE_BYTES)  # of the process; by default 131,072 characters
        reader = csv.reader(rows(), delimiter=csv_of, strict=True)
        while True:
            first, fields, damage = 0, list[str](), ""
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                damage = str(error)
            self.counts["read"] += 1
            width = width or len(fields)
            if last > first and fields and len(fields) != width:
                damage = f"{len(fields)} columns where the header has {width}"
            if damage and last > first:
                reason = f"the row that begins here ends in line {last} ({damage})"
                raise CorpusError(path, f"the quotes are damaged: {reason}", line=first)
            if damage:
                self.quarantine(path, last, damage)
            elif fields:
                yield last, fields
            else:
                self.counts["blank"] += 1


class Checks:
    """The block of ``Log.checks``; a class, as a generator would cost a third of reading SNLI."""

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


class ApartLog(Log):
    """For a second file of the same rows, and rows of several lines: only its bad rows count."""

    def __init__(self, log: Log) -> None:
        super().__init__(log.limit)
        self._log = log

    def quarantine(self, path: str, line: int, reason: str) -> None:
        """Put a row aside in the other log."""
        self._log.quarantine(path, line, reason)


def raw_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines (from 1) of a file, undecoded, with their newlines.

    Raises:
        CorpusError: as ``sentune.io.bounded_read``, or the file is UTF-16.
    """
    for number, raw in enumerate(bounded_lines(path), start=1):
        if number == 1 and _is_utf_16(raw):
            fix = "convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"
            raise CorpusError(path, f"the file is UTF-16; {fix}", line=1)
        yield number, raw


def names_in(folder: str) -> set[str]:
    """Return the names of what a folder holds, local or fsspec.

    Raises:
        CorpusError: there is no such folder.
    """
    system, root = files_at(folder)
    if not system.isdir(root):
        raise CorpusError(folder, "there is no such folder")
    return {PurePosixPath(name).name for name in system.ls(root, detail=False)}


def _is_utf_16(start: bytes) -> bool:
    """Whether a file's beginning has the mark of UTF-16, or zeros in every other byte."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    even, odd = start[:8:2], start[1:8:2]
    return len(start) > 3 and any(even) != any(odd)


def parsed(text: str) -> Any:
    """Return what a JSON text holds; refuse what is no JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} of the record" if "\n" in text else f"column {error.colno}"
        raise BadFieldError(f"no JSON: {error.msg} at {place}") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 100,000 brackets
        raise BadFieldError(f"no usable JSON: {error}") from None


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
    """Return one of the three labels of inference; refuse anything else."""
    if isinstance(value, int):
        raise BadFieldError(f"label {value} has no name; give labels as texts")
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
