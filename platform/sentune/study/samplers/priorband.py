"""PriorBand: settings drawn at random, around the centre of a prior, or around the best trial.

Mallik et al. 2023, "PriorBand: Practical Hyperparameter Optimization in the Age of Deep Learning",
section 5 (the ensemble sampling policy); new trials start at the lowest rung, where a draw at
random and one by the prior or the best are equally likely (as with ASHA there). A wrong prior costs
a bounded share of the draws: half of them are at random, and of the other half the prior's share
falls as the best trials turn out to lie elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial

from sentune.study.samplers.study_adapter import as_numbers, as_shown, distribution, lines_of
from sentune.study.space.domains import Choice, Dimension, Integer, Uniform
from sentune.study.space.space import SearchSpace

SPREAD = 0.25
"""Standard deviation of the prior and of the best trial's neighbourhood, of an axis's length."""

MOVED = 0.5
"""Probability that a setting of the best trial is changed."""


class PriorBand(RandomSampler):
    """Draws one trial; it keeps nothing between two.

    Args:
        seed: of the draw.
        space: its first point is the centre of the prior; a setting without a value there is
            uniform.
        maximise: whether more of the objective is better.
        eta: trials that a rung must have before its best one counts; of more, one in ``eta``.
    """

    def __init__(self, seed: int, space: SearchSpace, *, maximise: bool, eta: int = 3) -> None:
        super().__init__(seed)
        self._random = np.random.default_rng(seed)
        self._settings = as_numbers(space.settings)
        self._centre = as_shown(space.prior, lines_of(space.settings))
        self._sign, self._eta = 1.0 if maximise else -1.0, eta

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {name: distribution(dimension) for name, dimension in self._settings.items()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        best = [trial.params for trial in self._best(study.get_trials(deepcopy=False))]
        kind = self._random.choice(3, p=shares(self._settings, self._centre, best))
        centre: Mapping[str, Any] = ({}, self._centre, best[0] if best else {})[kind]
        return {name: self._drawn(name, centre, moved=kind != 2) for name in self._settings}

    def _drawn(self, name: str, centre: Mapping[str, Any], *, moved: bool) -> Any:
        """Return a value near the centre's, or that itself; a uniform one where it has none."""
        dimension, share = self._settings[name], float(self._random.random())
        if name not in centre:
            return dimension.at(share)
        if not moved and self._random.random() >= MOVED:
            return centre[name]
        if isinstance(dimension, Choice):
            return centre[name] if self._random.random() < 0.5 else dimension.at(share)
        near = NormalDist(_place(dimension, centre[name]), SPREAD)
        low, high = near.cdf(0.0), near.cdf(1.0)
        found = near.inv_cdf(low + share * (high - low))
        return dimension.at(min(max(found, 0.0), math.nextafter(1.0, 0.0)))

    def _best(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """Return the best trials at the highest rung that ``eta`` have reached, the best first."""
        steps = sorted({step for trial in trials for step in trial.intermediate_values})
        for step in reversed(steps):
            there = [trial for trial in trials if step in trial.intermediate_values]
            if len(there) >= self._eta:
                there.sort(key=lambda t: (-self._sign * t.intermediate_values[step], t.number))
                return there[: max(self._eta, len(there) // self._eta)]
        return []


def shares(
    settings: Mapping[str, Dimension],
    centre: Mapping[str, Any],
    best: Sequence[Mapping[str, Any]],
) -> tuple[float, float, float]:
    """Return the probabilities of a draw at random, by the prior and around the best trial.

    The last two share a half by how likely each of them makes the best trials, of which the first
    weighs most.

    Args:
        best: settings of the best trials, the best first; none: nothing is drawn around it.
    """
    if not best:
        return 0.5, 0.5, 0.0
    weights = range(len(best), 0, -1)
    prior, around = (
        sum(w * _density(settings, middle, point) for w, point in zip(weights, best, strict=True))
        for middle in (centre, best[0])
    )
    return 0.5, 0.5 * prior / (prior + around), 0.5 * around / (prior + around)


def _density(
    settings: Mapping[str, Dimension], centre: Mapping[str, Any], point: Mapping[str, Any]
) -> float:
    """Return how much likelier a point is around a centre than at random."""
    found = 1.0
    for name, dimension in settings.items():
        if name not in centre or name not in point:
            continue
        if isinstance(dimension, Choice):
            found *= 0.5 + 0.5 * dimension.size * (centre[name] == point[name])
        else:
            near = NormalDist(_place(dimension, centre[name]), SPREAD)
            found *= near.pdf(_place(dimension, point[name])) / (near.cdf(1.0) - near.cdf(0.0))
    return found


def _place(dimension: Uniform | Integer, value: Any) -> float:
    """Return where a number lies in its range, from 0 to 1; of whole ones the middle of theirs."""
    low, high = dimension.low, dimension.high
    if isinstance(dimension, Integer):
        high, value = high + dimension.step, value + dimension.step / 2
    if dimension.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return float((value - low) / (high - low)) if high > low else 0.5
