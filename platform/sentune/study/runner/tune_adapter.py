"""Adapter that runs a study's trials under Ray Tune, without output on the console.

The trial runner makes all decisions, and the trial store has the state. Tune calls the scheduler
first for every result, so the scheduler stores it. Tune's search asks for runs and learns of their
ends.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune import TuneError
from ray.tune.experiment import Trial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher, SearchGenerator

from sentune.errors import SentuneError
from sentune.formatting import counted
from sentune.launchers.trial_report import Report, died
from sentune.study.runner.limits import Halt
from sentune.study.runner.trial_runner import TrialRunner

ASK_AGAIN_SECONDS = 1.0
"""Seconds until a study without a next run is asked again, unless one of its trials ends before.

In between Tune considers the search finished and ends the workers that it keeps for further trials.
Otherwise it would keep one of them, and its node, until the last trial ends.
"""


BEGUN_SECONDS = 1.0
"""Seconds after which the process of the first trial has been requested and imports its modules."""


class _RunnerPart:
    """Base of the objects through which Tune calls a trial runner.

    Tune pickles them into a snapshot that is never restored. They pickle as empty, because the
    runner has threads and a terminal.
    """

    def __init__(self, runner: TrialRunner) -> None:
        super().__init__()
        self.runner = runner

    def __getstate__(self) -> dict[str, Any]:
        return {}


class StudyScheduler(_RunnerPart, FIFOScheduler):  # type: ignore[misc]  # mypy does not follow ray
    """Tune's scheduler: stores every result, stops trials at their rungs and checks the limits."""

    def __init__(self, runner: TrialRunner, begun: Callable[[], None]) -> None:
        super().__init__(runner)
        self._begun = begun
        self._turn = 0.0  # time of the first turn of Tune's loop

    def begin(self) -> None:
        """Call ``begun`` once."""
        begun, self._begun = self._begun, lambda: None
        begun()

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        goes_on = self.runner.hear(trial.trial_id, result)
        return str(TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Keep the cause of a process's death, which Tune does not pass to the search."""
        file = trial.pickled_error_file
        error = ray.cloudpickle.loads(Path(file).read_bytes()) if file else None
        self.runner.crashes.setdefault(self.runner.live[trial.trial_id].name, died(error))

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Check limits and stalls, and return None. Called in every turn of Tune's loop.

        Tune starts trials in order by itself. A trial returned here would get the next free worker
        even if its own is starting, which Tune then ends.

        When the study halts, trials that wait for a node are withdrawn; the next start continues
        them. Otherwise the study would not end before the nodes came, and a spot machine may take
        hours. On request, trials that write no checkpoint are killed; the next start begins them
        again. If a limit halts the study, they may end. ``study stop --now`` kills all trials.
        """
        runner = self.runner

        def actors() -> dict[str, Any]:
            live = tune_controller.get_live_trials()
            found = {trial.trial_id: trial.temporary_state.ray_actor for trial in live}
            runs = [(run.name, found.get(tune_id)) for tune_id, run in runner.live.items()]
            return {name: actor for name, actor in runs if actor is not None}

        runner.watch(actors)
        self._turn = self._turn or time.monotonic()
        if time.monotonic() - self._turn > BEGUN_SECONDS:
            self.begin()
        if (halt := runner.limits.halt) is not None:
            for trial in list(tune_controller.get_live_trials()):
                if trial.status == Trial.PENDING:
                    runner.last[trial.trial_id] = Report(left=True)
                    trial.init_local_path()  # Tune's results need the folder of every trial
                    tune_controller.stop_trial(trial)
                elif halt.at_once or (halt.requested and not (runner.saves or runner.grouped)):
                    if not runner.last.get(trial.trial_id, Report()).final:
                        runner.last[trial.trial_id] = Report(left=True)
                    if (actor := trial.temporary_state.ray_actor) is not None:
                        ray.kill(actor)
        return None


class StudySearcher(_RunnerPart, Searcher):  # type: ignore[misc]  # nor here
    """Tune's searcher: gets runs from the trial runner, at most ``concurrent`` at a time."""

    def __init__(self, runner: TrialRunner, concurrent: int) -> None:
        super().__init__(runner)
        self.concurrent = concurrent

    @property
    def has_room(self) -> bool:
        """Whether fewer than ``concurrent`` runs are running."""
        return len(self.runner.live) < self.concurrent

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the configuration of the next run."""
        given = self.runner.give(trial_id) if self.has_room else None
        return Searcher.FINISHED if given is None and self.runner.finished else given

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Tell the trial runner that a run has ended."""
        self.runner.end(trial_id, died() if error else None)


class StudySearch(SearchGenerator):  # type: ignore[misc]  # nor here
    """Tune's search: asks the searcher for trials, and tells Tune whether more may follow."""

    def __init__(self, searcher: StudySearcher) -> None:
        super().__init__(searcher)
        self._ask_again = 0.0

    __getstate__ = _RunnerPart.__getstate__

    def next_trial(self) -> Trial | None:
        trial = super().next_trial()
        if trial is None and self.searcher.has_room:
            self._ask_again = time.monotonic() + ASK_AGAIN_SECONDS
        return trial

    def on_trial_complete(self, *event: Any, **more: Any) -> None:
        """Ask again at once, since another trial may start, or this one may run again."""
        super().on_trial_complete(*event, **more)
        self._ask_again = 0.0

    def is_finished(self) -> bool:
        """Return whether nothing can start now or later; see ``ASK_AGAIN_SECONDS``."""
        waits = time.monotonic() < self._ask_again and bool(self.searcher.runner.live)
        return waits or bool(super().is_finished())

    def save_to_dir(self, dirpath: str, session_str: str) -> None:
        """Do nothing: the state is in Optuna's storage."""


class NoProgress(TrialProgressCallback):  # type: ignore[misc]  # nor here
    """Replaces Tune's callback, which prints trials without a result at any verbosity."""

    def on_trial_complete(self, *event: Any, **more: Any) -> None:
        """Print nothing."""


CALLBACKS = "RAY_TUNE_CALLBACKS"


def _callbacks() -> str:
    """Return the user's callbacks of Tune and ours, as the environment variable names them.

    For callbacks that ``RunConfig`` gets Tune imports MLflow before the first trial, to count them.
    """
    own = f"{NoProgress.__module__}.{NoProgress.__name__}"
    return ",".join(filter(None, [os.environ.get(CALLBACKS), own]))


QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    # Tune's snapshots are never restored: Optuna's storage is what a study resumes from
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",
    # Ctrl-C asks the trials for a checkpoint (``own_signals``); Tune's own handler would end them
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}

