"""A study of trials that do nothing but wait, as a driver on a growing cluster runs it.

Usage: toy_study.py FOLDER OPTIONS, options of StudyConfig as JSON.

A trial goes no further than to the milestone that its file ``hold-NUMBER``, or the file
``hold-all``, in the study's folder names. It writes into ``log`` when and where it starts and
works, and the driver writes into ``outcome`` how the study ended.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray

from sentune.study.planning.connect import connected
from sentune.study.space.space import SearchSpace, Uniform
from sentune.study.study import Study, StudyConfig
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.trial import Progress, TrialSpec
from tests.toy_trials import OBJECTIVE, toy_spec

NAME, BUDGET, EVERY = "toy", 600, 100
PAUSE = 0.2
"""Seconds of work before a milestone."""

SPACE = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Uniform(0.0, 1.0)})


def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Goes on from its checkpoint, and waits a moment for each milestone."""
    import time

    folder = Path(spec.directory).parents[1]
    last = CheckpointStore(spec.directory).last_progress()
    done = last.examples if last is not None else 0

    def said(event: str) -> None:
        node = ray.get_runtime_context().get_node_id()
        entry = {"event": event, "trial": spec.trial, "node": node, "at": time.time(),
                 "examples": done, "rank": group.rank, "workers": group.world_size}  # fmt: skip
        with (folder / "log").open("a") as log:
            log.write(json.dumps(entry) + "\n")

    def held(examples: int) -> bool:
        files = [folder / f"hold-{name}" for name in ("all", spec.trial)]
        return any(file.exists() and int(file.read_text()) < examples for file in files)

    said("start")
    if last is not None:
        yield last.again(lambda folder: None)
    for examples in [at for at in spec.milestones if at > done]:
        while held(examples):
            time.sleep(0.05)
        time.sleep(PAUSE)
        done = examples
        said("work")
        yield Progress(
            examples=examples,
            metrics={OBJECTIVE: spec.settings["x"], "train/loss": 1 / examples},
            final=examples == spec.max_examples,
            save=lambda folder: None,
        )
    said("end")


def main(folder: Path, options: dict[str, Any]) -> None:
    """One start of the study."""
    if isinstance(options.get("workers"), list):
        options["workers"] = tuple(options["workers"])
    given = {"finalists": 0, "scheduler": "none", "sampler": "random", **options}
    config = StudyConfig(
        name=NAME, storage=str(folder), max_examples=BUDGET, validate_every=EVERY, **given
    )
    with connected():
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        outcome = Study(config, SPACE, toy_spec, program, (), {}).run()
    trials = [asdict(trial) for trial in outcome.trials]
    told = {"state": outcome.state, "trials": trials}
    (folder / NAME / "outcome").write_text(json.dumps(told, default=str))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
