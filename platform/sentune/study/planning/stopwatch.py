"""The clock of a probe: what steps and validations took, within seconds that are stated."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sentune.errors import TrialFailed
from sentune.lazy_import import Later
from sentune.study.planning.estimate import Probe
from sentune.training.trial import Progress

if TYPE_CHECKING:
    import torch
else:
    torch = Later("torch")


@dataclass(kw_only=True)
class Stopwatch:
    """What a training probe has seen until its end, or until its time was up.

    Attributes:
        start: seconds until the first step could begin.
        waits: seconds of steps that no validation followed.
        paces: seconds an example, from one milestone to the next.
        validations: seconds of each.
    """

    batch_size: int
    start: float = 0.0
    waits: list[float] = field(default_factory=list)
    paces: list[float] = field(default_factory=list)
    validations: list[float] = field(default_factory=list)
    bytes: int = 0
    _last: float = field(default_factory=time.perf_counter)
    _seconds: float = 0.0
    _steps: int = 0

    def begin(self) -> None:
        """The method is built, its corpus open."""
        now = time.perf_counter()
        self.start, self._last = now - self._last, now

    def note(self, progress: Progress) -> None:
        """A step or a milestone has come."""
        self._steps += 1
        if progress.milestone:
            self._milestone(progress)
        else:
            self.waits.append(time.perf_counter() - self._last)
        self._last = time.perf_counter()

    def _milestone(self, progress: Progress) -> None:
        pace = 1 / progress.metrics["train/examples_per_second"]
        since = progress.metrics["train/seconds"] - self._seconds
        self.validations.append(max(0.0, since - pace * self._steps * self.batch_size))
        self.paces.append(pace)
        self._seconds, self._steps = progress.metrics["train/seconds"], 0
        self.bytes = bytes_of(progress)

    def probe(self, seconds: float, size: int, *, gpu: bool) -> Probe:
        """What it comes to; the latest figures are those of a warm process."""
        if not self.paces and not self.waits:
            raise TrialFailed(f"no step of {self.batch_size} examples was through in {seconds:g} s")
        whole = len(self.paces) > 1 or not self.waits
        pace = self.paces[-1] if whole else sum(self.waits) / len(self.waits) / self.batch_size
        validation = self.validations[-1] if self.validations else 0.0
        return Probe(
            start_seconds=self.start,
            seconds_per_example=pace,
            seconds_per_validation=validation,
            checkpoint_bytes=size,
            gpu=gpu,
            basis=self._basis(pace, validation, "GPU" if gpu else "CPU", seconds),
        )

    def _basis(self, pace: float, validation: float, device: str, seconds: float) -> str:
        judged = f"{duration(validation)} a validation"
        if not self.validations:
            judged = f"no validation within {seconds:g} s, so none is counted"
        return (
            f"probe of {len(self.waits) + len(self.paces)} steps of batch {self.batch_size} on "
            f"this machine's {device}: {duration(pace)} an example, {judged}"
        )


def bytes_of(progress: Progress) -> int:
    """Bytes of the checkpoint that a progress writes."""
    with tempfile.TemporaryDirectory(prefix="sentune-probe-") as folder:
        progress.save(Path(folder))
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


def duration(seconds: float) -> str:
    """0.0021 -> ``2.1 ms``."""
    return f"{1000 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:,.3g} s"


class _TimeIsUp(BaseException):
    """The probe has used up its seconds; nothing on the way may take it for an error of its own."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Leaves the block after so many seconds, between two operations of Python.

    By an alarm, which only the main thread can have; a block on another thread runs to its end. An
    alarm that was set before goes off when it would have, or right after the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def up(number: int, frame: object) -> None:
        raise _TimeIsUp

    handler, started = signal.signal(signal.SIGALRM, up), time.monotonic()
    before, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _TimeIsUp:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if before:
            left = max(0.001, before - (time.monotonic() - started))
            signal.setitimer(signal.ITIMER_REAL, left, interval)


@contextmanager
def threads_of(count: int | None) -> Iterator[None]:
    """Torch with so many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
