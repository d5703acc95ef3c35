"""Where the next trial comes from: orphans of a killed driver first, then fresh points."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.study.samplers.registry import distribution
from sentune.study.space.domains import Value
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import MICRO_BATCH, SETTINGS, TWIN, answers, key
from sentune.study.store.trial_store import TrialStore
from sentune.study.store.unended import Unended

logger = logging.getLogger(__name__)

ATTEMPTS = 50
"""Draws in a row that may be answered from the store before the space counts as used up."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One training run to be started.

    Attributes:
        number: of its Optuna trial.
        name: of the run in its study and of its folder, ``0007`` or ``finalist-0007-seed-3``.
        settings: all of them, drawn and fixed.
        seed: of the training run.
        micro_batch: sentences at a time, after it ran out of memory; 0: as the settings say.
        start_from: run whose checkpoint it takes up where it has none of its own; empty: none.
        start_at: examples of that checkpoint.
        stop_at: examples at which it ends; 0: the study's budget.
    """

    number: int
    name: str
    settings: Mapping[str, Any]
    seed: int
    micro_batch: int = 0
    start_from: str = ""
    start_at: int = 0
    stop_at: int = 0

    @property
    def halved(self) -> Candidate | None:
        """The same run with half as many sentences at a time; None where it cannot be halved."""
        settings = self.settings
        now = self.micro_batch or settings.get("micro_batch") or settings.get("batch_size") or 1
        return replace(self, micro_batch=-(-int(now) // 2)) if int(now) > 1 else None


class Source(Protocol):
    """Gives one training run after the other."""

    def next(self, live: int) -> Candidate | None:
        """The next run; None if there is none now, or no more (see ``finished``).

        Args:
            live: runs that have been given and have not ended.
        """

    def close(self) -> None:
        """No further run, though there may be some; those at work go on."""

    @property
    def finished(self) -> bool:
        """Whether the last ``next`` was the last one for good."""


class SearchSource:
    """Trials of a search, ``trials`` in all, counted over restarts; copies do not count."""

    def __init__(
        self, ledger: TrialStore, space: SearchSpace, *, trials: int, seed: int, first: bool = True
    ) -> None:
        self.ledger, self.space, self.planned, self.seed = ledger, space, trials, seed
        self.finished = self._exhausted = False
        self._known: dict[str, FrozenTrial] = {}
        self._unended = Unended()
        self._ended: set[str] = set()
        if first:
            self._enqueue_known()
        self._orphans = [t for t in ledger.trials() if t.state == Stored.RUNNING]

    def _enqueue_known(self) -> None:
        """Each point once, however often a driver was killed; new ones of a later start too."""
        study = self.ledger.study
        asked = [t.system_attrs.get("fixed_params") for t in study.get_trials(deepcopy=False)]
        known = {key(params) for params in asked if params is not None}
        for point in self.space.first_points():
            if key(point) not in known:
                study.enqueue_trial(dict(point))

    def close(self) -> None:
        """No further trial; those that run go on."""
        self._exhausted = True

    def next(self, live: int) -> Candidate | None:
        """The next trial that must be run; copies and settled orphans are passed over."""
        while self._orphans and not self._exhausted:
            orphan = self._orphans.pop(0)
            trial = optuna.Trial(self.ledger.study, orphan._trial_id)
            candidate = self._take(trial, resumed=bool(orphan.intermediate_values))
            if candidate is not None:
                return candidate
        for _ in range(ATTEMPTS):
            if self._exhausted or self._used_up():
                break
            candidate = self._take(self.ledger.study.ask(), resumed=False)
            if candidate is not None:
                return candidate
        self._exhausted = True  # asked again ten times a second while the last trials run
        self.finished = live == 0
        return None

    def _used_up(self) -> bool:
        trials = self.ledger.trials()
        if len(trials) >= self.planned:
            return True
        if self.space.size is None:
            return False
        running = {key(t.params) for t in trials if not t.state.is_finished()}
        return len(running | self._tried()) >= max(self.space.size, 1)

    def _tried(self) -> set[str]:
        """Settings of every trial that has ended."""
        self._answers()
        return self._ended

    def _take(self, trial: optuna.Trial, *, resumed: bool) -> Candidate | None:
        """Draws what is not drawn yet; None if the store has the answer already."""
        with self.ledger.together():
            params = self._draw(trial)
            if not resumed and self._answered(trial, params):
                return None
            settings = {**self.space.fixed, **params}
            self.ledger.start(trial, settings, self.seed)
        return Candidate(
            number=trial.number,
            name=f"{trial.number:04d}",
            settings=settings,
            seed=self.seed,
            micro_batch=trial.user_attrs.get(MICRO_BATCH, 0),
        )

    def _draw(self, trial: optuna.Trial) -> dict[str, Value]:
        """A driver may have been killed between asking and drawing: what is stored stays."""
        return self.space.draw(lambda name, axis: trial._suggest(name, distribution(axis)))

    def _answered(self, trial: optuna.Trial, params: Mapping[str, Value]) -> bool:
        if twin := self._answers().get(key(params)):
            self.ledger.copy(trial.number, twin)
            return True
        running = (t for t in self.ledger.trials() if t.state == Stored.RUNNING)
        alike = [t for t in running if t.number < trial.number and t.params == params]
        same = [t for t in alike if key(t.params) == key(params)]  # 1 is not True
        if same:
            self.ledger.drop(trial.number, same[0])
        return bool(same)

    def _answers(self) -> dict[str, FrozenTrial]:
        """Settings whose outcome is known -> trial; what has ended never changes.

        Trials that were taken over from another study answer too.
        """
        for trial in self._unended.look(self.ledger.all_trials()):
            if not trial.state.is_finished() or TWIN in trial.user_attrs:
                continue
            if SETTINGS in trial.user_attrs:
                self._ended.add(key(trial.params))
                if answers(trial):
                    self._known[key(trial.params)] = trial
        return self._known


def settle_orphans(ledger: TrialStore) -> None:
    """Ends every orphan whose end is known: its driver was killed just before the tell."""
    for orphan in ledger.all_trials():
        if orphan.state != Stored.RUNNING:
            continue
        if TWIN in orphan.user_attrs:
            twin = ledger.get(orphan.user_attrs[TWIN])
            finish = ledger.copy if twin.state.is_finished() else ledger.drop
            finish(orphan.number, twin)
        elif SETTINGS in orphan.user_attrs:
            ledger.settle(orphan.number)
