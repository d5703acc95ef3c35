"""A worker of a Ray Train group dies, or its whole node: the trial ends as if nothing had been."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ray.cluster_utils import Cluster

from sentune.corpora.batches import Held
from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.encoders.words import WordTable
from sentune.records import TrialRecord, TrialState
from sentune.study.space.space import Choice
from sentune.training.closed_form import fit_and_sweep
from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec
from tests.faults.conftest import Place
from tests.faults.scenes import (
    BATCH,
    EVERY,
    Curve,
    disturbed,
    make_spec,
    run,
    run_all,
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


def fits_once_a_worker_was_killed(folder: Path, words: WordTable) -> Program:
    """Fits in closed form; the last worker of the first start kills itself before its pass."""

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        import os
        import signal

        if group.rank == group.world_size - 1 > 0 and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from fit_and_sweep(spec, group, words={"made": Held(words)})

    return program


@pytest.mark.usefixtures("machines")
def test_a_worker_of_a_fit_in_closed_form_is_killed(place: Place) -> None:
    tmp_path, rng = place.scratch, np.random.default_rng(0)
    names = tuple(f"w{number}" for number in range(30))
    vectors = rng.normal(size=(30, 6)).astype(np.float32)
    words = WordTable(names, vectors, np.full(30, 1 / 30))
    texts = [" ".join(rng.choice(names, size)) for size in rng.integers(1, 9, 200)]
    pairs = {"sentence1": texts[:60], "sentence2": texts[60:120], "score": rng.uniform(0, 5, 60),
             "subset": [None] * 60}  # fmt: skip
    table = pa.table(pairs, schema=SCHEMAS[Kind.SCORED_PAIRS])
    dev = Corpus(spec="dev", kind=Kind.SCORED_PAIRS, table=table, fingerprint="dev")
    spec = TrialSpec(
        trial="0000", method="sif", settings={"vectors": "made"}, encoder="",
        corpus=Held(pa.table({"text": texts})), dev=Held([dev]), max_examples=200,
        milestones=(200,), objective="sts/pearson", readouts={"components": (0, 1, 2)},
    )  # fmt: skip
    program = fits_once_a_worker_was_killed(tmp_path, words)
    settings = {"a": Choice(1e-3)}
    config = {**GROUP, **place.config, "validate_every": 200}
    (record,) = run_all(tmp_path, spec, program, settings, trials=1, **config)
    assert (record.state, record.reason) == (TrialState.COMPLETE, "")
    assert len([note for note in record.notes if LOST.match(note)]) == 1, record.notes
    (alone,) = program(spec, Group.single("cpu"))
    expected = {k: v for k, v in alone.metrics.items() if k != "train/seconds"}
    metrics = {k: v for k, v in record.metrics.items() if k != "train/seconds"}
    assert metrics == pytest.approx(expected, abs=1e-10)


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
