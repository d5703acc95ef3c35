"""Trials run as a launcher does."""

from __future__ import annotations

from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.trial import Progress, TrialSpec

TIMES = ("train/seconds", "train/examples_per_second")


def run(spec: TrialSpec, stop_after: int | None = None) -> list[Progress]:
    """Train as a launcher does, leaving after some milestones as a killed process would."""
    store, said = CheckpointStore.of(spec), []
    for progress in train(spec, Group.single("cpu")):
        store.save(progress, progress.metrics[spec.objective])
        said.append(progress)
        if len(said) == stop_after:
            break
    return said


def untimed(progress: Progress) -> dict[str, float]:
    return {name: value for name, value in progress.metrics.items() if name not in TIMES}
