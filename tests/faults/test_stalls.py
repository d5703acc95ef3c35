"""A worker hangs: its trial is noticed by its silence, ended, and goes on from its checkpoint."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.util import placement_group_table

from sentune.records import TrialState
from sentune.study.space.space import Choice, SearchSpace
from sentune.study.store.driver_process import runs
from sentune.study.study import Study, StudyConfig
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec
from tests.soak import SOAK
from tests.toy_trials import OBJECTIVE, cluster_of_two_cpus, toy_spec

pytestmark = pytest.mark.timeout(900)

BUDGET, EVERY, HANGS_AT = 400, 40, 120
SILENT_SECONDS = 15.0
"""Long enough for a busy machine to start a worker; if it is not, that is one more restart."""

STOPPED, SLEEPS = "stopped", "sleeps"
BACK_WITHIN_SECONDS = 30.0

WAYS = [("inline", 1, SLEEPS), ("train", 2, STOPPED)]
if SOAK:
    WAYS += [("inline", 1, STOPPED), ("train", 2, SLEEPS)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with cluster_of_two_cpus():
        yield


def make_program(folder: Path, how: str) -> Program:
    """Takes steps that all workers meet in; the last worker hangs once, at step 120."""

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        last = CheckpointStore(spec.directory).last_progress() if group.is_first else None
        last = group.broadcast_object(last)
        start = last.examples if last is not None else 0
        hung = folder / "hung"
        with (folder / "starts").open("a") as starts:
            starts.write(f"{group.rank} {start}\n")
        for examples in range(start + 10, BUDGET + 10, 10):
            here = group.rank == group.world_size - 1
            if here and examples == HANGS_AT and not hung.exists():
                hung.write_text(str(os.getpid()))
                if how == STOPPED:
                    os.kill(os.getpid(), signal.SIGSTOP)
                time.sleep(1_000_000)
            group.agree(examples)
            time.sleep(0.05)
            milestone = examples in spec.milestones
            yield Progress(
                examples=examples,
                metrics={OBJECTIVE: examples / 1000} if milestone else {},
                milestone=milestone,
                final=examples == BUDGET,
                save=lambda folder: None,
            )

    return program


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("launcher", "workers", "how"), WAYS)
def test_a_worker_that_hangs_counts_as_a_lost_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, launcher: str, workers: int, how: str
) -> None:
    config = StudyConfig(
        name="stalls", storage=str(tmp_path), max_examples=BUDGET, trials=1, finalists=0,
        concurrent=1, scheduler="none", validate_every=200, checkpoint_every=EVERY,
        launcher=launcher, workers=workers, max_failures=4, stall_timeout=SILENT_SECONDS,
    )  # fmt: skip
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Choice(1)})
    study = Study(config, space, toy_spec, make_program(tmp_path, how), (), {})
    (record,) = study.run().trials

    assert (record.state, record.reason) == (TrialState.COMPLETE, "")
    assert list(record.curve) == [200, 400]
    assert 1 <= record.restarts <= 4, record.notes
    pid = (tmp_path / "hung").read_text()
    told = [note for note in record.notes if "started again: no beat for" in note]
    assert told, record.notes
    assert [note for note in told if f", process {pid} on " in note or workers == 2]
    starts = [line.split() for line in (tmp_path / "starts").read_text().splitlines()]
    assert [at for rank, at in starts if rank == "0" and at == "80"], "the checkpoint before"
    assert f"process {pid}" in caplog.text
    if workers == 2 and how == STOPPED:
        assert f"these do not answer: rank 1, process {pid}" in caplog.text
    assert not runs(int(pid)), "stopped or not, it is gone"
    until = time.monotonic() + BACK_WITHIN_SECONDS
    while ray.available_resources().get("CPU") != 2 and time.monotonic() < until:
        time.sleep(0.2)
    assert ray.available_resources().get("CPU") == 2
    assert {group["state"] for group in placement_group_table().values()} <= {"REMOVED"}


@pytest.mark.usefixtures("cluster")
def test_the_driver_sees_what_its_trials_are_doing(tmp_path: Path) -> None:
    seen: list[tuple[str, str, int]] = []

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        from sentune.beats import beat

        deadline = time.monotonic() + 600
        while not (tmp_path / "seen").exists() and time.monotonic() < deadline:
            beat("decoding", examples=64, loss=0.5, done=3, total=9)
            time.sleep(0.05)
        yield Progress(
            examples=BUDGET, metrics={OBJECTIVE: 1.0}, final=True, save=lambda folder: None
        )

    config = StudyConfig(
        name="beats", storage=str(tmp_path), max_examples=BUDGET, trials=1, finalists=0,
        concurrent=1, scheduler="none",
    )  # fmt: skip
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Choice(1)})
    study = Study(config, space, toy_spec, program, (), {})
    look = study.stalls.look

    def looked(actors: Callable[[], Mapping[str, Any]]) -> dict[str, str]:
        over = look(actors)
        for name, beat in study.stalls.beats.items():
            if beat.phase == "decoding":
                assert (beat.loss, beat.done, beat.total) == (0.5, 3, 9)
                assert beat.node
                seen.append((name, beat.phase, beat.examples))
                (tmp_path / "seen").touch()
        return over

    study.stalls.look = looked  # type: ignore[method-assign]
    (record,) = study.run().trials
    assert record.state is TrialState.COMPLETE
    assert ("0000", "decoding", 64) in seen
