"""A short timed run in this process: what an example, a validation and a checkpoint cost.

It runs a method's own program, without Ray, and keeps nothing.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from sentune.errors import TrialFailed
from sentune.methods import find
from sentune.study.planning.plan import Probe
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.recipes import build
from sentune.training.settings import split
from sentune.training.trial import Opens, Program, Progress, TrialSpec

WARM_UP, STEPS = 2, 8
"""Steps before anything is timed (memory is found, kernels are chosen), and timed steps."""


def probe_training(
    spec: TrialSpec, *, batch_size: int, seconds: float, threads: int | None = None
) -> Probe:
    """Time a few steps and a validation of a method that is trained by gradient.

    Args:
        spec: the first configuration, with data that this process holds.
        batch_size: of the spec's settings.
        seconds: after which the probe makes do with what it has seen.
        threads: of torch; a trial has as many as its worker has CPUs. None: as they are.

    Raises:
        TrialFailed: not one step was through in time, or the training cannot go on.
        InvalidValue: the settings do not fit together, the encoder or the corpus.
    """
    group, seen = Group.single(), ProbeTimes(batch_size=batch_size)
    warm_up, whole = WARM_UP * batch_size, (WARM_UP + STEPS) * batch_size
    short = replace(
        spec,
        corpus=_Watched(spec.corpus, seen.begin),
        max_examples=whole,
        milestones=(warm_up, whole),  # the first one warms up the validation, too
        directory="",
        start_from="",
        every_step=True,
    )
    progresses = train(short, group)
    with threads_of(threads), within(seconds), closing(progresses):  # type: ignore[type-var]
        for progress in progresses:
            seen.note(progress)
    size = seen.bytes or checkpoint_size(spec)
    return seen.probe(seconds, size, gpu=group.device.type == "cuda")


def probe_fit(
    program: Program,
    samples: Mapping[int, TrialSpec],
    *,
    seconds: float,
    threads: int | None = None,
) -> Probe:
    """Time a closed-form fit on samples of two sizes: a part by rows, a part for each fit.

    Args:
        program: fits and judges.
        samples: rows of the corpus -> the fit on so many of them, fewest first.
        seconds, threads: see ``probe_training``.

    Raises:
        TrialFailed: not one fit was through in time.
    """
    took: dict[int, float] = {}
    size = 0
    with threads_of(threads), within(seconds):
        for rows, spec in samples.items():
            started = time.perf_counter()
            for progress in program(replace(spec, directory=""), Group.single()):
                took[rows], size = time.perf_counter() - started, bytes_of(progress)
    if not took:
        raise TrialFailed(f"no fit on {min(samples):,} rows was through in {seconds:g} s")
    (few, short), (many, long) = min(took.items()), max(took.items())
    by_row, each = long / many, 0.0  # of a single sample everything counts by row
    if few < many:
        by_row = max(0.0, (long - short) / (many - few))
        each = max(0.0, long - by_row * many)
    tried = " and ".join(f"{rows:,}" for rows in took)
    return Probe(
        start_seconds=0.0,
        seconds_per_example=by_row,
        seconds_per_validation=each,
        checkpoint_bytes=size,
        gpu=False,
        basis=f"fits on {tried} rows on this machine's CPU: {duration(by_row)} a row, "
        f"{duration(each)} to solve and judge",
    )


def checkpoint_size(spec: TrialSpec) -> int:
    """Bytes of a checkpoint, without a step: the weights, and AdamW's two moments of each."""
    kind = find(spec.method)
    own, settings = split(spec.settings, kind)
    method = build(kind, own, settings, spec.encoder, spec.seed)
    weights = sum(int(t.nbytes) for t in method.state_dict().values())
    return weights + 2 * sum(int(p.nbytes) for p in method.parameters() if p.requires_grad)


@dataclass(frozen=True)
class _Watched:
    """A corpus that calls ``begin`` once it is open: the method is built then."""

    corpus: Opens
    begin: Callable[[], None]

    def open(self) -> Any:
        opened = self.corpus.open()
        self.begin()
        return opened


@dataclass(kw_only=True)
class ProbeTimes:
    """What a training probe has seen until its end, or until its time was up.

    Attributes:
        start: seconds until the first step could begin.
        waits: seconds of steps that no validation followed.
        paces: seconds an example, from one milestone to the next.
        validations: seconds of each.
        bytes: of the newest checkpoint.
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
            pace = 1 / progress.metrics["train/examples_per_second"]
            since = progress.metrics["train/seconds"] - self._seconds
            self.validations.append(max(0.0, since - pace * self._steps * self.batch_size))
            self.paces.append(pace)
            self._seconds, self._steps = progress.metrics["train/seconds"], 0
            self.bytes = bytes_of(progress)
        else:
            self.waits.append(time.perf_counter() - self._last)
        self._last = time.perf_counter()

    def probe(self, seconds: float, size: int, *, gpu: bool) -> Probe:
        """Return what it comes to; the latest figures are those of a warm process.

        Raises:
            TrialFailed: not one step was seen in the seconds that the probe had.
        """
        steps = len(self.waits) + len(self.paces)
        if not steps:
            raise TrialFailed(f"no step of {self.batch_size} examples was through in {seconds:g} s")
        whole = len(self.paces) > 1 or not self.waits
        pace = self.paces[-1] if whole else sum(self.waits) / len(self.waits) / self.batch_size
        validation, judged = 0.0, f"no validation within {seconds:g} s, so none is counted"
        if self.validations:
            validation = self.validations[-1]
            judged = f"{duration(validation)} a validation"
        return Probe(
            start_seconds=self.start,
            seconds_per_example=pace,
            seconds_per_validation=validation,
            checkpoint_bytes=size,
            gpu=gpu,
            basis=f"probe of {steps} steps of batch {self.batch_size} on this machine's "
            f"{'GPU' if gpu else 'CPU'}: {duration(pace)} an example, {judged}",
        )


def bytes_of(progress: Progress) -> int:
    """Return bytes of the checkpoint that a progress writes."""
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
    """Leave the block after so many seconds, between two operations of Python.

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
