"""A study of two trials whose second is stopped early, as a driver of its own.

Usage: toy_study.py ADDRESS STORAGE LAUNCHER

It connects to the Ray cluster at ADDRESS and prints, as JSON, its table, the CPUs that are free at
its end and how many placement groups are left. Trials write each milestone that they work at into
``worked`` in the storage; where it holds a file ``wait``, the first trial writes the number of its
process there after its first milestone and waits until that file is gone.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray
import torch
from ray.util import placement_group_table

from sentune.code import runtime_env
from sentune.study.space.space import Choice, SearchSpace
from sentune.study.study import Study, StudyConfig
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec
from tests.toy_trials import OBJECTIVE, toy_spec

MILESTONES = (100, 300)


def program_in(storage: Path) -> Program:
    """Return a program that is pickled by value: x = 3 goes on to its end, x = 7 is worse."""

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        last = CheckpointStore(spec.directory).last_progress() if group.is_first else None
        last = group.broadcast_object(last)
        if last is not None:
            yield last.again(lambda folder: None)
        x = float(spec.settings["x"])
        for examples in spec.milestones:
            if last is not None and examples <= last.examples:
                continue
            if group.is_first:
                with (storage / "worked").open("a") as log:
                    log.write(f"{spec.trial} {examples}\n")
            mean = float(group.all_reduce_mean(torch.tensor([x], dtype=torch.float64)))
            yield Progress(
                examples=examples,
                metrics={OBJECTIVE: examples / 1000 - mean},
                final=examples == spec.max_examples,
                save=lambda folder: None,
            )
            wait = storage / "wait"
            if x == 3 and wait.exists():
                wait.write_text(str(os.getpid()))
            while x == 3 and wait.exists():
                time.sleep(0.05)

    return program


def back(seconds: float = 30.0) -> dict[str, Any]:
    """Return the free CPUs and the placement groups, once all is back or the time is up."""
    until = time.monotonic() + seconds
    while True:
        left = sum(group["state"] != "REMOVED" for group in placement_group_table().values())
        found = {"cpus": ray.available_resources().get("CPU", 0.0), "groups": left}
        if found == {"cpus": 2.0, "groups": 0} or time.monotonic() > until:
            return found
        time.sleep(0.1)


def main(address: str, storage: Path, launcher: str) -> dict[str, Any]:
    """Run the study, or what is left of it."""
    ray.init(address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=runtime_env())
    config = StudyConfig(
        name="toy", storage=str(storage), max_examples=MILESTONES[-1], first_rung=MILESTONES[0],
        sampler="grid", trials=2, finalists=0, concurrent=1, launcher=launcher,
        workers=2 if launcher == "train" else 1,
    )  # fmt: skip
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Choice(3, 7)})
    outcome = Study(config, space, toy_spec, program_in(storage), (), {}).run()
    rows = [
        [str(r.state), r.settings, {n: m.get(OBJECTIVE) for n, m in r.curve.items()}]
        for r in outcome.trials
    ]
    return {"state": outcome.state, "rows": rows, "pid": os.getpid(), **back()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])) + "\n")
