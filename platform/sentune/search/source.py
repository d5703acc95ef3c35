"""Where the next trial comes from: orphans of a killed driver first, then fresh points."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import optuna
from optuna.trial import TrialState as Stored

from sentune.search.dimensions import Value
from sentune.search.ledger import SETTINGS, TWIN, Ledger, key
from sentune.search.sampling import distribution
from sentune.search.space import SearchSpace

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
    """

    number: int
    name: str
    settings: Mapping[str, Any]
    seed: int


class Source(Protocol):
    """Gives one training run after the other."""

    def next(self, live: int) -> Candidate | None:
        """The next run; None if there is none now, or no more (see ``finished``).

        Args:
            live: runs that have been given and have not ended.
        """

    @property
    def finished(self) -> bool:
        """Whether the last ``next`` was the last one for good."""


class SearchSource:
    """Trials of a search, ``trials`` in all, counted over restarts; copies do not count."""

    def __init__(
        self, ledger: Ledger, space: SearchSpace, *, trials: int, seed: int, first: bool = True
    ) -> None:
        self.ledger, self.space, self.planned, self.seed = ledger, space, trials, seed
        self.finished = self._exhausted = False
        if first:
            self._enqueue_known()
        self._axes = {name: distribution(d) for name, d in space.settings.items()}
        self._orphans = [t for t in ledger.trials() if t.state == Stored.RUNNING]

    def _enqueue_known(self) -> None:
        if not self.ledger.study.get_trials(deepcopy=False):
            for point in self.space.first_points():
                self.ledger.study.enqueue_trial(dict(point))

    def next(self, live: int) -> Candidate | None:
        """The next trial that must be run; copies and settled orphans are passed over."""
        while self._orphans:
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
        return self.space.size is not None and len({key(t.params) for t in trials}) >= max(
            self.space.size, 1
        )

    def _take(self, trial: optuna.Trial, *, resumed: bool) -> Candidate | None:
        """Draws what is not drawn yet; None if the store has the answer already."""
        params = self._draw(trial)
        if not resumed and self._answered(trial, params):
            return None
        settings = {**self.space.fixed, **params}
        self.ledger.start(trial, settings, self.seed)
        name = f"{trial.number:04d}"
        return Candidate(number=trial.number, name=name, settings=settings, seed=self.seed)

    def _draw(self, trial: optuna.Trial) -> dict[str, Value]:
        """A driver may have been killed between asking and drawing: what is stored stays."""
        return {name: trial._suggest(name, axis) for name, axis in self._axes.items()}

    def _answered(self, trial: optuna.Trial, params: Mapping[str, Value]) -> bool:
        if twin := self.ledger.known().get(key(params)):
            self.ledger.copy(trial, twin)
            return True
        earlier = [t for t in self.ledger.trials() if t.number < trial.number]
        running = [t for t in earlier if t.state == Stored.RUNNING and key(t.params) == key(params)]
        if running:
            self.ledger.drop(trial, running[0])
        return bool(running)


def settle_orphans(ledger: Ledger) -> None:
    """Ends every orphan whose end is known: its driver was killed just before the tell."""
    for orphan in ledger.study.get_trials(deepcopy=False):
        if orphan.state != Stored.RUNNING:
            continue
        if TWIN in orphan.user_attrs:
            twin = ledger.get(orphan.user_attrs[TWIN])
            trial = optuna.Trial(ledger.study, orphan._trial_id)
            finish = ledger.copy if twin.state.is_finished() else ledger.drop
            finish(trial, twin)
        elif SETTINGS in orphan.user_attrs:
            ledger.settle(orphan.number)
