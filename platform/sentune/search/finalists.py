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

from sentune.records import FinalistRecord, Spread, TrialRecord, TrialState
from sentune.search.audience import Audience
from sentune.search.config import StudyConfig
from sentune.search.ledger import REPEATS, SEED, SETTINGS, Ledger
from sentune.search.source import Candidate, settle_orphans
from sentune.training.checkpoints import CheckpointStore, sweeps_in
from sentune.training.launchers.report import Report

logger = logging.getLogger(__name__)

TRIAL = "trial"


class Finals:
    """The finals of a study: which runs there are, who is told, who wins.

    Args:
        study: Optuna study of the finals.
        ledger: of the search.
        config: number of finalists and seeds.
        audience: told of every run.
    """

    def __init__(
        self, *, study: optuna.Study, ledger: Ledger, config: StudyConfig, audience: Audience
    ) -> None:
        self.search, self.config, self.audience = ledger, config, audience
        self.ledger = replace(ledger, study=study, halving=None, budget=config.max_examples)
        settle_orphans(self.ledger)
        self.source = FinalsSource(self.ledger, self._wanted())
        self._replay()

    def best_trials(self) -> list[TrialRecord]:
        """Complete trials, best first, the earlier first among equals."""
        complete = [r for r in self.search.records() if r.state == TrialState.COMPLETE]
        sign = -1.0 if self.search.mode == "max" else 1.0
        return sorted(complete, key=lambda r: (sign * r.metrics[self.search.objective], r.id))

    def seeds(self) -> list[int]:
        """Fresh ones: those after the seed that all trials of the search had."""
        return [self.config.seed + 1 + place for place in range(self.config.seeds)]

    def _chosen(self) -> list[TrialRecord]:
        return self.best_trials()[: self.config.finalists]

    def _wanted(self) -> list[tuple[TrialRecord, int]]:
        return [(trial, seed) for trial in self._chosen() for seed in self.seeds()]

    def records(self) -> list[FinalistRecord]:
        """Finalists that have a run to show, best mean first."""
        found = [record for trial in self._chosen() if (record := self._record(trial))]
        sign = -1.0 if self.search.mode == "max" else 1.0
        return sorted(found, key=lambda r: (sign * r.metrics[self.search.objective].mean, r.trial))

    def _record(self, trial: TrialRecord) -> FinalistRecord | None:
        runs = self._runs(trial.id)
        if not runs:
            logger.warning("finalist %d: none of its runs came to an end", trial.id)
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
        )

    def _runs(self, trial: int) -> dict[int, TrialRecord]:
        """Seed -> complete run, of the seeds that are asked for now."""
        stored = {
            t.user_attrs[SEED]: self.ledger.record(t)
            for t in self.ledger.trials()
            if t.user_attrs.get(TRIAL) == trial and t.state == Stored.COMPLETE
        }
        return {seed: stored[seed] for seed in self.seeds() if seed in stored}

    def _best_seed(self, runs: dict[int, TrialRecord]) -> int:
        sign = -1.0 if self.search.mode == "max" else 1.0
        return min(runs, key=lambda seed: (sign * runs[seed].metrics[self.search.objective], seed))

    def best_checkpoint(self) -> str | None:
        """Local folder of the checkpoint to ship."""
        finalists = self.records()
        if finalists:
            trial = finalists[0].trial
            run = run_name(trial, self._best_seed(self._runs(trial)))
        elif best := self.best_trials():
            run = f"{best[0].id:04d}"
        else:
            return None
        found = CheckpointStore(self.config.directory(run)).best()
        return str(found) if found is not None else None

    def _replay(self) -> None:
        for trial in self.ledger.trials():
            if trial.state != Stored.RUNNING:
                self.started(trial.number)
                for examples, metrics in self.ledger.record(trial).curve.items():
                    self._progressed(trial, examples, metrics)
                self.ended(trial.number)

    def started(self, number: int) -> None:
        """A run starts or goes on."""
        self.audience.finalist_started(*_identity(self.ledger.get(number)))

    def progressed(self, number: int, report: Report) -> None:
        """A run has reached a milestone."""
        self._progressed(self.ledger.get(number), report.examples, report.metrics)

    def _progressed(self, run: FrozenTrial, examples: int, metrics: dict[str, float]) -> None:
        self.audience.finalist_progressed(*_identity(run), examples, metrics)

    def ended(self, number: int) -> None:
        """A run is over; without metrics if it failed."""
        run, record = self.ledger.get(number), self.ledger.record(number)
        if record.state == TrialState.FAILED:
            trial, seed = _identity(run)
            logger.warning("finalist %d with seed %d failed: %s", trial, seed, record.reason)
            self.audience.finalist_ended(trial, seed, {}, {})
        else:
            trial, seed = _identity(run)
            self.audience.finalist_ended(trial, seed, record.metrics, record.readouts)
            tables = sweeps_in(self.config.directory(run_name(trial, seed)))
            if tables:
                self.audience.run_tables(trial, seed, tables)


class FinalsSource:
    """Gives each (trial, seed) that the store does not have yet, orphans first."""

    def __init__(self, ledger: Ledger, wanted: list[tuple[TrialRecord, int]]) -> None:
        self.ledger, self.finished = ledger, False
        self._enqueue(wanted)
        self._left = [
            t
            for t in ledger.study.get_trials(deepcopy=False)
            if t.state in (Stored.RUNNING, Stored.WAITING)
            and _identity(t) in {(trial.id, seed) for trial, seed in wanted}
        ]

    def _enqueue(self, wanted: list[tuple[TrialRecord, int]]) -> None:
        stored = self.ledger.study.get_trials(deepcopy=False)
        known = {_identity(t) for t in stored if not _worth_another(t)}
        for trial, seed in wanted:
            if (trial.id, seed) not in known:
                notes = {TRIAL: trial.id, SEED: seed, SETTINGS: trial.settings}
                self.ledger.study.enqueue_trial({}, user_attrs=notes)

    def next(self, live: int) -> Candidate | None:
        """The next run."""
        if not self._left:
            self.finished = live == 0
            return None
        run = self._left.pop(0)
        trial, seed = _identity(run)
        self.ledger.claim(run)
        return Candidate(
            number=run.number,
            name=run_name(trial, seed),
            settings=run.user_attrs[SETTINGS],
            seed=seed,
        )


def _worth_another(run: FrozenTrial) -> bool:
    """A run that failed for a reason outside of it, a worker that was lost for one."""
    return run.state == Stored.FAIL and not run.user_attrs.get(REPEATS, False)


def run_name(trial: int, seed: int) -> str:
    """``finalist-0007-seed-3``."""
    return f"finalist-{trial:04d}-seed-{seed}"


def spread(values: list[float]) -> Spread:
    """Mean and sample standard deviation; 0 for a single value, which has none."""
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Spread(mean=float(np.mean(values)), sd=sd, values=values)


def _identity(run: FrozenTrial) -> tuple[int, int]:
    return run.user_attrs[TRIAL], run.user_attrs[SEED]
