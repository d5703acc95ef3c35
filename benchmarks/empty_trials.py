"""Eight empty trials, two at a time: the inline launcher against nested Tune + Train.

The peer is Ray's documented pattern, a Tune function that builds a TorchTrainer per trial. Both run
on a cluster of two CPUs that is up already; only the trials are timed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from typing import Any

import ray
import ray.train
from ray import tune
from ray.train.torch import TorchTrainer
from ray.tune.integration.ray_train import TuneReportCallback

from sentune.study.runner.tune_adapter import quiet
from sentune.study.space.space import Choice, Dimension, SearchSpace
from sentune.study.study import Study, StudyConfig
from sentune.training.group import Group
from sentune.training.trial import Progress, TrialSpec
from tests.toy_trials import OBJECTIVE, cluster_of_two_cpus, toy_spec

TRIALS, AT_A_TIME, LIMIT = 8, 2, 0.1


def empty(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Says one number and is done."""
    yield Progress(
        examples=spec.max_examples, metrics={OBJECTIVE: 0.0}, final=True, save=lambda folder: None
    )


def study(folder: str, x: Dimension, trials: int, sampler: str) -> None:
    """A study of empty trials with one setting, store, checkpoints and retention included."""
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": x})
    config = StudyConfig(
        name="empty", storage=folder, max_examples=1, trials=trials, concurrent=AT_A_TIME,
        sampler=sampler, finalists=0,
    )  # fmt: skip
    outcome = Study(config, space, toy_spec, empty, (), {}).run()
    assert [trial.state for trial in outcome.trials] == ["complete"] * trials


def inline(folder: str) -> None:
    """A study of empty trials with the inline launcher."""
    study(folder, Choice(*range(TRIALS)), TRIALS, "grid")


def nested(folder: str) -> None:
    """Ray's documented pattern."""

    def work(config: dict[str, Any]) -> None:
        ray.train.report({"score": 0.0})

    def trial(config: dict[str, Any]) -> None:
        TorchTrainer(
            work,
            scaling_config=ray.train.ScalingConfig(num_workers=1, resources_per_worker={"CPU": 1}),
            run_config=ray.train.RunConfig(
                name=f"trial-{config['x']}", storage_path=folder, callbacks=[TuneReportCallback()]
            ),
        ).fit()

    with quiet():
        results = tune.Tuner(
            tune.with_resources(trial, {"cpu": 0, "node:__internal_head__": 0.001}),
            param_space={"x": tune.grid_search(list(range(TRIALS)))},
            tune_config=tune.TuneConfig(max_concurrent_trials=AT_A_TIME),
            run_config=tune.RunConfig(name="tune", storage_path=folder, verbose=0),
        ).fit()
    assert not results.errors
    assert len(results) == TRIALS


def timed(run: Any) -> float:
    """Seconds."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        run(folder)
        return time.monotonic() - started


def main() -> None:
    with cluster_of_two_cpus(logging_level="ERROR"):
        ours, peer = timed(inline), timed(nested)
    print(f"{TRIALS} empty trials, {AT_A_TIME} at a time")
    print(f"  inline, actors used again   {ours:7.1f} s")
    print(f"  nested Tune + Train         {peer:7.1f} s")
    print(f"  ratio {ours / peer:.2f} (at most {LIMIT})")
    if ours > LIMIT * peer:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
