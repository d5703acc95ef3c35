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

from sentune.study.runner.demand import DemandScheduler, StudySearch
from sentune.study.runner.limits import Halt, Why
from sentune.study.runner.searcher import StudySearcher, Watch
from sentune.study.runner.trial_runner import Conductor, Crash

QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    # Tune's snapshots are never restored: Optuna's storage is what a study resumes from
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",
    # Ctrl-C asks the trials for a checkpoint (see own_signals); Tune's own handler would end them
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
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
    trainable: Callable[[dict[str, Any]], None], conductor: Conductor, *, concurrent: int
) -> bool:
    """Runs trials until the source has no more, or the conductor halts.

    A trial whose process dies is given out again by the conductor, not by Tune: only so a machine
    that was taken back costs no failure, and less memory is asked for after there was too little.

    Args:
        trainable: of a launcher.
        conductor: gives trials and hears of them.
        concurrent: trials at a time.

    Returns:
        False if it was halted; what was running then is continued by the next start.
    """
    crashes: dict[str, Crash] = {}
    with quiet(), own_signals(conductor), scratch_folder() as scratch:
        tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=StudySearch(StudySearcher(conductor, crashes), concurrent=concurrent),
                scheduler=DemandScheduler(conductor, crashes),
                num_samples=-1,
                reuse_actors=True,
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=tune.RunConfig(
                name=f"start-{int(time.time())}",
                storage_path=scratch,
                verbose=0,
                callbacks=[Watch(conductor)],
                failure_config=tune.FailureConfig(max_failures=0),
            ),
        ).fit()
    return conductor.limits.halt is None and conductor.finished


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Where Tune writes what nobody reads."""
    prefix = f"sentune-tune-{os.getpid()}-"  # `study gc` removes those of processes that are gone
    return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)


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
def own_signals(conductor: Conductor) -> Iterator[None]:
    """Ctrl-C, and the end of a submitted job, ask trials for a checkpoint; twice ends at once.

    Afterwards the handlers are as they were: Tune leaves its own behind.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def asked(number: int, frame: Any) -> None:
        del frame
        if conductor.limits.halt is not None and conductor.limits.halt.why is Why.INTERRUPTED:
            raise KeyboardInterrupt
        told = "interrupted" if number == signal.SIGINT else "ended by a signal"
        conductor.halt(Halt(why=Why.INTERRUPTED, reason=told))

    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in caught}
    signal.signal(signal.SIGINT, asked)
    signal.signal(signal.SIGTERM, asked)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