# Tune's log without messages that do not apply; that trials wait for resources is shown
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
    runner: TrialRunner,
    *,
    study: str,
    concurrent: int,
    begun: Callable[[], None],
) -> bool:
    """Run trials until the runner has no more or halts.

    A trial whose process dies is started again by the runner, not by Tune. So a preempted machine
    counts as no failure, and a trial that ran out of memory gets a smaller micro-batch.

    Args:
        study: name of the study, for the names of its temporary files.
        concurrent: trials at a time.
        begun: called once while the process of the first trial starts, so it costs no extra time.

    Returns:
        False if it was halted; the next start continues the trials that were running.

    Raises:
        SentuneError: raised by the runner, also if Tune has wrapped it in an error of its own.
    """

    def name(trial: Trial) -> str:
        return str(trial.config["trial"])

    # Tune's files are never read; `study gc` removes those of killed processes
    prefix = f"sentune-tune-{os.getpid()}-{study}-"
    files = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    # By default Tune starts one process at a time for a searcher's trials, and a trial that ends
    # passes its process to the waiting one, whose own Tune ends: short trials ran one at a time.
    variables = {"TUNE_MAX_PENDING_TRIALS_PG": str(concurrent), CALLBACKS: _callbacks()}
    scheduler = StudyScheduler(runner, begun)
    with quiet(**variables), own_signals(runner), files as scratch:
        tuner = tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=StudySearch(StudySearcher(runner, concurrent)),
                scheduler=scheduler,
                num_samples=-1,
                reuse_actors=True,
                trial_name_creator=name,
                trial_dirname_creator=name,
            ),
            run_config=tune.RunConfig(
                name=f"start-{int(time.time())}",
                storage_path=scratch,
                verbose=0,
                progress_reporter=tune.CLIReporter(),  # silent; a notebook's own clears the cell
                failure_config=tune.FailureConfig(max_failures=0),
            ),
        )
        try:
            tuner.fit()
        except TuneError as error:
            if (own := _own_error(error)) is not None:
                raise own from None
            raise
    scheduler.begin()
    runner.limits.check()  # the last trial may have met a later start
    return runner.limits.halt is None and runner.finished


def _own_error(error: BaseException | None) -> SentuneError | None:
    """Return the error of this package that caused an error of Tune, if any."""
    while error is not None and not isinstance(error, SentuneError):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def quiet(**more: str) -> Iterator[None]:
    """Silence Tune's tables, result files and advice; ``more`` are more environment variables."""
    wanted = QUIET | more
    before = {name: os.environ.get(name) for name in wanted}
    loggers = {logging.getLogger(name): level for name, level in LEVELS.items()}
    levels = {logger: logger.level for logger in loggers}
    os.environ.update(wanted)
    for logger, level in loggers.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        for name in wanted:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if value is not None})
        for logger, level in levels.items():
            logger.setLevel(level)


@contextmanager
def own_signals(runner: TrialRunner) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP ask trials for a checkpoint; a second signal ends at once.

    ``ray job stop`` sends SIGTERM. A closed terminal sends SIGHUP, which stays ignored under
    ``nohup``. Afterwards the previous handlers are restored, also those that Tune replaces.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    again = False

    def handle(number: int, frame: Any) -> None:
        nonlocal again
        if again:
            raise KeyboardInterrupt
        again = True
        reason = "" if number == signal.SIGINT else "ended by a signal"
        trials = counted(len(runner.live), "trial")
        doing = f"writing checkpoints of {trials}" if runner.saves else f"waiting for {trials}"
        if not (runner.live and (runner.saves or runner.grouped)):
            doing = "ending"
        os.write(2, f"{doing}, again to leave now\n".encode())
        runner.halt(Halt(state="interrupted", reason=reason))

    asking = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in (*asking, signal.SIGUSR1)}
    for number in asking:
        if not (number == signal.SIGHUP and before[number] is signal.SIG_IGN):
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
