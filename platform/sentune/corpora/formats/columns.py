"""Tab-separated files in which quotes are literal, and logs that count apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sentune.corpora.formats.reading import Log, lines
from sentune.errors import CorpusError


class ApartLog(Log):
    """Counts what it reads apart, and puts bad rows aside in another log.

    For a second file of the same rows, and for rows of several lines.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(log.limit)
        self._log = log

    def quarantine(self, path: str, line: int, reason: str) -> None:
        """As the other log does it."""
        self._log.quarantine(path, line, reason)


def columns(path: str, log: Log, *, fewest: int, most: int) -> Iterator[tuple[int, list[str]]]:
    """Numbered rows of ``fewest`` to ``most`` columns; any other goes to quarantine.

    Raises:
        CorpusError: as ``reading.lines``.
    """
    wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
    for line, text in lines(path, log):
        fields = text.split("\t")
        if fewest <= len(fields) <= most:
            yield line, fields
        else:
            count = f"{len(fields)} column{'s' if len(fields) > 1 else ''}"
            log.quarantine(path, line, f"{count} where there should be {wanted}")


def headed(path: str, log: Log, *needed: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Numbered rows of a file with a header, by its names.

    Rows with more or fewer columns than the header go to quarantine.

    Raises:
        CorpusError: the header lacks a name of ``needed``, or as ``reading.lines``.
    """
    source = lines(path, log)
    line, text = next(source, (1, ""))
    header = text.split("\t")
    log.counts["read"] -= 1  # the header is no row
    if missing := [name for name in needed if name not in header]:
        raise CorpusError(path, f"the header lacks {', '.join(missing)}", line=line)
    yield from named(source, header, path, log)


def named(
    source: Iterable[tuple[int, str]], header: list[str], path: str, log: Log
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows below a header, by its names; one of another width goes to quarantine."""
    for line, text in source:
        values = text.split("\t")
        if len(values) == len(header):
            yield line, dict(zip(header, values, strict=True))
        else:
            reason = f"{len(values)} columns where the header has {len(header)}"
            log.quarantine(path, line, reason)
