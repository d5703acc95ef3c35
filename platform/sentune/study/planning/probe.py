"""Probe: a short run in this process that times examples and validations and sizes checkpoints.

It runs the method's own program without Ray, and stores nothing.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch

from sentune.errors import TrialFailed
from sentune.io.folders import folder_bytes
from sentune.methods import find
from sentune.study.planning.plan import Probe
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.recipes import build
from sentune.training.settings import split
from sentune.training.trial import Program, Progress, TrialSpec

STEPS = 10
"""Steps of a probe, with a validation after each of the last two. The first step and validation do
not count, because they allocate memory and choose kernels."""


def probe_training(spec: TrialSpec, *, batch_size: int, seconds: float, gpu: bool) -> Probe:
    """Time a few steps and a validation of a method that is trained by gradient descent.

    Args:
        spec: first configuration, with data in this process.
        seconds: most seconds of the probe; what is measured by then counts.
        gpu: whether to train on this machine's GPU, if there is one.

    Raises:
        TrialFailed: no step was complete in time, or the training failed.
        InvalidValue: the settings do not fit each other, the encoder or the corpus.
    """
    group, size, metrics = Group.single(None if gpu else "cpu"), 0, tuple[str, ...]()
    steps: list[float] = []
    validated: list[float] = []  # a step and the validation after it
    short = replace(
        spec,
        max_examples=STEPS * batch_size,
        milestones=((STEPS - 1) * batch_size, STEPS * batch_size),
        directory="",
        start_from="",
        every_step=True,
    )
    progresses = train(short, group)
    with within(seconds), closing(progresses):  # type: ignore[type-var]
        began = time.perf_counter()
        for progress in progresses:
            (validated if progress.milestone else steps).append(time.perf_counter() - began)
            if progress.milestone:
                size, metrics = bytes_of(progress), tuple(progress.metrics)
            began = time.perf_counter()
    if not steps:
        raise TrialFailed(f"no step of {batch_size} examples was complete after {seconds:g} s")
    step = fmean(steps[1:] or steps)
    pace, validation = step / batch_size, 0.0
    judged = f"no validation within {seconds:g} s, so its cost is not included"
    if validated:
        validation = max(0.0, validated[-1] - step)
        judged = f"{duration(validation)} a validation"
    on_gpu = group.device.type == "cuda"
    return Probe(
        start_seconds=max(0.0, steps[0] - step),  # the method is built before the first step
        seconds_per_example=pace,
        seconds_per_validation=validation,
        checkpoint_bytes=size or checkpoint_size(spec),
        gpu=on_gpu,
        basis=f"probe of {len(steps) + len(validated)} steps of batch {batch_size} on this "
        f"machine's {'GPU' if on_gpu else 'CPU'}: {duration(pace)} an example, {judged}",
        metrics=metrics,
    )


def probe_fit(program: Program, samples: Mapping[int, TrialSpec], *, seconds: float) -> Probe:
    """Time a closed-form fit on a CPU: the cost per row and per fit, from samples of two sizes.

    Args:
        program: program that fits and validates.
        samples: number of rows -> fit on that many rows of the corpus, smallest first.
        seconds: most seconds of the probe.

    Raises:
        TrialFailed: no fit was complete in time.
    """
    took: dict[int, float] = {}
    size, metrics = 0, tuple[str, ...]()
    with within(seconds):
        for rows, spec in samples.items():
            began = time.perf_counter()
            for progress in program(replace(spec, directory=""), Group.single("cpu")):
                took[rows], size = time.perf_counter() - began, bytes_of(progress)
                metrics = tuple(progress.metrics)
    if not took:
        raise TrialFailed(f"no fit on {min(samples):,} rows was complete after {seconds:g} s")
    (few, short), (many, long) = min(took.items()), max(took.items())
    by_row, each = long / many, 0.0  # with a single sample the whole cost counts per row
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
        f"{duration(each)} to solve and validate",
        metrics=metrics,
    )


def checkpoint_size(spec: TrialSpec) -> int:
    """Return the bytes of a checkpoint without training: weights, and AdamW's two moments."""
    kind = find(spec.method)
    own, settings = split(spec.settings, kind)
    method = build(kind, own, settings, spec.encoder, spec.seed)
    weights = sum(int(t.nbytes) for t in method.state_dict().values())
    return weights + 2 * sum(int(p.nbytes) for p in method.parameters() if p.requires_grad)


def bytes_of(progress: Progress) -> int:
    """Return the bytes of the checkpoint that a progress writes."""
    with tempfile.TemporaryDirectory(prefix="sentune-probe-") as folder:
        progress.save(Path(folder))
        return folder_bytes(folder)


def duration(seconds: float) -> str:
    """Return seconds as text: 0.0021 as ``2.1 ms``."""
    return f"{1000 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:,.3g} s"


class _TimeIsUp(BaseException):
    """Raised when the probe's time is up; not an Exception, so that no handler catches it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Run a block for at most so many seconds, with one thread of torch as in a worker.

    An alarm interrupts the block between two Python operations. Only the main thread can have one;
    in another thread the block runs to its end. A previous alarm is set again afterwards.
    """
    alarmed = threading.current_thread() is threading.main_thread()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def up(number: int, frame: object) -> None:
        raise _TimeIsUp

    if alarmed:
        handler = signal.signal(signal.SIGALRM, up)
        before = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _TimeIsUp:
        pass
    finally:
        if alarmed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, *before)
        torch.set_num_threads(threads)
