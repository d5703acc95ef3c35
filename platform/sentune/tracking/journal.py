"""A queue of JSON entries on disk, with a mark up to which they have been sent."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentune.errors import StudyConflict

Entry = dict[str, Any]


class Journal:
    """``entries.jsonl`` and ``sent.json`` in a folder of their own.

    A line that was appended survives the death of the process, one that was synced survives that
    of the machine. A line torn by a kill is cut off when the journal is opened again.

    Raises:
        StudyConflict: another process has this journal open.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._lock = _exclusive(folder)
        self._file = (folder / "entries.jsonl").open("a+b")
        self._mark = folder / "sent.json"
        self.end = self._cut_torn_line()
        self.sent = self._read_mark()
        if self.sent == self.end > 0:
            self._start_over()

    def append(self, entry: Entry) -> None:
        """Adds an entry at the end; on an OSError the journal is as it was before."""
        line = json.dumps(entry, ensure_ascii=False, default=str).encode() + b"\n"
        try:
            written = os.write(self._file.fileno(), line)
            if written != len(line):
                raise OSError(f"only {written} of {len(line)} bytes were written")
        except OSError:
            os.ftruncate(self._file.fileno(), self.end)
            raise
        self.end += len(line)

    def sync(self) -> None:
        """Entries appended so far survive a power cut from here on."""
        os.fsync(self._file.fileno())

    def unsent(self, most: int) -> tuple[list[Entry], int]:
        """At most ``most`` entries that are not marked as sent, and the mark that ends them."""
        with (self.folder / "entries.jsonl").open("rb") as file:
            file.seek(self.sent)
            lines = [line for _, line in zip(range(most), _whole_lines(file), strict=False)]
        return [json.loads(line) for line in lines], self.sent + sum(map(len, lines))

    def mark(self, offset: int) -> None:
        """Everything before ``offset`` has been sent; on disk that holds at once or not at all.

        In this process it holds even where the disk is full: sending goes on, and only the next
        process would send again, which does no harm.
        """
        self.sent = offset
        partial = self._mark.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump({"offset": offset}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._mark)

    def set_aside(self, entry: Entry, reason: str) -> None:
        """Keeps an entry that will never be accepted, with the reason, in ``refused.jsonl``."""
        with (self.folder / "refused.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"reason": reason, "entry": entry}, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Another process may open the journal from here on."""
        self._file.close()
        os.close(self._lock)

    def _cut_torn_line(self) -> int:
        self._file.seek(0)
        end = sum(map(len, _whole_lines(self._file)))
        self._file.truncate(end)
        return end

    def _read_mark(self) -> int:
        if not self._mark.exists():
            return 0
        offset = int(json.loads(self._mark.read_text(encoding="utf-8"))["offset"])
        return offset if offset <= self.end else 0  # the entries were emptied, the mark not yet

    def _start_over(self) -> None:
        """All was sent: emptied first, since a mark beyond the end is understood when opened."""
        self._file.truncate(0)
        self.end = 0
        self.mark(0)


def _whole_lines(file: Any) -> Iterator[bytes]:
    return (line for line in file if line.endswith(b"\n"))


def _exclusive(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise StudyConflict(
            f"{folder} is in use by another process; a study runs once at a time: wait for that "
            "one, end it, or give this one another --study"
        ) from error
    return lock
