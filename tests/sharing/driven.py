"""One of several studies on a cluster. Started by test_studies_at_once.

Usage: driven.py ADDRESS FOLDER STORAGE OPTUNA TRACKING NAME PRIORITY MOST

It waits for the file FOLDER/go once it is ready, so that all studies begin together, and writes
into FOLDER/NAME.log when each of its trials begins and ends.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sentune.code import runtime_env
from sentune.records import StudySummary
from sentune.study.config import StudyConfig
from sentune.study.space.space import SearchSpace, Uniform
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.storage import storage_url
from sentune.study.study import Study
from sentune.tracking import Tracker
from sentune.training.group import Group
from sentune.training.trial import Progress, TrialSpec
from tests.toy_trials import OBJECTIVE, toy_spec

TRIALS, BUDGET = 12, 900
SPACE = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Uniform(0.0, 9.0)})


def program(log: Path, spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Takes its time."""
    import time

    with log.open("a") as lines:
        lines.write(f"{spec.trial} begins {time.time()}\n")
    for examples in spec.milestones:
        time.sleep(1.5)  # three times: longer than a driver takes to hear of the others
        if examples == spec.max_examples:
            with log.open("a") as lines:
                lines.write(f"{spec.trial} ends {time.time()}\n")
        yield Progress(
            examples=examples,
            metrics={OBJECTIVE: spec.settings["x"] + examples / 1000},
            final=examples == spec.max_examples,
            save=lambda folder: (folder / "state").write_text("small"),
        )


def main(
    address: str, folder: Path, storage: str, optuna: str, tracking: str, name: str,
    priority: float, most: int | None,
) -> str:  # fmt: skip
    """The study; its state at the end."""
    import ray

    config = StudyConfig(
        name=name, storage=storage, optuna_url=optuna, max_examples=BUDGET, trials=TRIALS,
        scheduler="none", sampler="random", validate_every=300, finalists=0, priority=priority,
        max_concurrent=most,
    )  # fmt: skip
    tracker = Tracker(name, storage, tracking_uri=tracking)
    with DriverLock(storage_url(config.folder, optuna), name) as lock:
        ray.init(
            address=address, log_to_driver=False, logging_level=logging.ERROR,
            runtime_env=runtime_env(),
        )  # fmt: skip
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        work = partial(program, folder / f"{name}.log")
        study = Study(config, SPACE, toy_spec, work, (tracker.notify,), held=lock)
        summary = StudySummary(
            study=name, method="toy", state="running", objective=OBJECTIVE, mode="max",
            corpora={}, space=SPACE.to_dict(),
        )  # fmt: skip
        summary.plan = study.plan.to_dict()
        tracker.start(partial(study.view.snapshot, driven=True), summary)
        (folder / f"{name}.ready").touch()
        while not (folder / "go").exists():
            time.sleep(0.1)
        outcome = study.run()
        summary.state, summary.trials = outcome.state, outcome.trials
        tracker.update(summary)
        sent = tracker.close(timeout=300)
    return outcome.state if sent else "MLflow has not got everything"


if __name__ == "__main__":
    address, folder, storage, optuna, tracking, name, priority, most = sys.argv[1:]
    state = main(
        address, Path(folder), storage, optuna, tracking, name, float(priority),
        int(most) if int(most) else None,
    )  # fmt: skip
    sys.stdout.write(state + "\n")
