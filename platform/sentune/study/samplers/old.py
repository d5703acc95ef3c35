"""What TPE need not look at in a study of thousands of trials."""

from __future__ import annotations

from collections.abc import Sequence

import optuna
from optuna.samplers._tpe.sampler import _split_trials
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.study.store.trial_codec import TWIN
from sentune.study.store.unended import Unended

NEWEST, STEP = 1_000, 250
"""Trials that are seen whatever came of them, and how many more before some are let go."""

BEST = 25
"""Trials that TPE takes for good ones, at most (``default_gamma`` of Optuna 5.0.0)."""

_LEARNED = (Stored.COMPLETE, Stored.PRUNED)


class Old:
    """The best of a study's first trials, and those of them that have not ended."""

    def __init__(self) -> None:
        self._unended = Unended()
        self._best: list[FrozenTrial] = []

    def and_newest(self, study: optuna.Study, stored: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """These and all that are newer, by number."""
        until = max(0, (len(stored) - NEWEST) // STEP * STEP)
        ended = [t for t in self._unended.look(stored, until) if t.state in _LEARNED]
        own = [trial for trial in ended if TWIN not in trial.user_attrs]
        if own:  # the best of the best of some and of further ones are the best of them all
            self._best, _ = _split_trials(study, [*self._best, *own], BEST)
        first = [*self._best, *(stored[number] for number in self._unended.numbers)]
        return [*sorted(first, key=lambda trial: trial.number), *stored[until:]]
