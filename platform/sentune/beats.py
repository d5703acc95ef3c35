"""What this process is doing on a trial: one record, replaced with every step.

Whatever takes long calls ``beat``; a launcher sends the newest record to the driver, which shows it
and takes a trial that gives none for a lost one. A beat costs a few microseconds and sends nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

Phase = Literal["loading", "tokenising", "training", "validating", "decoding", "saving"]

SECONDS = 2.0
"""Between the beats of a block that cannot give them itself."""


@dataclass(frozen=True, kw_only=True)
class Beat:
    """A sign of a trial's first worker.

    Attributes:
        loss: of the newest step; None before the first one.
        rate: examples a second in training since the last validation; 0 before the first step.
        done, total: units of the phase (steps, chunks of sentences, tasks); 0: not known.
        number: of this beat; it grows with every sign of life of the process.
        node, pid: IP address of the worker's machine, and its process there.
        waits: what the process has been waiting for during a while; empty if for nothing.
    """

    phase: Phase = "loading"
    examples: int = 0
    loss: float | None = None
    rate: float = 0.0
    done: int = 0
    total: int = 0
    number: int = 0
    node: str = ""
    pid: int = 0
    waits: str = ""

    def __str__(self) -> str:
        part = f", {self.done:,} of {self.total:,}" if self.total else ""
        return f"{self.phase} at {self.examples:,} examples{part}"


_newest = Beat()


def beat(
    phase: Phase | None = None,
    *,
    examples: int | None = None,
    loss: float | None = None,
    rate: float | None = None,
    done: int = 0,
    total: int = 0,
) -> None:
    """Replace this process's beat: what is left out stays, within a phase the position too."""
    global _newest  # one trial at a time runs in a process, whichever its threads
    given = {"phase": phase, "examples": examples, "loss": loss, "rate": rate}
    changes: dict[str, Any] = {name: new for name, new in given.items() if new is not None}
    if phase is not None or total:
        changes |= {"done": done, "total": total}
    _newest = replace(_newest, number=_newest.number + 1, **changes)


@contextmanager
def beating(phase: Phase) -> Iterator[None]:
    """Give beats while the block runs in a library that cannot, such as a decomposition.

    They stop with the process, but not where the library itself never returns.
    """
    beat(phase)
    with repeated(lambda: beat(phase), SECONDS, "sentune-beats"):
        yield


@contextmanager
def repeated(action: Callable[[], object], seconds: float, name: str) -> Iterator[None]:
    """Call an action every so many seconds, in a thread of that name, while the block runs."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            action()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def begin(node: str = "", pid: int = 0) -> None:
    """Begin another trial in this process: it loads, and has seen nothing."""
    global _newest
    _newest = replace(Beat(node=node, pid=pid), number=_newest.number + 1)


def newest() -> Beat:
    """Return this process's newest beat."""
    return _newest
