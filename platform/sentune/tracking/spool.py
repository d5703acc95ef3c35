"""Tracking entries on their way to a server that may be slow, away or broken."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from sentune.credentials import without_credentials
from sentune.errors import SentuneError
from sentune.tracking.journal import Entry, Journal

log = logging.getLogger(__name__)

Deliver = Callable[[Sequence[Entry]], None]
"""Sends entries in order; what it is given again after an error must do no harm."""


class Refused(SentuneError):
    """Raised by a ``Deliver``: the server will never accept this, however often it is sent."""


class Spool:
    """Takes entries at once, keeps them on disk and sends them in order from one thread.

    ``put`` neither waits for the network nor raises: training does not depend on whoever watches
    it. Entries that could not be sent stay in the folder, and the next spool over the same folder
    sends them first. On a disk that takes no more, entries wait in memory: they are written when
    there is room, or sent from there when all before them has been sent.

    Args:
        folder: a folder of the study's own, on a local disk.
        deliver: sends entries; any exception means "again later", ``Refused`` means "never".
        destination: what a message calls the server; credentials are taken out.
        first_wait, longest_wait: seconds between tries, doubling from one to the other.
        most: entries given to ``deliver`` at a time; fewer after an error.
        gather: seconds that an entry waits for others, as one call for several costs less than
            a call each; not where ``flush`` or ``close`` waits for them.

    Raises:
        StudyConflict: another process has a spool in this folder.
    """

    def __init__(
        self,
        folder: Path,
        deliver: Deliver,
        *,
        destination: str = "the tracking server",
        first_wait: float = 0.5,
        longest_wait: float = 30.0,
        most: int = 500,
        gather: float = 0.0,
    ) -> None:
        self.folder = folder
        self._deliver, self._most, self._gather = deliver, most, gather
        self._destination = without_credentials(destination)
        self._first_wait, self._longest_wait = first_wait, longest_wait
        self._journal = Journal(folder)
        self._unwritten: deque[Entry] = deque()
        self._carried: list[Entry] = []  # from memory, on their way; nothing may overtake them
        self._changed = threading.Condition()
        self._hurry = self._closing = self._busy = self._full = False
        self._size = most
        self._trouble = ""
        self._reported: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="sentune-tracking", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Adds an entry; it survives the death of this process from here on."""
        with self._changed:
            if self._closing:
                self._report("closed", f"a tracking entry came after the end: {str(entry)[:200]}")
                return
            self._unwritten.append(entry)
            self._write()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Waits until all is sent, at most ``timeout`` seconds, trying at once where it failed.

        Returns:
            Whether all was sent.
        """
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting(), timeout)

    def close(self, timeout: float) -> bool:
        """Flushes, ends the thread and says what is left, where it lies and how it gets sent."""
        done = self.flush(timeout)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            idle = self._changed.wait_for(lambda: not self._busy, timeout=0 if not done else 5)
        if not done:
            log.warning(
                "not everything reached %s (%s); what is left waits in %s and is sent when the "
                "study is resumed (the same command)%s",
                self._destination,
                self._trouble or f"{timeout:g} s were not enough",
                self.folder,
                self._lost(),
            )
        if idle:  # a request that hangs ends with the process; what it carries is sent again
            self._thread.join()
        return done

    def _lost(self) -> str:
        """What only this process knows, at its end."""
        left = len(self._unwritten) + len(self._carried)
        return f"; {left} entries that the disk did not take are lost with this process" * (
            left > 0
        )

    def _waiting(self) -> bool:
        left = self._unwritten or self._carried
        return bool(left) or self._journal.sent < self._journal.end

    def _write(self) -> None:
        while self._unwritten and not self._carried:
            entry = self._unwritten[0]
            try:
                self._journal.append(entry)
            except OSError as error:  # the disk is full: entries wait in memory
                self._report("disk", f"{self.folder} cannot be written: {error}")
                return
            except (TypeError, ValueError, RecursionError) as error:
                self._report("entry", f"a tracking entry is no JSON ({error}): {str(entry)[:200]}")
            self._unwritten.popleft()

    def _work(self) -> None:
        wait = self._first_wait
        while self._next():
            if self._send():
                wait = self._first_wait
                continue
            with self._changed:
                self._changed.wait_for(lambda: self._hurry or self._closing, wait)
                wait = self._first_wait if self._hurry else min(2 * wait, self._longest_wait)
                self._hurry = False
        self._journal.close()

    def _next(self) -> bool:
        """Waits for something to send; False when the spool is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting() or self._closing)
            if not self._full:
                self._changed.wait_for(lambda: self._hurry or self._closing, self._gather)
            self._busy = not self._closing
            self._write()
            return self._busy

    def _send(self) -> bool:
        sent = False
        try:
            self._send_some()
            sent = True
        except Exception as error:  # noqa: BLE001  # a tracker may fail in any way, a study not
            self._trouble = _reason(error)
        with self._changed:
            self._busy = False
            self._hurry = self._hurry and bool(self._waiting())
            self._tell(sent)
            self._changed.notify_all()
        return sent

    def _send_some(self) -> None:
        self._on_disk(self._journal.sync)
        entries, mark = self._journal.unsent(self._size)
        if not entries:
            entries = self._take()
        self._full = len(entries) >= self._size
        try:
            if self._delivered(entries):
                self._carried = []
                self._on_disk(lambda: self._journal.mark(mark))
        finally:
            self._put_back()

    def _delivered(self, entries: list[Entry]) -> bool:
        """Sends; False where one of several is refused: fewer at a time find out which."""
        try:
            self._deliver(entries)
        except Refused as error:
            self._size = max(1, len(entries) // 4)
            if len(entries) > 1:
                return False
            self._refuse(entries[0], without_credentials(str(error)))
        except Exception:
            self._size = max(1, len(entries) // 4)  # so that a bad line gets something through
            raise
        else:
            self._size = min(2 * self._size, self._most)
        return True

    def _take(self) -> list[Entry]:
        """The first entries in memory, where everything on disk has been sent."""
        with self._changed:
            count = min(self._size, len(self._unwritten))
            self._carried = [self._unwritten.popleft() for _ in range(count)]
            return self._carried

    def _put_back(self) -> None:
        with self._changed:
            self._unwritten.extendleft(reversed(self._carried))
            self._carried = []

    def _on_disk(self, action: Callable[[], None]) -> None:
        """What a full disk may refuse without harm: all of it is in memory or can be sent again."""
        try:
            action()
        except OSError as error:
            self._report("disk", f"{self.folder} cannot be written: {error}")

    def _refuse(self, entry: Entry, reason: str) -> None:
        self._on_disk(lambda: self._journal.set_aside(entry, reason))
        kept = self.folder / "refused.jsonl"
        self._report(reason, f"{self._destination} refuses an entry: {reason} (it is in {kept})")

    def _tell(self, sent: bool) -> None:
        if sent and self._trouble:
            log.info("%s answers again", self._destination)
            self._trouble = ""
        elif not sent:
            self._report(
                "outage",
                f"{self._destination} cannot be reached ({self._trouble}); training goes on, "
                f"entries wait in {self.folder} and are sent when it answers",
            )

    def _report(self, kind: str, message: str) -> None:
        """Warns once of each kind of trouble."""
        if kind not in self._reported:
            self._reported.add(kind)
            log.warning("%s", message)


def _reason(error: BaseException) -> str:
    """What went wrong, shortly: under an HTTP client's long tale lies an operating system's."""
    root = error
    while root.__cause__ or root.__context__:
        root = root.__cause__ or root.__context__  # type: ignore[assignment]
    told = root if isinstance(root, OSError) else error
    text: str = without_credentials(f"{type(told).__name__}: {told}")
    return text if len(text) <= 500 else f"{text[:500]} ..."
