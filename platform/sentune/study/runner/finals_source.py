"""The runs of the finals: each chosen trial with each seed, once."""

from __future__ import annotations

from typing import Any

from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.records import TrialRecord
from sentune.study.runner.trial_source import Candidate
from sentune.study.store.trial_codec import MICRO_BATCH, REPEATS, SEED, SETTINGS, TRIAL, run_name
from sentune.study.store.trial_store import Ledger


class FinalsSource:
    """Gives each (trial, seed) that the store does not have yet, orphans first."""

    def __init__(self, ledger: Ledger, wanted: list[tuple[TrialRecord, int]]) -> None:
        self.ledger, self.finished = ledger, False
        self._enqueue(wanted)
        stored = ledger.study.get_trials(deepcopy=False)
        asked = {(trial.id, seed) for trial, seed in wanted}
        left = [t for t in stored if t.state in (Stored.RUNNING, Stored.WAITING)]
        self._left = [t for t in left if identity(t) in asked]

    def _enqueue(self, wanted: list[tuple[TrialRecord, int]]) -> None:
        stored = self.ledger.study.get_trials(deepcopy=False)
        known = {identity(t) for t in stored if not _worth_another(t)}
        for trial, seed in wanted:
            if (trial.id, seed) not in known:
                self.ledger.study.enqueue_trial({}, user_attrs=notes(trial, seed))

    def next(self, live: int) -> Candidate | None:
        """The next run."""
        if not self._left:
            self.finished = live == 0
            return None
        run = self._left.pop(0)
        trial, seed = identity(run)
        self.ledger.claim(run)
        return Candidate(
            number=run.number,
            name=run_name(trial, seed),
            settings=run.user_attrs[SETTINGS],
            seed=seed,
            micro_batch=run.user_attrs.get(MICRO_BATCH, 0),
        )

    def close(self) -> None:
        """No further run."""
        self._left.clear()


def _worth_another(run: FrozenTrial) -> bool:
    """A run that failed for a reason outside of it, a worker that was lost for one."""
    return run.state == Stored.FAIL and not run.user_attrs.get(REPEATS, False)


def notes(trial: TrialRecord, seed: int) -> dict[str, Any]:
    """What the store holds of a run before it starts."""
    return {TRIAL: trial.id, SEED: seed, SETTINGS: trial.settings}


def identity(run: FrozenTrial) -> tuple[int, int]:
    """Trial and seed of a run."""
    return run.user_attrs[TRIAL], run.user_attrs[SEED]
