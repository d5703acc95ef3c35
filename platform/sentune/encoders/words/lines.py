"""Lines of a word file, plain or compressed, in blocks of bounded size; bad ones put aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sentune.errors import CorpusError
from sentune.io.bounded_read import bounded_lines

BLOCK = 1 << 24
"""Bytes read at once: 7,300 lines of glove.840B. Two threads parse the numbers of a block."""


@dataclass
class Quarantine:
    """Lines that could not be used, as (line, reason), up to a limit.

    Attributes:
        path: the file.
        limit: bad lines that are allowed.
        counts: ``read`` and ``bad`` lines, and what else a reader counts.
    """

    path: str
    limit: int
    counts: Counter[str] = field(default_factory=Counter)
    lines: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, reason: str) -> None:
        """Put a line aside.

        Raises:
            CorpusError: there are more than allowed.
        """
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
    """Yield (number of the first line, lines) of each block; lines end at a newline only.

    Raises:
        CorpusError: as ``sentune.io.bounded_read``.
    """
    number = 1
    for lines in _grouped(bounded_lines(quarantine.path)):
        quarantine.counts["read"] += len(lines)
        yield number, lines
        number += len(lines)


def _grouped(source: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines in lists of about ``BLOCK`` bytes."""
    held, size = list[bytes](), 0
    for line in source:
        held.append(line)
        size += len(line)
        if size >= BLOCK:
            yield held
            held, size = [], 0
    if held:
        yield held
