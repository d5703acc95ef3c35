"""Tune's view of a study: a searcher that gives out trials and a scheduler that hears of them.

Tune tells a searcher only that a trial has ended; its scheduler hears every result first and so
writes the curve. Both are thin: what happens is the conductor's, the state is in the ledger.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from sentune.study.runner.trial_runner import Conductor, Crash, crash_of


class _LeftOut:
    """Tune pickles searcher and scheduler into a snapshot, which is never restored here.

    Nothing of them goes into it: what watches a study holds threads and terminals.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {}


class StudySearcher(_LeftOut, Searcher):
    """Gives Tune the runs of a conductor."""

    def __init__(self, conductor: Conductor, crashes: dict[str, Crash]) -> None:
        super().__init__()
        self.conductor, self.crashes = conductor, crashes

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        """The next run."""
        given = self.conductor.give(trial_id)
        if given is None:
            return Searcher.FINISHED if self.conductor.finished else None
        return given

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """A run is over."""
        del result
        crash = self.crashes.pop(trial_id, Crash()) if error else None
        self.conductor.end(trial_id, crash)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the state is in Optuna's storage, and Tune's snapshots are never restored."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, as above."""


class StudyScheduler(_LeftOut, FIFOScheduler):
    """Hears every result before Tune's searcher does."""

    def __init__(self, conductor: Conductor, crashes: dict[str, Crash]) -> None:
        super().__init__()
        self.conductor, self.crashes = conductor, crashes

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Stores the milestone and stops what its rung stops."""
        goes_on = self.conductor.hear(trial.trial_id, result)
        return str(TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Keeps why a process died; the searcher is told next, without a reason."""
        file = trial.pickled_error_file
        error = ray.cloudpickle.loads(Path(file).read_bytes()) if file else None
        self.crashes[trial.trial_id] = crash_of(error)


class Watch(_LeftOut, Callback):
    """Looks at the clock and at what was asked of the driver, in every turn of Tune's loop."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__()
        self.conductor = conductor

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Ends the study where its time is up."""
        self.conductor.watch()
