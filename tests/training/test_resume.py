"""A trial that was killed goes on bit for bit: weights, optimiser, metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.trial import Progress, TrialSpec

TIMES = ("train/seconds", "train/examples_per_second")


def run(spec: TrialSpec, stop_after: int | None = None) -> list[Progress]:
    """Train as a launcher does, leaving after some milestones as a killed process would."""
    store, said = CheckpointStore(spec.directory), []
    for progress in train(spec, Group.single("cpu")):
        store.save(progress, progress.metrics[spec.objective])
        said.append(progress)
        if len(said) == stop_after:
            break
    return said


def untimed(progress: Progress) -> dict[str, float]:
    return {name: value for name, value in progress.metrics.items() if name not in TIMES}


def last_state(spec: TrialSpec) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    folder = CheckpointStore(spec.directory).last()
    assert folder is not None
    return (
        load_file(folder / "weights.safetensors"),
        torch.load(folder / "optimizer.pt", weights_only=True),
    )


@pytest.mark.parametrize(
    "settings",
    [{}, {"micro_batch": 5}, {"precision": "bfloat16"}, {"precision": "float64"}],
    ids=["plain", "gradcache", "bfloat16", "float64"],
)
def test_killed_and_started_again_equals_uninterrupted(
    make_trial: Callable[..., TrialSpec], settings: dict[str, object], tmp_path: Path
) -> None:
    whole = make_trial(settings={**settings, "warmup": 0.2}, directory=str(tmp_path / "whole"))
    killed = replace(whole, directory=str(tmp_path / "killed"))
    expected = run(whole)
    run(killed, stop_after=2)
    torch.manual_seed(999)  # the second process starts from another global state
    found = run(killed)

    assert [p.examples for p in found] == [128, 192], "the last progress is said again"
    assert [untimed(p) for p in found] == [untimed(p) for p in expected[1:]]
    assert found[-1].readouts == expected[-1].readouts
    assert [p.final for p in found] == [False, True]
    (weights, state), (other_weights, other_state) = last_state(whole), last_state(killed)
    assert all(torch.equal(weights[name], other_weights[name]) for name in weights)
    pairs = zip(_tensors(state), _tensors(other_state), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def _tensors(state: dict[str, object]) -> list[torch.Tensor]:
    moments = state["optimizer"]["state"]  # type: ignore[index]
    return [value for entry in moments.values() for value in entry.values()]


def test_finished_trial_says_its_last_progress_and_ends(
    make_trial: Callable[..., TrialSpec],
) -> None:
    spec = make_trial()
    last = run(spec)[-1]
    again = run(spec)
    assert len(again) == 1
    assert again[0].final
    assert again[0].metrics == last.metrics


def test_resume_within_an_epoch_that_ends_with_dropped_rows(
    make_trial: Callable[..., TrialSpec], tmp_path: Path
) -> None:
    """Batches of 40 leave 32 of 192 rows out of an epoch; milestones fall inside the second."""
    spec = make_trial(
        settings={"batch_size": 40},
        max_examples=360,
        milestones=(200, 360),
        directory=str(tmp_path / "whole"),
    )
    killed = replace(spec, directory=str(tmp_path / "killed"))
    expected = run(spec)
    run(killed, stop_after=1)
    assert untimed(run(killed)[-1]) == untimed(expected[-1])


def test_seconds_add_up_over_starts(make_trial: Callable[..., TrialSpec]) -> None:
    spec = make_trial()
    first = run(spec, stop_after=1)[-1].metrics["train/seconds"]
    assert run(spec)[-1].metrics["train/seconds"] > first
