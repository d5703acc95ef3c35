"""A short timed run: what it measures, that it ends in time, and that it leaves nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sentune.errors import TrialFailed
from sentune.study.planning import probe as probing
from sentune.study.planning.probe import (
    checkpoint_size,
    duration,
    probe_fit,
    probe_training,
    within,
)
from sentune.training.group import Group
from sentune.training.trial import Progress, TrialSpec
from tests.training.conftest import MakeTrial, dev, encoder, make_trial, texts, triplets

__all__ = ["dev", "encoder", "make_trial", "texts", "triplets"]  # fixtures


def saved(size: int) -> Any:
    def save(folder: Path) -> None:
        (folder / "weights").write_bytes(b"x" * size)

    return save


def test_a_probe_trains_a_few_steps_and_keeps_nothing(make_trial: MakeTrial) -> None:
    spec, threads = make_trial(), torch.get_num_threads()
    found = probe_training(spec, batch_size=16, seconds=600, gpu=False)
    assert found.seconds_per_example > 0
    assert found.seconds_per_validation >= 0  # a quick one is lost in the time of a step
    assert "a validation" in found.basis
    assert found.start_seconds > 0
    assert found.basis.startswith("probe of 10 steps of batch 16 on this machine's ")
    assert not Path(spec.directory).exists()
    assert torch.get_num_threads() == threads
    # safetensors and torch add names and shapes to the numbers
    assert 0 < found.checkpoint_bytes - checkpoint_size(spec) < 60_000


def test_a_probe_of_trials_without_gpus_does_not_use_the_drivers(
    make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = probe_training(make_trial(), batch_size=16, seconds=600, gpu=False)
    assert not found.gpu
    assert "this machine's CPU" in found.basis


class Alarm:
    """A handle at which the time is up."""

    def open(self) -> Any:
        signal.raise_signal(signal.SIGALRM)
        raise AssertionError("the alarm was not heard")


def test_a_validation_that_takes_too_long_is_left_out(make_trial: MakeTrial) -> None:
    before = signal.getsignal(signal.SIGALRM), bool(signal.getitimer(signal.ITIMER_REAL)[0])
    spec = make_trial(dev=Alarm())
    found = probe_training(spec, batch_size=16, seconds=600, gpu=False)
    assert found.seconds_per_example > 0
    assert found.seconds_per_validation == 0
    assert "no validation within 600 s" in found.basis
    assert found.checkpoint_bytes == checkpoint_size(spec)
    after = signal.getsignal(signal.SIGALRM), bool(signal.getitimer(signal.ITIMER_REAL)[0])
    assert after == before


def test_a_probe_without_a_step_says_so(make_trial: MakeTrial) -> None:
    with pytest.raises(TrialFailed, match="no step of 16 examples was complete after 600 s"):
        probe_training(make_trial(corpus=Alarm()), batch_size=16, seconds=600, gpu=False)


def test_a_time_that_is_up_ends_a_block_and_an_earlier_alarm_is_kept() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: heard.append(number))
    old = signal.setitimer(signal.ITIMER_REAL, 300)
    try:
        with within(0.01):
            while True:
                pass
        assert not heard
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 300
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *old)


def test_training_and_validation_are_told_apart(
    make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten steps of four examples at 0.5 s, built in 7 s, a validation of 3 s and one of 2 s."""
    clock = [100.0]
    monkeypatch.setattr(probing.time, "perf_counter", lambda: clock[0])
    validations = {36: 3.0, 40: 2.0}

    def train(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        assert (spec.milestones, spec.every_step) == (tuple(validations), True)
        clock[0] += 7
        for examples in range(4, 44, 4):
            clock[0] += 0.5 + validations.get(examples, 0.0)
            milestone = examples in validations
            yield Progress(examples=examples, metrics={}, save=saved(77), milestone=milestone)

    monkeypatch.setattr(probing, "train", train)
    found = probe_training(make_trial(), batch_size=4, seconds=9, gpu=False)
    assert found.start_seconds == pytest.approx(7)
    assert found.seconds_per_example == pytest.approx(1 / 8)
    assert found.seconds_per_validation == pytest.approx(2)
    assert found.checkpoint_bytes == 77
    device = "GPU" if found.gpu else "CPU"
    assert found.basis == (
        f"probe of 10 steps of batch 4 on this machine's {device}: 0.125 s an example, "
        "2 s a validation"
    )


def test_a_fit_has_a_part_by_rows_and_a_part_of_its_own(
    make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(probing.time, "perf_counter", lambda: clock[0])

    def fit(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        assert spec.directory == ""
        clock[0] += 2 + 0.001 * spec.max_examples
        yield Progress(examples=spec.max_examples, metrics={}, final=True, save=saved(5))

    def of(rows: int) -> TrialSpec:
        return replace(make_trial(), max_examples=rows, milestones=(rows,))

    found = probe_fit(fit, {100: of(100), 400: of(400)}, seconds=600)
    assert found.seconds_per_example == pytest.approx(0.001)
    assert found.seconds_per_validation == pytest.approx(2)
    assert found.checkpoint_bytes == 5
    assert "fits on 100 and 400 rows" in found.basis


def test_durations_are_read_easily() -> None:
    assert [duration(s) for s in (0.0021, 0.25, 12.0)] == ["2.1 ms", "0.25 s", "12 s"]
