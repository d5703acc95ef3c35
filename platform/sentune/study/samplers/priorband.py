"""PriorBand: settings drawn at random, around the centre of a prior, or around the best trial.

Mallik et al. 2023, "PriorBand: Practical Hyperparameter Optimization in the Age of Deep Learning",
section 5 (ensemble sampling policy). New trials start at the lowest rung, where half of the draws
are random, as with ASHA in the paper. The other half is shared by the prior and the best trial; the
prior's part shrinks if the best trials lie elsewhere, so a wrong prior costs a bounded share.
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
"""Standard deviation around the prior's centre and the best trial, relative to an axis's length."""

MOVED = 0.5
"""Probability that a setting of the best trial is changed."""


class PriorBand(RandomSampler):
    """Optuna sampler for one draw.

    Args:
        seed: seed of the draw.
        space: search space; the prior's centre is its first point, and settings without a value
            there are uniform.
        maximise: whether more of the objective is better.
        eta: fewest trials at a rung before its best ones count; these are one in ``eta``, but at
            least ``eta``.
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
        """Return a value near the centre's, or uniform if the centre has none.

        If not ``moved``, the centre's own value is returned with probability 1 - ``MOVED``.
        """
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
        """Return the best trials at the highest rung that ``eta`` have reached, best first."""
        steps = sorted({step for trial in trials for step in trial.intermediate_values})
        for step in reversed(steps):
            there = [trial for trial in trials if step in trial.intermediate_values]
            if len(there) >= self._eta:
                there.sort(key=lambda t: (-self._sign * t.intermediate_values[step], t.number))
                return there[: max(self._eta, len(there) // self._eta)]
        return []


def shares(
    settings: Mapping[str, Dimension], centre: Mapping[str, Any], best: Sequence[Mapping[str, Any]]
) -> tuple[float, float, float]:
    """Return the probabilities of a draw at random, by the prior and around the best trial.

    The last two share one half in proportion to the likelihood that each gives to the best trials,
    weighted by rank. ``best`` begins with the best; if it is empty, the third probability is 0.
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
    """Return the density of a point around a centre, relative to a uniform draw."""
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
    """Return the place of a number in its range, from 0 to 1; of an integer, its bin's middle."""
    low, high = dimension.low, dimension.high
    if isinstance(dimension, Integer):
        high, value = high + dimension.step, value + dimension.step / 2
    if dimension.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return float((value - low) / (high - low)) if high > low else 0.5
