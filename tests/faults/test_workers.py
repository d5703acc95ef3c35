"""A worker of a Ray Train group dies, or its whole node: the trial ends as if nothing had been."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster

from sentune.records import TrialRecord, TrialState
from tests.faults.conftest import Place
from tests.faults.scenes import (
    BATCH,
    EVERY,
    Curve,
    disturbed,
    make_spec,
    run,
    steps_of,
    undisturbed,
    when_there,
)

DIES_AT = 144
"""Examples; the last milestone is at 96, the checkpoint before at 128."""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Curve:
    folder = tmp_path_factory.mktemp("undisturbed")
    return undisturbed(make_spec(folder, 192), folder, workers=2)


GROUP: dict[str, Any] = {"launcher": "train", "workers": 2, "max_failures": 1}

LOST = re.compile(r"started again: (the process of rank 1 died|a worker was lost)")
"""Who is missed first is a race: the dead worker by Ray, or by its peer in the next collective."""


def check(folder: Path, record: TrialRecord, curve: Curve, expected: Curve) -> None:
    assert (record.state, record.reason) == (TrialState.COMPLETE, "")
    assert len([note for note in record.notes if LOST.match(note)]) == 1, record.notes
    assert curve == expected, "bit for bit"
    steps = steps_of(folder)
    lost = len(steps) - len(set(steps))
    assert 1 <= lost <= EVERY // BATCH, "what one checkpoint interval holds"
    assert sorted(set(steps)) == list(range(BATCH, 192 + BATCH, BATCH))
    assert steps.count(128) == 1, "that one was in the last checkpoint"


@pytest.mark.usefixtures("machines")
def test_a_worker_that_is_killed(expected: Curve, place: Place) -> None:
    tmp_path = place.scratch
    program = disturbed(tmp_path, DIES_AT, waits=False)
    spec = make_spec(tmp_path, 192)
    record, curve = run(tmp_path, spec, program, **GROUP, **place.config)
    check(tmp_path, record, curve, expected)


def test_a_node_whose_raylet_is_killed(machines: Cluster, expected: Curve, place: Place) -> None:
    tmp_path = place.scratch

    def kill(node_id: str) -> bool:
        (node,) = [n for n in machines.list_all_nodes() if n.node_id == node_id]
        machines.remove_node(node, allow_graceful=False)
        return False  # a worker outlives its raylet by a moment, in which it could go on

    program = disturbed(tmp_path, DIES_AT, waits=True)
    spec = make_spec(tmp_path, 192)
    with when_there(tmp_path, kill):
        record, curve = run(tmp_path, spec, program, **GROUP, **place.config)
    check(tmp_path, record, curve, expected)
