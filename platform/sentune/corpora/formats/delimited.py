"""CSV whose fields may hold line breaks."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from sentune.corpora.formats.reading import Log, lines


def records(path: str, log: Log) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV file, the header first, each with the last line that it covers.

    ``log`` counts records, not lines, and not the header. Blank lines between records are counted
    and left out; a record that is no CSV goes to quarantine.

    Raises:
        CorpusError: as ``reading.lines``.
    """
    position = taken = 0
    source = lines(path, log)

    def rows() -> Iterator[str]:
        nonlocal position, taken
        for line, content in source:
            position, taken = line, taken + 1
            yield content + "\n"

    reader = csv.reader(rows())
    log.counts["read"] -= 1
    while True:
        taken = 0
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            log.counts["read"] -= taken - 1
            log.quarantine(path, position, str(error))
        else:
            log.counts["read"] -= taken - 1
            if fields:
                yield position, fields
            else:
                log.counts["blank"] += 1
