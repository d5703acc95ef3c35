"""How a trial's settings are drawn: as a whole, and from seeds that belong to the trial.

A sampler that lives as long as its driver draws other points after a restart, and one with a fixed
seed draws its old points again. Here each trial gets a fresh sampler seeded by (study seed, trial
number), so what a trial draws depends on the store alone.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored
from scipy.stats import qmc

from sentune.search.dimensions import Choice, Dimension, Uniform, Value
from sentune.search.seen import Seen
from sentune.search.space import SearchSpace
from sentune.search.stored import REPEATS, key

COUNTABLE = 10_000
"""Configurations up to which those that are left are listed, where draws only repeat themselves."""


def distribution(dimension: Dimension) -> BaseDistribution:
    """The dimension as Optuna has it."""
    if isinstance(dimension, Choice):
        return CategoricalDistribution(dimension.values)
    if isinstance(dimension, Uniform):
        return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    return IntDistribution(dimension.low, dimension.high, log=dimension.log, step=dimension.step)


def derived_seed(seed: int, *places: int) -> int:
    """A 31-bit seed of one draw; close seeds and places give unrelated ones."""
    return int(np.random.SeedSequence([abs(seed), *places]).generate_state(1)[0] >> 1)


@contextmanager
def stable() -> Iterator[None]:
    """Optuna marks TPE's groups, QMC and GP as experimental; its version is pinned by the lock."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


class WholePoint(BaseSampler):
    """Draws a trial's settings at once, active or not; ``SearchSpace.draw`` takes the active ones.

    What is drawn one by one could not be compared with the store before it is stored.
    """

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.axes = {name: distribution(d) for name, d in space.settings.items()}

    @abstractmethod
    def point(self, study: optuna.Study, trial: FrozenTrial) -> Mapping[str, Value]:
        """A value of every setting that may become active."""

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All settings."""
        del study, trial
        return self.axes

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The trial's point."""
        point = self.point(study, trial)
        return {name: point[name] for name in search_space if name in point}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The setting's value at the trial's point; asked for where a value is enqueued beside it.

        Raises:
            KeyError: a setting outside the space.
        """
        del param_distribution
        return self.point(study, trial)[param_name]

    def active(self, point: Mapping[str, Value]) -> str:
        """The key of a point's active settings."""
        return key(self.space.draw(lambda name, _: point[name]))

    def known(self, study: optuna.Study, trial: FrozenTrial) -> set[str]:
        """Keys of the other trials' settings, but of those that failed by accident."""
        return {
            key(other.params)
            for other in study.get_trials(deepcopy=False)
            if other.number != trial.number
            and (other.state != Stored.FAIL or other.user_attrs.get(REPEATS))
        }


class PerTrial(WholePoint):
    """A fresh sampler for each trial, seeded by (study seed, trial number, attempt).

    A point that the store has already is drawn again from another seed, ``attempts`` times; then
    one of those that are left is taken, where they can be counted. In GaussCSE's grid of 15
    points TPE drew its best one again until the search ended by itself.
    """

    def __init__(
        self,
        make: Callable[[int], BaseSampler],
        seed: int,
        space: SearchSpace,
        *,
        view: Callable[[optuna.Study], Seen] = Seen,
        attempts: int = 10,
    ) -> None:
        super().__init__(space)
        self._make, self._seed, self._view, self._attempts = make, seed, view, attempts

    def point(self, study: optuna.Study, trial: FrozenTrial) -> Mapping[str, Value]:
        """A point that no other trial has, if one is found."""
        known = self.known(study, trial)
        for attempt in range(self._attempts):
            point = self._draw(study, trial, attempt)
            if self.active(point) not in known:
                return point
        return self._left(trial, known) or point

    def _draw(self, study: optuna.Study, trial: FrozenTrial, attempt: int) -> dict[str, Value]:
        shown: Any = self._view(study)
        with stable():
            sampler = self._make(derived_seed(self._seed, trial.number, attempt))
            together = sampler.infer_relative_search_space(shown, trial)
            point = sampler.sample_relative(shown, trial, together)
            for name, axis in self.axes.items():
                if name not in point:
                    point[name] = sampler.sample_independent(shown, trial, name, axis)
        return point

    def _left(self, trial: FrozenTrial, known: set[str]) -> dict[str, Value] | None:
        size = self.space.size
        if size is None or size > COUNTABLE:
            return None
        left = [point for point in self.space.points() if key(point) not in known]
        return left[derived_seed(self._seed, trial.number) % len(left)] if left else None

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: Stored,
        values: Sequence[float] | None,
    ) -> None:
        """Nothing: the samplers in use keep nothing from trial to trial."""


class Sobol(WholePoint):
    """Points of a scrambled Sobol sequence, the trial's number being the place in it.

    Optuna's own draws choices at random, and its place in the sequence is lost by a kill.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        super().__init__(space)
        self._seed = seed

    def point(self, study: optuna.Study, trial: FrozenTrial) -> Mapping[str, Value]:
        """The point at the trial's place."""
        del study
        if not self.axes:
            return {}
        sequence = qmc.Sobol(len(self.axes), scramble=True, rng=derived_seed(self._seed))
        if trial.number:  # scipy cannot go forward by nothing
            sequence.fast_forward(trial.number)
        places = sequence.random(1)[0]
        dimensions = self.space.settings.items()
        return {name: d.at(float(u)) for (name, d), u in zip(dimensions, places, strict=True)}


class GridOrder(WholePoint):
    """The points of a grid in their order, skipping those that the store has already.

    Optuna's own GridSampler shuffles, spends the first points on trials that were enqueued, and
    stops a study from inside ``tell``, which ask-and-tell does not allow.
    """

    def __init__(self, space: SearchSpace) -> None:
        super().__init__(space)
        self._points = list(space.points())

    def point(self, study: optuna.Study, trial: FrozenTrial) -> Mapping[str, Value]:
        """The first point that no earlier trial has."""
        trials = study.get_trials(deepcopy=False)
        earlier = {key(other.params) for other in trials if other.number < trial.number}
        left = (point for point in self._points if key(point) not in earlier)
        return next(left, self._points[0])
