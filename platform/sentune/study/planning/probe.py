"""A short timed run in this process: what an example, a validation and a checkpoint cost.

It runs a method's own program, without Ray, and keeps nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from sentune.errors import TrialFailed
from sentune.methods import find
from sentune.study.planning.estimate import Probe
from sentune.study.planning.stopwatch import Stopwatch, bytes_of, duration, threads_of, within
from sentune.training.build import build_method
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.settings import split
from sentune.training.trial import Opens, Program, TrialSpec

WARM_UP, STEPS = 2, 8
"""Steps before anything is timed (memory is found, kernels are chosen), and timed steps."""


def probe_training(
    spec: TrialSpec, *, batch_size: int, seconds: float, threads: int | None = None
) -> Probe:
    """Times a few steps and a validation of a method that is trained by gradient.

    Args:
        spec: the first configuration, with data that this process holds.
        batch_size: of the spec's settings.
        seconds: after which the probe makes do with what it has seen.
        threads: of torch; a trial has as many as its worker has CPUs. None: as they are.

    Raises:
        TrialFailed: not one step was through in time, or the training cannot go on.
        InvalidValue: the settings do not fit together, the encoder or the corpus.
    """
    group, seen = Group.single(), Stopwatch(batch_size=batch_size)
    short = _shortened(replace(spec, corpus=_Watched(spec.corpus, seen.begin)), batch_size)
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
    """Times a closed-form fit on samples of two sizes: a part by rows, a part for each fit.

    Args:
        program: fits and judges.
        samples: rows of the corpus -> the fit on so many of them, fewest first.
        seconds: after which the probe makes do with what it has seen.
        threads: see ``probe_training``.

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
    by_row, each = _line(took)
    rows_tried = " and ".join(f"{rows:,}" for rows in took)
    return Probe(
        start_seconds=0.0,
        seconds_per_example=by_row,
        seconds_per_validation=each,
        checkpoint_bytes=size,
        gpu=False,
        basis=f"fits on {rows_tried} rows on this machine's CPU: {duration(by_row)} a row, "
        f"{duration(each)} to solve and judge",
    )


def checkpoint_size(spec: TrialSpec) -> int:
    """Bytes of a checkpoint, without a step: the weights, and AdamW's two moments of each."""
    kind = find(spec.method)
    own, settings = split(spec.settings, kind)
    method = build_method(kind, own, settings, spec.encoder, spec.seed)
    weights = sum(t.numel() * t.element_size() for t in method.state_dict().values())
    trained = [p for p in method.parameters() if p.requires_grad]
    return weights + 2 * sum(p.numel() * p.element_size() for p in trained)


def _shortened(spec: TrialSpec, batch_size: int) -> TrialSpec:
    """A validation after the warm-up, which warms up the validation too, and one at the end."""
    warm_up, whole = WARM_UP * batch_size, (WARM_UP + STEPS) * batch_size
    return replace(
        spec,
        max_examples=whole,
        milestones=(warm_up, whole),
        directory="",
        start_from="",
        every_step=True,
    )


@dataclass(frozen=True)
class _Watched:
    """A corpus that says when it is opened: the method is built then, and its steps begin."""

    corpus: Opens
    begin: Callable[[], None]

    def open(self) -> Any:
        opened = self.corpus.open()
        self.begin()
        return opened


def _line(took: Mapping[int, float]) -> tuple[float, float]:
    """Seconds a row and seconds each; of a single sample everything counts by row."""
    (few, short), (many, long) = min(took.items()), max(took.items())
    if few == many:
        return long / many, 0.0
    by_row = max(0.0, (long - short) / (many - few))
    return by_row, max(0.0, long - by_row * many)
