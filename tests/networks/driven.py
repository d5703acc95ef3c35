"""A study as a driver on one of several hosts runs it. Started by test_cut.

Usage: driven.py ADDRESS FOLDER LAUNCHER WORKERS TRIALS

Its trials are in FOLDER/trials.json at the end. While they train they write into FOLDER/steps, a
line for each step of the first worker: trial, address of the host, examples.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import ray

from sentune.code import runtime_env
from sentune.study.space.space import Uniform
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.trial import Program, Progress, TrialSpec
from tests.faults.scenes import exact, make_spec, run_all

HOSTS = 3
EXAMPLES, PAUSE = 960, 0.5
"""Of a trial, and seconds before each step until FOLDER/calm is there."""


def slowed(folder: Path) -> Program:
    """Trains, and says where."""

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        address = ray.util.get_node_ip_address()
        for progress in train(spec, group):
            if group.is_first:
                with (folder / "steps").open("a") as steps:
                    steps.write(f"{spec.trial} {address} {progress.examples}\n")
            if not (folder / "calm").exists():
                time.sleep(PAUSE)
            yield progress

    return program


def main(address: str, folder: Path, launcher: str, workers: int, trials: int) -> str:
    """Runs the study; its trials."""
    ray.init(
        address=address, log_to_driver=False, logging_level=logging.ERROR,
        runtime_env=runtime_env(),
    )  # fmt: skip
    while len([node for node in ray.nodes() if node["Alive"]]) < HOSTS:
        time.sleep(0.5)
    for module in (sys.modules[__name__], sys.modules["tests.faults.scenes"]):
        ray.cloudpickle.register_pickle_by_value(module)
    records = run_all(
        folder, make_spec(folder, EXAMPLES), slowed(folder), {"learning_rate": Uniform(1e-4, 1e-3)},
        trials=trials, concurrent=trials, launcher=launcher, workers=workers, max_failures=2,
    )  # fmt: skip
    return json.dumps(
        [
            {
                "id": record.id, "state": record.state, "reason": record.reason,
                "settings": record.settings, "restarts": record.restarts, "notes": record.notes,
                "curve": exact(record.curve),
            }
            for record in records
        ]
    )  # fmt: skip


if __name__ == "__main__":
    at, where, how, size, count = sys.argv[1:]
    Path(where, "trials.json").write_text(main(at, Path(where), how, int(size), int(count)))
