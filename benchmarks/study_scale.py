"""A study of ten thousand trials: starting it again, looking at it, and keeping MLflow up to date.

The trials are written into the store directly, each with two rungs of its curve, and the winner has
its checkpoint; nothing is left to run, so a start only finds that out. MLflow, a SQLite database,
gets all runs once; then a new process compares all of them, and one pass more follows in it.
Limits: 30 s, 3 s, and 10 s for each comparison.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from empty_trials import OBJECTIVE, empty
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from sentune.lazy_import import collect_rarely
from sentune.records import StudySummary
from sentune.study.space.space import SearchSpace, Uniform
from sentune.study.study import Study, StudyConfig
from sentune.tracking import Tracker
from sentune.training.checkpoints import CheckpointStore
from sentune.training.trial import Progress
from tests.toy_trials import cluster_of_two_cpus, toy_spec

TRIALS, RESUME_SECONDS, SHOW_SECONDS, COMPARE_SECONDS = 10_000, 30, 3, 10
SPACE = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Uniform(0.0, 1.0)})


def stored(number: int, x: float, milestones: tuple[int, ...]) -> FrozenTrial:
    """A complete trial as the store writes it."""
    said = {
        f"milestone:{at:012d}": {"metrics": {OBJECTIVE: x}, "readouts": {}, "seconds": at / 100}
        for at in milestones
    }
    verdicts = {f"verdict:{at:012d}": {"stop": False, "reason": ""} for at in milestones}
    return create_trial(
        state=TrialState.COMPLETE, value=x, params={"x": x},
        distributions={"x": FloatDistribution(0.0, 1.0)},
        intermediate_values=dict.fromkeys(milestones, x),
        user_attrs={"settings": {"x": x}, "seed": 0, **said, **verdicts},
    )  # fmt: skip


def keep(directory: str, x: float) -> None:
    """The checkpoint of the trial that wins: without it, it would be trained again."""
    best = Progress(examples=900, metrics={OBJECTIVE: x}, final=True, save=lambda folder: None)
    CheckpointStore(directory).save(best, x)


def config(folder: Path) -> StudyConfig:
    """A study whose trials are all there."""
    return StudyConfig(
        name="large", storage=str(folder), max_examples=900, trials=TRIALS, concurrent=2,
        finalists=0, scheduler="asha",
    )  # fmt: skip


def start(folder: Path) -> tuple[Study, Tracker]:
    """A start of the study, with a tracker that looks at it."""
    tracker = Tracker("large", str(folder))
    study = Study(config(folder), SPACE, toy_spec, empty, (tracker.notify,), {})
    summary = StudySummary(
        study="large", method="toy", state="running", objective=OBJECTIVE, mode="max", corpora={},
        space=SPACE.to_dict(),
    )  # fmt: skip
    tracker.start(partial(study.view.snapshot, driven=True), summary)
    return study, tracker


def resumed(folder: Path) -> tuple[float, float]:
    """Seconds of a start that has nothing left to do, and until MLflow holds all of its trials."""
    started = time.monotonic()
    study, tracker = start(folder)
    outcome = study.run()
    seconds = time.monotonic() - started
    assert len(outcome.trials) == TRIALS
    assert tracker.close(timeout=3600)
    return seconds, time.monotonic() - started


def compared(folder: Path) -> tuple[float, float]:
    """Seconds of a new connection's first pass, which reads all runs, and of a pass after it."""
    study, tracker = start(folder)
    seconds = []
    for _ in range(2):
        started = time.monotonic()
        assert tracker.flush(timeout=3600)
        seconds.append(time.monotonic() - started)
    tracker.close()
    study.launch.control.close()
    return seconds[0], seconds[1]


def shown(folder: Path) -> float:
    """Seconds of ``sentune study show``, its start included."""
    started = time.monotonic()
    command = [sys.executable, "-m", "sentune", "study", "show", "large"]
    subprocess.run([*command, "--storage", str(folder)], check=True, capture_output=True)
    return time.monotonic() - started


def main() -> None:
    collect_rarely()  # as a job does
    cluster = cluster_of_two_cpus(logging_level="ERROR")
    with cluster, tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = Study(config(folder), SPACE, toy_spec, empty, (), {})
        milestones = made.config.milestones("max")
        draws = np.random.default_rng(0).uniform(size=TRIALS)
        made.store.study.add_trials(
            [stored(number, float(x), milestones) for number, x in enumerate(draws)]
        )
        made.launch.control.close()
        winner = int(np.argmax(draws))
        keep(made.config.directory(f"{winner:04d}"), float(draws[winner]))
        show = shown(folder)
        resume, sent = resumed(folder)
        passes = compared(folder)
    print(f"a study of {TRIALS:,} trials")
    print(f"  started again, nothing left to do  {resume:6.1f} s (at most {RESUME_SECONDS})")
    print(f"  sentune study show                 {show:6.1f} s (at most {SHOW_SECONDS})")
    print(f"  MLflow gets all of them            {sent:6.1f} s")
    print(f"  MLflow compared, new connection    {passes[0]:6.1f} s (at most {COMPARE_SECONDS})")
    print(f"  MLflow compared, same connection   {passes[1]:6.1f} s (at most {COMPARE_SECONDS})")
    if resume > RESUME_SECONDS or show > SHOW_SECONDS or max(passes) > COMPARE_SECONDS:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
