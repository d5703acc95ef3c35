"""A thousand empty trials on the inline launcher against the least that Ray Tune takes for them.

The peer is a plain Tune function whose actors are used again: no store, no checkpoints, no rungs.
Ours replaces its actors after 1,000 trials. The cluster is up already.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from empty_trials import AT_A_TIME, study, timed
from ray import tune

from sentune.study.runner.tune_adapter import quiet
from sentune.study.space.space import Uniform
from tests.toy_trials import cluster_of_two_cpus

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
LIMIT, CPU_LIMIT = 1.3, 100


def ours(folder: str) -> None:
    """A study of empty trials."""
    study(folder, Uniform(0.0, 1.0), TRIALS, "random")


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
    with cluster_of_two_cpus(logging_level="ERROR"):
        before = time.process_time()
        mine = timed(ours)
        cost = (time.process_time() - before) / TRIALS * 1000
        peer = timed(ideal)
    print(f"{TRIALS:,} empty trials, {AT_A_TIME} at a time")
    print(f"  a study                    {mine:7.1f} s")
    print(f"  Ray Tune, actors again     {peer:7.1f} s")
    print(f"  ratio {mine / peer:.2f} (at most {LIMIT})")
    print(f"  the driver's CPU time {cost:.0f} ms a trial (at most {CPU_LIMIT})")
    if mine > LIMIT * peer or cost > CPU_LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
