"""An elastic group grows and shrinks with its cluster in mid-trial; its metrics are unchanged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path

import pytest
import torch
from ray.cluster_utils import Cluster
from safetensors.torch import load_file

from sentune.launchers.launch import Launch
from sentune.records import TrialState
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.state import WEIGHTS_FILE
from sentune.training.trial import Program, Progress, TrialSpec
from tests.faults.scenes import BATCH, EVERY, Curve, beside, cluster_of, make_spec, run, undisturbed
from tests.faults.test_preemption import take_back
from tests.soak import SOAK

pytestmark = pytest.mark.timeout(1500)
EXAMPLES = 3200
SIZES = [1, 2, 1, 2, 1] if SOAK else [1, 2, 1]
"""Of the group: alone, with a machine that dies, alone, with one that is taken back, alone; outside
of ``make soak`` without the latter, of which the tests of preemption tell."""

STEPS = 3
"""That a group takes before anything happens to it."""


def paced(folder: Path) -> Program:
    """Writes examples and world size of each step; slow until the last change of the cluster."""

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        for progress in train(spec, group):
            if group.is_first and not progress.milestone:
                with (folder / "steps").open("a") as steps:
                    steps.write(f"{group.world_size} {progress.examples}\n")
            if not (folder / "calm").exists():
                time.sleep(0.5)
            yield progress

    return program


def steps_of(folder: Path) -> list[tuple[int, list[int]]]:
    """World size and examples of the steps of each group."""
    written = (folder / "steps").read_text().splitlines() if (folder / "steps").exists() else []
    steps = [tuple(map(int, line.split())) for line in written]
    return [(size, [e for _, e in own]) for size, own in groupby(steps, key=lambda step: step[0])]


@contextmanager
def whenever(folder: Path, acts: list[Callable[[], None]]) -> Iterator[None]:
    """Does one after the other, each when one more group has taken its first steps."""

    def watch(over: threading.Event) -> None:
        for groups, act in enumerate(acts, start=1):
            while len(found := steps_of(folder)) < groups or len(found[-1][1]) < STEPS:
                if over.wait(0.1):
                    return
            act()

    with beside(watch):
        yield


def close(one: Curve, other: Curve) -> bool:
    assert list(one) == list(other)
    return all(one[at] == pytest.approx(other[at], rel=1e-6, abs=1e-6) for at in one)


@pytest.fixture(scope="module")
def machines() -> Iterator[Cluster]:
    with cluster_of(1) as machines:
        yield machines


def test_a_group_grows_and_shrinks_with_its_cluster(
    machines: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(Launch, grow_seconds=3.0)
    monkeypatch.setattr("sentune.study.study.Launch", quick)
    spec = make_spec(tmp_path, EXAMPLES)
    added = []

    def add() -> None:
        machines._shutdown_at_exit = False  # its hooks can be set from the main thread alone
        added.append(machines.add_node(num_cpus=1))

    def die() -> None:
        machines.remove_node(added[0], allow_graceful=False)

    def go() -> None:
        take_back(added[1].node_id)
        (tmp_path / "calm").touch()

    def die_at_last() -> None:
        die()
        (tmp_path / "calm").touch()

    with whenever(tmp_path, [add, die, add, go] if SOAK else [add, die_at_last]):
        record, curve = run(
            tmp_path, spec, paced(tmp_path), launcher="train", workers=(1, 2), max_failures=1
        )
    assert (record.state, record.reason, record.restarts) == (TrialState.COMPLETE, "", 1)
    groups = steps_of(tmp_path)
    assert [size for size, _ in groups] == SIZES
    for (_, before), (size, after) in pairwise(groups):
        lost = (before[-1] + BATCH - after[0]) // BATCH
        assert lost == 0 or (size == 1 and lost <= EVERY // BATCH), "where a machine died, at most"
    assert len([note for note in record.notes if "room for more workers" in note]) == SIZES.count(2)

    kept = CheckpointStore(str(tmp_path / "faults/trials/0000")).last()
    assert kept is not None, "of its best milestone"
    own = load_file(kept / WEIGHTS_FILE)
    for workers in (1, 2):
        fixed = tmp_path / f"fixed-{workers}"
        assert close(curve, undisturbed(spec, tmp_path, workers, str(fixed), shards=2))
        for name, tensor in load_file(fixed / kept.name / WEIGHTS_FILE).items():
            torch.testing.assert_close(own[name], tensor, rtol=0, atol=1e-6)
