"""What Tune is told of the trials that a study wants to run.

No node stays for nothing, and no process starts for nothing.
"""

from __future__ import annotations

import time
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.search import ConcurrencyLimiter, SearchGenerator

from sentune.launchers.trial_report import Report
from sentune.study.runner.searcher import StudyScheduler, StudySearcher
from sentune.study.runner.trial_runner import Conductor

ASK_AGAIN_SECONDS = 1.0
"""A study that has nothing to give is asked again after this time, or when one of its trials ends.

In between Tune takes the search for finished, and so ends the workers that it keeps for further
trials. Otherwise it holds on to one of them, and to its node, for as long as the last trial runs.
"""


class StudySearch(SearchGenerator):
    """Asks a study for trials, and says whether there are more to come.

    Args:
        searcher: gives trials.
        concurrent: trials at a time; as many may wait for nodes at once.
    """

    def __init__(self, searcher: StudySearcher, *, concurrent: int) -> None:
        super().__init__(ConcurrencyLimiter(searcher, max_concurrent=concurrent))
        self.conductor: Conductor = searcher.conductor
        self._concurrent, self._ask_again = concurrent, 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune's snapshot is never restored, and what is behind it holds threads."""
        return {}

    def next_trial(self) -> Trial | None:
        """The next trial, if there is one now."""
        trial = super().next_trial()
        if trial is None and len(self.conductor.live) < self._concurrent:
            self._ask_again = time.monotonic() + ASK_AGAIN_SECONDS
        return trial

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """A trial is over; it may have made room for another one, or have to run again."""
        super().on_trial_complete(trial_id, result, error)
        self._ask_again = 0.0

    def is_finished(self) -> bool:
        """Whether there is nothing to run now beside what runs, or nothing at all any more."""
        waits = time.monotonic() < self._ask_again and bool(self.conductor.live)
        return waits or super().is_finished()


class DemandScheduler(StudyScheduler):
    """Takes back the trials that wait for a node when the study halts.

    They would ask the autoscaler for nodes only to leave them, and the study would not end before
    the nodes came: a spot machine may take hours. The next start goes on with them.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """None: Tune starts trials in their order by itself. Called in every turn of its loop.

        A trial that is named here gets the next worker that is free, even where its own is coming
        up, which Tune then ends: trials shorter than the start of a process would run one at a
        time, beside processes that start for nothing.
        """
        if self.conductor.limits.halt is not None:
            for trial in list(tune_controller.get_live_trials()):
                if trial.status == Trial.PENDING:
                    number = self.conductor.live[trial.trial_id].number
                    self.conductor.last[number] = Report(left=True)
                    tune_controller.stop_trial(trial)
        return None
