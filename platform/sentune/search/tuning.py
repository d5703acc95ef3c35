"""Running a conductor's trials under Ray Tune, without a word on the console."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ray import tune

from sentune.search.searcher import Conductor, StudyScheduler, StudySearcher

QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    # Tune's snapshots are never restored: Optuna's storage is what a study resumes from
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",
}

# what is left of Tune's log: that trials wait for resources, and worse
LEVELS = {
    "ray.tune": logging.WARNING,
    "ray.tune.tune": logging.CRITICAL,
    # advice when a milestone took half a second to store
    "ray.tune.utils.util": logging.ERROR,
    "ray.tune.analysis.experiment_analysis": logging.CRITICAL,
    "ray.tune.execution.experiment_state": logging.CRITICAL,
}


def run_trials(
    trainable: Callable[[dict[str, Any]], None],
    conductor: Conductor,
    *,
    concurrent: int,
    max_failures: int,
) -> bool:
    """Runs trials until the source has no more.

    Args:
        trainable: of a launcher.
        conductor: gives trials and hears of them.
        concurrent: trials at a time.
        max_failures: deaths of a trial's process after which it counts as failed; until then it
            goes on from its last checkpoint.

    Returns:
        False if it was interrupted; what was running then is continued by the next start.
    """
    crashes: dict[str, str] = {}
    with quiet(), own_signals(), tempfile.TemporaryDirectory(prefix="sentune-tune-") as scratch:
        tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=StudySearcher(conductor, crashes),
                scheduler=StudyScheduler(conductor, crashes),
                num_samples=-1,
                max_concurrent_trials=concurrent,
                reuse_actors=True,
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=tune.RunConfig(
                name=f"start-{int(time.time())}",
                storage_path=scratch,
                verbose=0,
                failure_config=tune.FailureConfig(max_failures=max_failures),
            ),
        ).fit()
    return not conductor.live and conductor.source.finished


def _name(trial: Any) -> str:
    return str(trial.config.get("trial", trial.trial_id))


@contextmanager
def quiet() -> Iterator[None]:
    """Tune without tables, result files and advice on how to restore what is never restored."""
    before = {name: os.environ.get(name) for name in QUIET}
    levels = {name: logging.getLogger(name).level for name in LEVELS}
    os.environ.update(QUIET)
    for name, level in LEVELS.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@contextmanager
def own_signals() -> Iterator[None]:
    """Puts back the handlers that Tune leaves behind: Ctrl-C would do nothing after a study."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught = (signal.SIGINT, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
