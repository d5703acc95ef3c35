"""A node is taken back with a grace period: the trial leaves it with a checkpoint and goes on.

A cloud tells Ray so by draining the node; here the test drains it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray._raylet import GcsClient
from ray.cluster_utils import Cluster
from ray.core.generated import autoscaler_pb2

from sentune.records import TrialState
from tests.faults.scenes import (
    BATCH,
    cluster_of,
    disturbed,
    make_spec,
    run,
    steps_of,
    undisturbed,
    when_there,
)

pytestmark = pytest.mark.slow
EXAMPLES = 960
GRACE_SECONDS = 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_of(3) as cluster:
        yield cluster


def take_back(node_id: str) -> None:
    client = GcsClient(address=ray.get_runtime_context().gcs_address)
    deadline = int((time.time() + GRACE_SECONDS) * 1000)
    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, why = client.drain_node(node_id, reason, "taken back", deadline)
    assert accepted, why


@pytest.mark.parametrize(("launcher", "workers"), [("train", 2), ("inline", 1)])
def test_it_leaves_with_a_checkpoint_and_goes_on_at_the_next_step(
    cluster: Cluster, tmp_path: Path, launcher: str, workers: int
) -> None:
    """No failure is forgiven here: leaving is none."""
    spec = make_spec(tmp_path, EXAMPLES)
    program = disturbed(tmp_path, 112, waits=True, pause=1.0)
    with when_there(tmp_path, take_back):
        record, curve = run(
            tmp_path, spec, program, launcher=launcher, workers=workers, max_failures=0
        )
    assert (record.state, record.reason) == (TrialState.COMPLETE, "")
    assert record.restarts == 0
    steps = steps_of(tmp_path)
    assert steps == list(range(BATCH, EXAMPLES + BATCH, BATCH)), "no step twice, none left out"
    (note,) = [note for note in record.notes if "was taken back" in note]
    left_at = int(note.split(" at ")[1].split()[0].replace(",", ""))
    assert 112 <= left_at < EXAMPLES
    assert curve == undisturbed(spec, tmp_path, workers), "bit for bit"
