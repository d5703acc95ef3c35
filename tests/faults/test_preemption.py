"""A trial leaves, with its study or its machine: it writes a checkpoint and goes on from there.

A cloud tells Ray by draining a node that it takes it back; here the test drains it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.core.generated import autoscaler_pb2

from sentune.records import TrialState
from sentune.study.runner.limits import Alone
from sentune.training.checkpoints import CheckpointStore
from tests.faults.conftest import Place
from tests.faults.scenes import (
    BATCH,
    disturbed,
    make_spec,
    run,
    steps_of,
    undisturbed,
    when_there,
)
from tests.third_party_internals import GcsClient

EXAMPLES = 960
GRACE_SECONDS = 300


@pytest.fixture
def one_more(machines: Cluster) -> Iterator[None]:
    """Comes afterwards, in the place of the one that was taken back."""
    yield
    machines.add_node(num_cpus=1)


def take_back(node_id: str) -> bool:
    client = GcsClient(address=ray.get_runtime_context().gcs_address)
    deadline = int((time.time() + GRACE_SECONDS) * 1000)
    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, why = client.drain_node(node_id, reason, "taken back", deadline)
    assert accepted, why
    return True


@pytest.mark.usefixtures("one_more")
@pytest.mark.parametrize(("launcher", "workers"), [("train", 2), ("inline", 1)])
def test_it_leaves_with_a_checkpoint_and_goes_on_at_the_next_step(
    place: Place, launcher: str, workers: int
) -> None:
    """No failure is forgiven here: leaving is none."""
    tmp_path = place.scratch
    spec = make_spec(tmp_path, EXAMPLES)
    program = disturbed(tmp_path, 112, waits=True, pause=1.0)
    with when_there(tmp_path, take_back):
        record, curve = run(
            tmp_path, spec, program, launcher=launcher, workers=workers, max_failures=0,
            **place.config,
        )  # fmt: skip
    assert (record.state, record.reason) == (TrialState.COMPLETE, "")
    assert record.restarts == 0
    steps = steps_of(tmp_path)
    assert steps == list(range(BATCH, EXAMPLES + BATCH, BATCH)), "no step twice, none left out"
    (note,) = [note for note in record.notes if "was taken back" in note]
    (left_at,) = re.findall(r"([\d,]+) examples", note)
    assert 112 <= int(left_at.replace(",", "")) < EXAMPLES
    assert curve == undisturbed(spec, tmp_path, workers), "bit for bit"


@pytest.mark.usefixtures("machines")
@pytest.mark.parametrize(("launcher", "workers"), [("train", 2), ("inline", 1)])
def test_a_study_that_stops_asks_its_trial_to_leave_and_goes_on_with_it(
    place: Place, launcher: str, workers: int
) -> None:
    """It is asked to while its trial waits in a step, and until long after."""
    tmp_path = place.scratch
    held = Alone()

    def stop(node_id: str) -> bool:
        del node_id  # not of a machine
        held.signal = "stop"
        time.sleep(10)
        return True

    spec = make_spec(tmp_path, EXAMPLES)
    program = disturbed(tmp_path, 112, waits=True, pause=1.0)
    config: dict[str, Any] = {"launcher": launcher, "workers": workers, **place.config}
    with when_there(tmp_path, stop):
        left, first = run(tmp_path, spec, program, held=held, **config)
    assert (left.state, left.reason) == (TrialState.RUNNING, "")
    newest = CheckpointStore(f"{place.storage}/faults/trials/{left.id:04d}").last_progress()
    assert newest is not None
    assert newest.examples == max(steps_of(tmp_path)) < EXAMPLES

    calm = disturbed(tmp_path, 0, waits=False)
    record, curve = run(tmp_path, spec, calm, **config)
    assert record.state is TrialState.COMPLETE
    assert steps_of(tmp_path) == list(range(BATCH, EXAMPLES + BATCH, BATCH)), "no step twice"
    assert curve == undisturbed(spec, tmp_path, workers), "bit for bit"
    assert first.items() <= curve.items()
