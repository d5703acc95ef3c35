"""Samplers by name, drawn from seeds that belong to the trial and not to the process.

A sampler that lives as long as its driver draws other points after a restart, and one with a fixed
seed draws its old points again. Here each trial gets a fresh sampler seeded by (study seed, trial
number), so what a trial draws depends on the store alone.
"""

from __future__ import annotations

import importlib.util
import warnings
import zlib
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

from sentune.errors import InvalidValue
from sentune.search.dimensions import Choice, Dimension, Uniform, Value
from sentune.search.space import SearchSpace

STARTUP = (4, 10)
"""Fewest and most random trials before a model of the objective is used."""

SAMPLERS = ("tpe", "random", "grid", "qmc", "gp", "cmaes")


def distribution(dimension: Dimension) -> BaseDistribution:
    """The dimension as Optuna has it."""
    if isinstance(dimension, Choice):
        return CategoricalDistribution(dimension.values)
    if isinstance(dimension, Uniform):
        return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    return IntDistribution(dimension.low, dimension.high, log=dimension.log, step=dimension.step)


def derived_seed(seed: int, number: int) -> int:
    """A 31-bit seed of one trial's draw; close seeds and numbers give unrelated ones."""
    return int(np.random.SeedSequence([abs(seed), number]).generate_state(1)[0] >> 1)


def make_sampler(name: str, space: SearchSpace, *, trials: int, seed: int) -> BaseSampler:
    """The sampler of a study.

    Args:
        name: ``tpe``, ``random``, ``grid``, ``grid:NAME``, ``qmc``, ``gp`` or ``cmaes``.
        space: what is searched; for ``grid:NAME`` the space that ``on_grid`` made.
        trials: planned trials, a quarter of which are drawn at random first (4 to 10).
        seed: of the study.

    Raises:
        InvalidValue: an unknown name, a package that is missing, or a grid over a range.
    """
    kind = name.partition(":")[0]
    if kind == "grid":
        return GridOrder(list(space.points()))
    if kind == "qmc":
        with _stable():
            return optuna.samplers.QMCSampler(seed=seed, scramble=True)
    if kind == "cmaes" and importlib.util.find_spec("cmaes") is None:
        raise InvalidValue("--sampler", name, "it needs the package cmaes: pip install cmaes")
    startup = min(max(trials // 4, STARTUP[0]), STARTUP[1])
    made = _seeded(startup)
    if kind not in made:
        raise InvalidValue("--sampler", name, f"give one of {', '.join(SAMPLERS)}, or grid:NAME")
    return PerTrial(made[kind], seed)


@contextmanager
def _stable() -> Iterator[None]:
    """Optuna marks TPE's groups, QMC and GP as experimental; its version is pinned by the lock."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def _seeded(startup: int) -> dict[str, Callable[[int], BaseSampler]]:
    """Name -> sampler from a seed."""
    return {
        "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
        "tpe": lambda seed: optuna.samplers.TPESampler(
            seed=seed,
            multivariate=True,
            group=True,
            constant_liar=True,
            n_startup_trials=startup,
        ),
        "gp": lambda seed: optuna.samplers.GPSampler(
            seed=seed, n_startup_trials=startup, deterministic_objective=False
        ),
        "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=startup),
    }


class PerTrial(BaseSampler):
    """A fresh sampler for each trial, seeded by (study seed, trial number)."""

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._number, self._sampler = -1, self._fresh(seed)

    def _fresh(self, seed: int) -> BaseSampler:
        with _stable():
            return self._make(seed)

    def _of(self, trial: FrozenTrial) -> BaseSampler:
        if trial.number != self._number:
            self._number = trial.number
            self._sampler = self._fresh(derived_seed(self._seed, trial.number))
        return self._sampler

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """As the trial's own sampler has it."""
        return self._of(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draws the settings that are drawn together."""
        return self._of(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draws one setting.

        Seeded by the setting as well, because a trial that was killed between two draws goes on
        with the second.
        """
        place = zlib.crc32(param_name.encode())
        sampler = self._fresh(derived_seed(self._seed + place, trial.number))
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """As the trial's own sampler has it."""
        self._of(trial).before_trial(study, trial)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: optuna.trial.TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """As the trial's own sampler has it."""
        self._of(trial).after_trial(study, trial, state, values)


class GridOrder(BaseSampler):
    """The points of a grid in their order, skipping those that the store has already.

    Optuna's own GridSampler shuffles, spends the first points on trials that were enqueued, and
    stops a study from inside ``tell``, which ask-and-tell does not allow.
    """

    def __init__(self, points: Sequence[Mapping[str, Value]]) -> None:
        self._points = points

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """None: a point is taken as a whole in ``sample_independent``."""
        del study, trial
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing."""
        del study, trial, search_space
        return {}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The setting's value at the trial's point."""
        del param_distribution
        return self._point(study, trial)[param_name]

    def _point(self, study: optuna.Study, trial: FrozenTrial) -> Mapping[str, Value]:
        earlier = [t.params for t in study.get_trials(deepcopy=False) if t.number < trial.number]
        for point in self._points:
            if point not in earlier:
                return point
        return self._points[0]
