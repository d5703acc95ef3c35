"""A small cluster of several nodes, and a trial on it to which something is done half-way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
import torch
from ray.cluster_utils import Cluster

from sentune.code import runtime_env
from sentune.corpora import Kind, read
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.encode import Encoder
from sentune.encoders import prepare
from sentune.launchers.run_trial import run_trial
from sentune.records import TrialRecord
from sentune.study.runner import limits
from sentune.study.space.space import Choice, SearchSpace
from sentune.study.study import Study, StudyConfig
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.trial import Program, Progress, TrialSpec
from tests.forked import join_group, run_group
from tests.token_tables import tokenise

BATCH, EVERY = 16, 32
"""Examples of a step, and between two checkpoints."""

SETTINGS = {
    "batch_size": BATCH,
    "max_length": 32,
    "learning_rate": 1e-3,
    "dimension": 4,
    "precision": "float64",
}
TIMES = ("train/seconds", "train/examples_per_second")

Curve = dict[int, dict[str, float]]


@contextmanager
def cluster_of(nodes: int) -> Iterator[Cluster]:
    """A head without CPUs and nodes with one each; a dead one is missed after three seconds."""
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "include_dashboard": False,
            "_system_config": {
                "health_check_initial_delay_ms": 0,
                "health_check_period_ms": 1000,
                "health_check_failure_threshold": 3,
            },
        },
    )
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, runtime_env=runtime_env())
        cluster.wait_for_nodes()
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def make_spec(folder: Path, max_examples: int, dropout: float = 0.1) -> TrialSpec:
    """A trial of a tiny encoder with dropout, in float64, with two milestones."""
    corpus = read("builtin:nli?size=192", Kind.TRIPLETS)
    texts = [text for column in corpus.table.itercolumns() for text in column.to_pylist()]
    tiny = f"builtin:tiny?layers=1&width=16&heads=2&inner=32&dropout={dropout}"
    encoder = prepare(tiny, texts, folder / "encoders")
    return TrialSpec(
        trial="0000",
        method="gumbel",
        settings=SETTINGS,
        encoder=encoder,
        corpus=Held(SharedSource(tokenise(corpus, Encoder(encoder, 32), None))),
        dev=Held([read("builtin:nli?split=dev&size=60", Kind.LABELLED_PAIRS)]),
        max_examples=max_examples,
        milestones=(max_examples // 2, max_examples),
        objective="direction/accuracy",
        checkpoint_every=EVERY,
    )


def disturbed(folder: Path, at: int, *, waits: bool, pause: float = 0.0) -> Program:
    """Trains; at a step of its first start, the last worker asks for trouble.

    Args:
        folder: where it writes ``steps`` (a line for each word of the first worker), ``node`` (of
            the last one) and ``starts``.
        at: examples of that step.
        waits: until ``folder/done`` is there; else it kills its own process.
        pause: of each step after it in the first start, so that something can be noticed.
    """

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        import os
        import signal

        last, first_start = group.rank == group.world_size - 1, not (folder / "node").exists()
        for progress in train(spec, group):
            if group.is_first:
                with (folder / "steps").open("a") as steps:
                    steps.write(f"{progress.examples} {int(progress.milestone)}\n")
            if first_start and progress.examples == at and last:
                (folder / "node").write_text(ray.get_runtime_context().get_node_id())
                if not waits:
                    os.kill(os.getpid(), signal.SIGKILL)
                while not (folder / "done").exists():
                    time.sleep(0.05)
            if first_start and progress.examples > at:
                time.sleep(pause)
            yield progress

    return program


def steps_of(folder: Path) -> list[int]:
    """Examples of each step that the first worker took, over all starts."""
    lines = [line.split() for line in (folder / "steps").read_text().splitlines()]
    words = [int(examples) for examples, _ in lines]
    said = [int(milestone) for _, milestone in lines]
    return [
        examples
        for place, examples in enumerate(words)
        if not (said[place] and examples in words[:place])  # said again, not trained again
    ]


def run(
    folder: Path, spec: TrialSpec, program: Program, **config: Any
) -> tuple[TrialRecord, Curve]:
    """One trial of a study."""
    (record,) = run_all(folder, spec, program, {"dimension": Choice(4)}, trials=1, **config)
    return record, exact(record.curve)


def run_all(
    folder: Path,
    spec: TrialSpec,
    program: Program,
    settings: dict[str, Any],
    held: limits.Alone | None = None,
    **config: Any,
) -> list[TrialRecord]:
    """A study's trials over these settings; ``held`` is where it hears that it is to stop."""
    space = SearchSpace(method="gumbel", objective=spec.objective, settings=settings)

    def spec_of(
        settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...]
    ) -> TrialSpec:
        settings = {**spec.settings, **settings}
        return replace(spec, settings=settings, trial=name, milestones=milestones)

    values: dict[str, Any] = {
        "name": "faults",
        "storage": str(folder),
        "max_examples": spec.max_examples,
        "validate_every": spec.max_examples // 2,
        "scheduler": "none",
        "sampler": "random",
        "finalists": 0,
        "concurrent": 1,
        "checkpoint_every": EVERY,
    }
    wanted = StudyConfig(**{**values, **config})
    return Study(wanted, space, spec_of, program, held=held).run().trials


def exact(curve: Curve) -> Curve:
    """Without what depends on the clock."""
    return {
        examples: {name: value for name, value in metrics.items() if name not in TIMES}
        for examples, metrics in curve.items()
    }


def undisturbed(
    spec: TrialSpec, folder: Path, workers: int, directory: str = "", shards: int = 0
) -> Curve:
    """The curve of a group that nothing happens to, without Ray; its checkpoints stay there."""
    spec = replace(spec, directory=directory)
    if workers == 1:
        torch.set_num_threads(1)
        reports = run_trial(train, spec, Group.single("cpu", shards))
        return exact({report.examples: report.metrics for report in reports})
    run_group(_worker, (spec, str(folder), workers, shards), workers)
    return exact(torch.load(folder / "curve.pt", weights_only=True))


def _worker(rank: int, spec: TrialSpec, folder: str, workers: int, shards: int) -> None:
    reports = run_trial(train, spec, join_group(rank, workers, folder, "cpu", shards))
    curve = {report.examples: report.metrics for report in reports}
    if rank == 0:
        torch.save(curve, Path(folder, "curve.pt"))


@contextmanager
def when_there(folder: Path, act: Callable[[str], bool]) -> Iterator[None]:
    """Does something to the node that a trial in this folder writes down, once it has done so.

    Where the act says so, the trial need not wait any longer.
    """

    def watch(over: threading.Event) -> None:
        while not over.wait(0.1):
            if (folder / "node").exists() and (folder / "node").read_text():
                if act((folder / "node").read_text()):
                    (folder / "done").touch()
                return

    with beside(watch):
        yield


@contextmanager
def beside(watch: Callable[[threading.Event], None]) -> Iterator[None]:
    """A thread that watches until the event that it gets is set."""
    over = threading.Event()
    thread = threading.Thread(target=watch, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
