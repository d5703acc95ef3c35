"""A thousand empty trials on the inline launcher against the least that Ray Tune takes for them.

The peer is a plain Tune function whose actors are used again: no store, no checkpoints, no rungs.
Ours replaces its actors after 1,000 trials. The cluster is up already.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import ray
from empty_trials import OBJECTIVE, empty, timed
from ray import tune

from sentune.code import runtime_env
from sentune.study.runner.tune_adapter import quiet
from sentune.study.space.space import SearchSpace, Uniform
from sentune.study.study import Study, StudyConfig
from tests.toy_trials import toy_spec

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
AT_A_TIME, LIMIT, CPU_LIMIT = 2, 1.3, 100


def ours(folder: str) -> None:
    """A study of empty trials: store, checkpoints and retention included."""
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Uniform(0.0, 1.0)})
    config = StudyConfig(
        name="empty", storage=folder, max_examples=1, trials=TRIALS, concurrent=AT_A_TIME,
        sampler="random", finalists=0,
    )  # fmt: skip
    outcome = Study(config, space, toy_spec, empty, (), {}).run()
    assert [trial.state for trial in outcome.trials] == ["complete"] * TRIALS


def ideal(folder: str) -> None:
    """Tune alone."""

    def trial(config: dict[str, Any]) -> None:
        tune.report({"score": 0.0})

    with quiet():
        results = tune.Tuner(
            tune.with_resources(trial, {"cpu": 1}),
            param_space={"x": tune.uniform(0.0, 1.0)},
            tune_config=tune.TuneConfig(
                num_samples=TRIALS, max_concurrent_trials=AT_A_TIME, reuse_actors=True
            ),
            run_config=tune.RunConfig(name="tune", storage_path=folder, verbose=0),
        ).fit()
    assert len(results) == TRIALS


def main() -> None:
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        logging_level="ERROR", runtime_env=runtime_env(),
    )  # fmt: skip
    before = time.process_time()
    mine = timed(ours)
    cost = (time.process_time() - before) / TRIALS * 1000
    peer = timed(ideal)
    ray.shutdown()
    print(f"{TRIALS:,} empty trials, {AT_A_TIME} at a time")
    print(f"  a study                    {mine:7.1f} s")
    print(f"  Ray Tune, actors again     {peer:7.1f} s")
    print(f"  ratio {mine / peer:.2f} (at most {LIMIT})")
    print(f"  the driver's CPU time {cost:.0f} ms a trial (at most {CPU_LIMIT})")
    if mine > LIMIT * peer or cost > CPU_LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
