"""Ray nodes that tests start as processes of their own, and end."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def marked(mark: str) -> list[int]:
    """Processes whose environment carries the mark, this one left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # the process ended, or is another user's
            continue
    return [pid for pid in found if pid != os.getpid()]


def end(mark: str, seconds: float = 20.0) -> None:
    """Ends all processes that carry the mark: asks first, then insists."""
    deadline = time.monotonic() + seconds
    for sign, until in ((signal.SIGTERM, deadline), (signal.SIGKILL, deadline + seconds)):
        for pid in marked(mark):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                continue
        while marked(mark) and time.monotonic() < until:
            time.sleep(0.2)
