"""The progress of a trial in this process: one record, which is replaced at every step.

Code that takes long calls ``beat``, which costs a few microseconds and sends nothing. A launcher
sends the newest record to the driver, which displays it and restarts trials without beats.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

Phase = Literal["loading", "tokenising", "training", "validating", "decoding", "saving"]

SECONDS = 2.0
"""Time between the beats of ``beating``."""

QUIET_SECONDS = 30.0
"""A log gets a line on the progress of active runs after so long without one."""


@dataclass(frozen=True, kw_only=True)
class Beat:
    """The progress of a trial's first worker.

    Attributes:
        examples: that the trial has trained on.
        loss: of the newest step; None before the first one.
        rate: examples per second in training since the last validation; 0 before the first step.
        done, total: units of the phase (steps, chunks of sentences, tasks); 0: unknown.
        number: of this beat; it increases with each beat of the process.
        node, pid: IP address of the worker's machine, and its process ID.
        waits: what the process has been waiting for; empty if it is not waiting.
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

    @property
    def activity(self) -> str:
        """The phase, with its progress unless it is training."""
        if self.phase == "training" or not self.total or not self.done:
            return self.phase
        return f"{self.phase} {self.done:,}/{self.total:,}"

    @property
    def speed(self) -> str:
        """Examples per second, to two digits or more."""
        return f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2g}"

    def in_words(self, examples: int, budget: int) -> str:
        """Return the progress of a run at so many examples: phase, examples, loss and speed."""
        parts = [self.activity, f"{examples:,} of {budget:,} examples"]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4g}")
        if self.rate and self.phase == "training":
            parts.append(f"{self.speed} examples/s")
        return ", ".join(parts)

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
    """Update this process's beat; values that are not given stay.

    ``done`` and ``total`` stay within a phase unless a new ``total`` is given.
    """
    global _newest  # a process runs one trial at a time
    given = {"phase": phase, "examples": examples, "loss": loss, "rate": rate}
    changes: dict[str, Any] = {name: new for name, new in given.items() if new is not None}
    if phase is not None or total:
        changes |= {"done": done, "total": total}
    _newest = replace(_newest, number=_newest.number + 1, **changes)


@contextmanager
def beating(phase: Phase) -> Iterator[None]:
    """Send regular beats while a library function runs that cannot, such as a decomposition.

    They continue if the function never returns.
    """
    beat(phase)
    with repeated(lambda: beat(phase), SECONDS, "sentune-beats"):
        yield


@contextmanager
def repeated(action: Callable[[], object], seconds: float, name: str) -> Iterator[None]:
    """Call an action every ``seconds`` in a thread of that name while the context is open."""
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
    """Reset the beat for a new trial in this process."""
    global _newest
    _newest = replace(Beat(node=node, pid=pid), number=_newest.number + 1)


def newest() -> Beat:
    """Return this process's newest beat."""
    return _newest
