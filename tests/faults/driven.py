"""A small study as a driver runs it: lock, MLflow, search, finals. Started by test_driver.

Usage: driven.py ADDRESS PLACE CONCURRENT [EVENT SECONDS]

It runs on the Ray cluster of that address, with its storage, databases and scratch folder where
the JSON of PLACE says, and is killed so many seconds after this start's first
run starts (``trial_started``, when no process of it is up yet) or milestone
(``trial_progressed``).
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sentune.code import runtime_env
from sentune.records import StudySummary
from sentune.study.config import StudyConfig
from sentune.study.space.space import Integer, SearchSpace, Uniform
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.storage import storage_url
from sentune.study.store.study_view import StudySnapshot
from sentune.study.study import Study
from sentune.summary import write_summary
from sentune.tracking import Tracker
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.trial import Progress, TrialSpec
from tests.toy_trials import OBJECTIVE, toy_spec

NAME, TRIALS, FINALISTS, SEEDS, BUDGET = "toy", 14, 2, 2, 900
SPACE = SearchSpace(
    method="toy",
    objective=OBJECTIVE,
    settings={"x": Uniform(0.0, 9.0), "y": Integer(0, 2)},
    published={"x": 3.0, "y": 1},
)


def program(worked: Path, spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Scores by a formula, takes its time, and writes down every milestone that it works at."""
    import time

    last = CheckpointStore(spec.directory).last_progress()
    if last is not None:
        yield last.again(lambda folder: None)
    for examples in spec.milestones:
        if last is not None and examples <= last.examples:
            continue
        time.sleep(0.2)
        with worked.open("a") as log:
            log.write(f"{spec.trial} {examples}\n")
        x, y = spec.settings["x"], spec.settings["y"]
        score = -((x - 3) ** 2) / 100 - y / 50 + examples / 10_000 + spec.seed / 1000
        yield Progress(
            examples=examples,
            metrics={OBJECTIVE: score, "train/loss": 1 / examples},
            final=examples == spec.max_examples,
            save=lambda folder: None,
        )


class Killer:
    """A watcher that starts the clock at an event of a trial or of a run of the finals."""

    def __init__(self, event: str, after: float, look: Callable[[], StudySnapshot]) -> None:
        self._event, self._after, self._look = event, after, look
        self._calls, self._reached = 0, self._examples()
        self._armed = True

    def _examples(self) -> dict[str, int]:
        """Name of each run -> examples that it has reached."""
        seen = self._look()
        return {run.name: run.record.examples for run in (*seen.runs, *seen.finals)}

    def __call__(self) -> None:
        self._calls += 1
        if not self._armed or self._calls == 1:  # the first call: before any run of this start
            return
        new = any(at > self._reached.get(run, 0) for run, at in self._examples().items())
        if new or self._event == "trial_started":
            self._armed = False
            threading.Timer(self._after, os.kill, (os.getpid(), signal.SIGKILL)).start()


def main(address: str, place: dict[str, Any], concurrent: int, *killed: str) -> str:
    """One start of the study; its state at the end."""
    import ray

    config = StudyConfig(
        name=NAME, storage=place["storage"], optuna_url=place["optuna"], max_examples=BUDGET,
        trials=TRIALS, concurrent=concurrent, finalists=FINALISTS, seeds=SEEDS, seed=7,
    )  # fmt: skip
    tracker = Tracker(NAME, config.storage, tracking_uri=place["tracking"])
    with DriverLock(storage_url(config.folder, config.optuna_url), NAME) as lock:
        ray.init(
            address=address, log_to_driver=False, logging_level=logging.ERROR,
            runtime_env=runtime_env(),
        )  # fmt: skip
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        work = partial(program, Path(place["scratch"], "worked.log"))
        study = Study(config, SPACE, toy_spec, work, (), {"code": "1"}, held=lock)
        look = partial(study.view.snapshot, driven=True)
        killers = [Killer(killed[0], float(killed[1]), look)] if killed else []
        study.watchers += [*killers, tracker.notify]
        summary = StudySummary(
            study=NAME, method="toy", state="running", objective=OBJECTIVE, mode="max",
            corpora={}, space=SPACE.to_dict(),
        )  # fmt: skip
        summary.plan = study.plan.to_dict()
        tracker.start(look, summary)
        outcome = study.run()
        summary.state, summary.trials = outcome.state, outcome.trials
        summary.finalists, summary.winner = outcome.finalists, outcome.winner
        summary.reason = outcome.reason
        write_summary(summary, config.folder)
        tracker.update(summary)
        sent = tracker.close(timeout=120)
    return outcome.state if sent else "MLflow has not got everything"


if __name__ == "__main__":
    address, place, concurrent, *killed = sys.argv[1:]
    sys.stdout.write(main(address, json.loads(place), int(concurrent), *killed) + "\n")
