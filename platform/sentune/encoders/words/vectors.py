"""Text files of word vectors as blocks of words and numbers.

``glove:FILE`` is a word and its n numbers on each line, n as on the first line. A word may contain
spaces, as some of glove.840B do: the last n fields are the numbers. PSL and ParaNMT vectors come in
the same formats. ``fasttext:FILE`` (``.vec``, also word2vec's text format) has a first line
``count n`` before the same.

Legend: B = lines of a block that can be used, n = width of a vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from sentune.errors import CorpusError, InvalidValue
from sentune.io.bounded_read import bounded_lines

BLOCK = 1 << 24
"""Bytes read at once: 7,300 lines of glove.840B. Two threads parse the numbers of a block."""

FORMATS = ("glove", "fasttext")
Block = tuple[list[str], NDArray[np.float32]]

WIDEST = 65_536
"""Most numbers of a vector; a header could promise so many that their names fill the memory."""


@dataclass
class Quarantine:
    """Lines of a file that could not be used, as (line, reason), up to a limit.

    ``counts`` has ``read`` and ``bad`` lines, and what else a reader counts.
    """

    path: str
    limit: int
    counts: Counter[str] = field(default_factory=Counter)
    lines: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, reason: str) -> None:
        """Put a line aside; a ``CorpusError`` where there are more than allowed."""
        self.lines.append((line, reason))
        self.counts["bad"] += 1
        if len(self.lines) > self.limit:
            first, why = self.lines[0]
            message = (
                f"{reason}; this is bad line {len(self.lines)} and {self.limit} are allowed "
                f"(the first: line {first}, {why}); mend the file"
            )
            raise CorpusError(self.path, message, line=line)


def blocks(quarantine: Quarantine) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (number of the first line, lines) of each block; lines end at a newline only."""
    first, held, size = 1, list[bytes](), 0
    for line in bounded_lines(quarantine.path):
        held.append(line)
        size += len(line)
        quarantine.counts["read"] += 1
        if size >= BLOCK:
            yield first, held
            first, held, size = first + len(held), [], 0
    if held:
        yield first, held


@dataclass(frozen=True)
class VectorFile:
    """A file of word vectors as its user names it: ``glove:FILE`` or ``fasttext:FILE``."""

    spec: str
    format: str
    path: str

    @classmethod
    def parse(cls, spec: str) -> VectorFile:
        """Take a specification apart; an ``InvalidValue`` for another format, or no file."""
        name, _, path = spec.partition(":")
        if name not in FORMATS or not path:
            raise InvalidValue("--vectors", spec, "write glove:FILE or fasttext:FILE")
        return cls(spec, name, path)

    def read(self, quarantine: Quarantine) -> Iterator[Block]:
        """Yield blocks of words, [B] and [B, n]; duplicates are still there.

        Raises:
            CorpusError: the file cannot be read, its first line is no beginning, it has fewer
                lines than it says, or there are too many bad lines.
        """
        width, expected = 0, None
        for number, lines in blocks(quarantine):
            if number == 1:
                width, expected = self._first_line(lines[0])
                if width > WIDEST:
                    reason = f"vectors of {width:,} numbers; at most {WIDEST:,} are read"
                    raise CorpusError(self.path, reason, line=1)
                skipped = int(expected is not None)
                lines, number = lines[skipped:], number + skipped
                quarantine.counts["read"] -= skipped
            yield _parsed(lines, number, width, quarantine)
        found = quarantine.counts["read"]
        if not found:
            raise CorpusError(self.path, "the file has no word vectors")
        if expected is not None and found != expected:
            reason = f"the first line promises {expected} words, the file has {found}"
            raise CorpusError(self.path, reason)

    def _first_line(self, line: bytes) -> tuple[int, int | None]:
        """Return the width of the vectors, and how many there are where the file says so."""
        fields = line.split()
        header = len(fields) == 2 and all(part.isdigit() for part in fields)
        if self.format == "fasttext":
            if not header or int(fields[1]) < 1:
                reason = "the first line is not 'count width'; use glove:FILE if there is no header"
                raise CorpusError(self.path, reason, line=1)
            return int(fields[1]), int(fields[0])
        if header or len(fields) < 2:
            reason = "the first line is not a word and its numbers"
            fix = "; use fasttext:FILE for a file that begins with 'count width'" if header else ""
            raise CorpusError(self.path, reason + fix, line=1)
        return len(fields) - 1, None


def _parsed(lines: Sequence[bytes], number: int, width: int, quarantine: Quarantine) -> Block:
    """Return the lines with a word and ``width`` finite numbers; others go to quarantine."""
    found = []
    for place, line in enumerate(lines, start=number):
        parts = _split(line.rstrip(b" \r\n"), width)
        if isinstance(parts, str):
            quarantine.add(place, parts)
        else:
            found.append((place, *parts))
    values = _floats([numbers for _, _, numbers in found], width)
    if values is not None:
        return [word for _, word, _ in found], values
    words, rows = [], [np.zeros((0, width), dtype=np.float32)]
    for place, word, numbers in found:  # one by one, to say which is bad
        row = _floats([numbers], width)
        if row is None:
            quarantine.add(place, f"the vector of {word!r} has a field that is no finite number")
        else:
            words.append(word)
            rows.append(row)
    return words, np.concatenate(rows)


def _split(line: bytes, width: int) -> tuple[str, bytes] | str:
    """Return word and numbers of a line, or why there are none."""
    if line.count(b" ") == width:
        word, _, numbers = line.partition(b" ")
    else:
        word, *fields = line.rsplit(b" ", width)
        if len(fields) < width:
            return f"{len(fields)} fields after the word, {width} are needed"
        numbers = b" ".join(fields)
    try:
        return (word.decode(), numbers) if word else "there is no word"
    except UnicodeDecodeError as error:
        return f"no UTF-8 at byte {error.start}"


def _floats(numbers: Sequence[bytes], width: int) -> NDArray[np.float32] | None:
    """Return the [B, n] numbers of B lines; None where a field is no finite number.

    Arrow's reader takes 1.9 s for the 10 million numbers of 33,860 lines on one core (numpy:
    loadtxt 2.1 s, fromstring 2.8 s), uses all cores, and refuses what is no number.
    """
    names = [str(column) for column in range(width)]
    if not numbers:
        return np.zeros((0, width), dtype=np.float32)
    try:
        table = arrow_csv.read_csv(
            pa.py_buffer(b"\n".join(numbers)),
            read_options=arrow_csv.ReadOptions(column_names=names),
            parse_options=arrow_csv.ParseOptions(
                delimiter=" ", quote_char=False, ignore_empty_lines=False
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.float32()), null_values=[]
            ),
        )
    except pa.ArrowInvalid:
        return None
    values = np.stack([column.to_numpy() for column in table.columns], axis=1)
    return values if np.isfinite(values).all() else None
