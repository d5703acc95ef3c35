"""Log a warning if a call of this process, such as a write or a request, takes too long."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sentune.credentials import without_credentials

logger = logging.getLogger(__name__)

SAID_AFTER = 30.0
"""Seconds of waiting after which a warning is logged."""

LOOK, MOST_TICK = 1.0, 5.0
"""Seconds between two checks, and the most that one check counts as: time in which the process or
the machine was suspended is no waiting."""


class Waits:
    """The calls that this process is waiting for, watched by a thread."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[str, str, float]] = {}
        self._said: dict[object, str] = {}
        self._awake = 0.0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def told(self) -> str:
        """The pending waits that a warning was logged for, separated by commas."""
        with self._changed:
            return ", ".join(sorted(set(self._said.values())))

    @contextmanager
    def until(self, what: str, fix: str = "") -> Iterator[None]:
        """Log "waiting for WHAT since 30 s: FIX" without credentials if the block takes so long.

        ``fix`` says what the user can do about it.
        """
        wait = object()
        with self._changed:
            self._open[wait] = what, fix, self._awake
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sentune-waits", daemon=True)
                self._thread.start()
            elif len(self._open) == 1:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                _, _, since = self._open.pop(wait)
                said, waited = self._said.pop(wait, ""), self._awake - since
                said = "" if said in self._said.values() else said
            if said:
                logger.warning("%s: answered after %.0f s", said, waited)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._open)
            before = time.monotonic()
            time.sleep(LOOK)
            self.tick(time.monotonic() - before)

    def tick(self, seconds: float) -> None:
        """Count the seconds since the last check and log the waits that take too long."""
        with self._changed:
            self._awake += min(seconds, MOST_TICK)
            late = {
                wait: (without_credentials(what), fix)
                for wait, (what, fix, since) in self._open.items()
                if wait not in self._said and self._awake - since >= SAID_AFTER
            }
            new = {one for one in late.values() if one[0] not in self._said.values()}
            self._said |= {wait: what for wait, (what, _) in late.items()}
        for what, fix in sorted(new):
            then = f": {fix}" if fix else ""
            logger.warning("waiting for %s since %.0f s%s", what, SAID_AFTER, then)


WAITS = Waits()
"""The waits of this process."""

os.register_at_fork(after_in_child=WAITS.__init__)  # type: ignore[misc]
