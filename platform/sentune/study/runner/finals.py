"""The best trials, trained again from fresh seeds: a result is a mean over seeds.

Across seeds these methods move by about two points, more than most published differences, so the
trial that won the search may owe it to its seed. Finalists never see the search's seed, and the
winner is chosen by mean on dev. What is shipped is the winner's best seed on dev; what is reported
is mean and standard deviation over all of its seeds.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace

import numpy as np
import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.records import FinalistRecord, Spread, TrialRecord
from sentune.study.config import StudyConfig
from sentune.study.runner.retention import ranked
from sentune.study.runner.seed_comparison import Comparison, compare
from sentune.study.runner.trial_source import FinalsSource, identity, settle_orphans
from sentune.study.store.trial_codec import SEED, TRIAL, run_name
from sentune.study.store.trial_store import TrialStore
from sentune.training.checkpoints import CheckpointStore

logger = logging.getLogger(__name__)

_OPEN: list[CheckpointStore] = []
"""Of checkpoints that are being shipped: a download goes with its store."""


class Finals:
    """The finals of a study: which runs there are, and which trial wins.

    Args:
        study: Optuna study of the finals.
        store: of the search.
        config: number of finalists and seeds.
    """

    def __init__(
        self,
        *,
        study: optuna.Study,
        store: TrialStore,
        config: StudyConfig,
    ) -> None:
        self.search, self.config = store, config
        self.store = replace(
            store, study=study, scheduler=None, constraints=(), budget=config.max_examples
        )
        settle_orphans(self.store)
        self._dismiss()
        self.source = FinalsSource(self.store, self._wanted())

    def best_trials(self) -> list[TrialRecord]:
        """Return complete trials that hold every constraint, best first, the earlier among equals.

        With several objectives only those on the Pareto front, by the first objective.
        """
        return ranked(self.search.records(), self.search.objectives)

    def seeds(self) -> list[int]:
        """Return the fresh seeds: those after the one that all trials of the search had."""
        return [self.config.seed + 1 + place for place in range(self.config.seeds)]

    def _chosen(self) -> list[TrialRecord]:
        return self.best_trials()[: self.config.finalists]

    def _wanted(self) -> list[tuple[TrialRecord, int]]:
        return [(trial, seed) for trial in self._chosen() for seed in self.seeds()]

    def _dismiss(self) -> None:
        """Fail the runs that a killed driver left of trials that are no finalists any more."""
        wanted = {(trial.id, seed) for trial, seed in self._wanted()}
        for run in self.store.trials():
            if run.state == Stored.RUNNING and identity(run) not in wanted:
                self.store.fail(run.number, "no longer among the finalists")

    def records(self) -> list[FinalistRecord]:
        """Return finalists that have a run to show, best mean first."""
        found = [record for trial in self._chosen() if (record := self._record(trial))]
        first = self.search.first
        return sorted(found, key=lambda r: (-first.sign * r.metrics[first.metric].mean, r.trial))

    def comparison(self) -> Comparison | None:
        """Return the winner against the runner-up; None without finalists."""
        return compare(self.records(), self.search.first)

    def _record(self, trial: TrialRecord) -> FinalistRecord | None:
        runs = self._runs(trial.id)
        if not runs:
            return None
        values: dict[str, list[float]] = defaultdict(list)
        for run in runs.values():
            for name, value in run.metrics.items():
                values[name].append(value)
        return FinalistRecord(
            trial=trial.id,
            settings=trial.settings,
            seeds=list(runs),
            readouts=runs[self._best_seed(runs)].readouts,
            metrics={name: spread(found) for name, found in values.items()},
            seconds=sum(run.seconds for run in self._of(trial.id)),
            gpu_seconds=sum(run.gpu_seconds for run in self._of(trial.id)),
        )

    def _of(self, trial: int) -> list[TrialRecord]:
        """Return all runs of a finalist, those that failed too."""
        stored = self.store.trials()
        return [self.store.record(run) for run in stored if run.user_attrs.get(TRIAL) == trial]

    def _runs(self, trial: int) -> dict[int, TrialRecord]:
        """Seed -> complete run, of the seeds that are asked for now."""
        stored = {
            t.user_attrs[SEED]: self.store.record(t)
            for t in self.store.trials()
            if t.user_attrs.get(TRIAL) == trial and t.state == Stored.COMPLETE
        }
        return {seed: stored[seed] for seed in self.seeds() if seed in stored}

    def _best_seed(self, runs: dict[int, TrialRecord]) -> int:
        first = self.search.first
        return min(runs, key=lambda seed: (-first.of(runs[seed].metrics), seed))

    def runs(self) -> dict[str, TrialRecord]:
        """Return name -> run, all that are stored, also of trials that are not chosen any more."""
        return {run_name(*identity(t)): self.store.record(t) for t in self.store.trials()}

    def winning_run(self) -> str | None:
        """Name of the run whose model is shipped, as things stand; None where no trial may win."""
        if finalists := self.records():
            trial = finalists[0].trial
            return run_name(trial, self._best_seed(self._runs(trial)))
        best = self.best_trials()
        if not best:
            return None
        again = self._runs_of_seed(best[0].id, self.config.seed)
        return run_name(best[0].id, self.config.seed) if again else f"{best[0].id:04d}"

    def _runs_of_seed(self, trial: int, seed: int) -> list[FrozenTrial]:
        """Return complete runs of a trial with a seed."""
        complete = [t for t in self.store.trials() if t.state == Stored.COMPLETE]
        return [run for run in complete if identity(run) == (trial, seed)]

    def best_checkpoint(self) -> str | None:
        """Return the local folder of the checkpoint to ship."""
        run = self.winning_run()
        if run is None:
            return None
        store = CheckpointStore(self.config.directory(run))
        found = store.best()
        _OPEN.append(store)
        return str(found) if found is not None else None

    def lost(self) -> FinalsSource | None:
        """The winning run once more, where its best checkpoint is gone; None where all is well.

        Once a winner is published the others' checkpoints are dropped, and with further trials or
        seeds one of them may win after all; or a disk has damaged it; or, without finalists, it
        is a trial that was taken over from another study. The same seed trains the
        same model again, from the start: a newer checkpoint would not come past the best one.
        """
        run = self.winning_run()
        if run is None:
            return None
        store = CheckpointStore(self.config.directory(run))
        if store.best() is not None and not store.notes:
            return None
        trial, seed = self._winner()
        store.drop_all()
        logger.warning(
            "%s has won and its best checkpoint is %s: it is trained again",
            run,
            f"with {trial.source}" if trial.source else "gone",
        )
        return FinalsSource(self.store, [(trial, seed)], again=True)

    def _winner(self) -> tuple[TrialRecord, int]:
        """The trial whose run wins, and the seed of that; without finalists the search's seed."""
        records, best = self.records(), self.best_trials()
        if not records:
            return best[0], self.config.seed
        (trial,) = [trial for trial in best if trial.id == records[0].trial]
        return trial, self._best_seed(self._runs(trial.id))


def spread(values: list[float]) -> Spread:
    """Return the mean and sample standard deviation; 0 for a single value, which has none."""
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Spread(mean=float(np.mean(values)), sd=sd, values=values)
