"""How a trial's settings are drawn: as a whole, and from seeds that belong to the trial.

A sampler that lives as long as its driver draws other points after a restart, and one with a fixed
seed draws its old points again. Here each trial gets a fresh sampler seeded by (study seed, trial
number), so what a trial draws depends on the store alone.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler
from optuna.search_space.group_decomposed import _GroupDecomposedSearchSpace, _SearchSpaceGroup
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.lazy_import import Later
from sentune.study.samplers.study_adapter import Lines, Remembered, Seen, lines_of, placed
from sentune.study.space.domains import Choice, Dimension, Uniform, Value
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import key, repeats
from sentune.study.store.unended import Unended

if TYPE_CHECKING:
    from scipy.stats import qmc
else:
    qmc = Later("scipy.stats.qmc")

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


Repeats: TypeAlias = Callable[[Mapping[str, float]], bool]
"""Whether the store has a point already."""


class Either:
    """What is in one of two sets; neither is copied."""

    def __init__(self, first: Set[str], second: Set[str]) -> None:
        self._first, self._second = first, second

    def __contains__(self, item: object) -> bool:
        return item in self._first or item in self._second


class WholePoint(BaseSampler):
    """Draws a trial's settings at once, active or not; ``SearchSpace.draw`` takes the active ones.

    What is drawn one by one could not be compared with the store before it is stored.
    """

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.axes = {name: distribution(d) for name, d in space.settings.items()}
        self._ended: set[str] = set()
        self._unended = Unended()
        self._running: dict[int, tuple[FrozenTrial, str]] = {}

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

    def known(self, study: optuna.Study, trial: FrozenTrial) -> Container[str]:
        """Keys of the other trials' settings, but of those that failed by accident."""
        running: dict[int, tuple[FrozenTrial, str]] = {}
        for other in self._unended.look(study.get_trials(deepcopy=False)):
            if not other.state.is_finished():
                before, told = self._running.get(other.number, (None, ""))
                running[other.number] = other, told if before is other else key(other.params)
            elif other.state != Stored.FAIL or repeats(other):
                self._ended.add(key(other.params))
        self._running = running
        others = {told for number, (_, told) in running.items() if number != trial.number}
        return Either(others, self._ended)


class PerTrial(WholePoint):
    """A fresh sampler for each trial, seeded by (study seed, trial number, attempt).

    A point that the store has already is drawn again, ``attempts`` times; then one of those that
    are left is taken, where they can be counted. In GaussCSE's grid of 15 points TPE drew its best
    one again until the search ended by itself.

    Args:
        make: a sampler from a seed and a function that says whether a point, as the sampler has it
            inside, is in the store.
        seed: of the study.
        space: what is searched.
        view: how the sampler sees the study.
        attempts: draws of a trial's point.
    """

    def __init__(
        self,
        make: Callable[[int, Repeats], BaseSampler],
        seed: int,
        space: SearchSpace,
        *,
        view: Callable[[optuna.Study, Lines, Remembered], Seen] = Seen,
        attempts: int = 10,
    ) -> None:
        super().__init__(space)
        self._make, self._seed, self._view, self._attempts = make, seed, view, attempts
        self._lines = lines_of(space.settings)
        self._remembered = Remembered()
        self._places = {
            name: IntDistribution(0, len(self._lines[name]) - 1) if name in self._lines else axis
            for name, axis in self.axes.items()
        }

    def point(self, study: optuna.Study, trial: FrozenTrial) -> Mapping[str, Value]:
        """A point that no other trial has, if one is found."""
        known = self.known(study, trial)
        for attempt in range(self._attempts):
            point = self._draw(study, trial, attempt, known)
            if self.active(point) not in known:
                return point
        return self._left(trial, known) or point

    def _draw(
        self, study: optuna.Study, trial: FrozenTrial, attempt: int, known: Container[str]
    ) -> dict[str, Value]:
        shown: Any = self._view(study, self._lines, self._remembered)
        asking = placed(trial, self._lines)
        with stable():
            seed = derived_seed(self._seed, trial.number, attempt)
            sampler = self._make(seed, lambda point: self._repeats(point, known))
            together = sampler.infer_relative_search_space(shown, asking)
            point = sampler.sample_relative(shown, asking, together)
            for name, axis in self._places.items():
                if name not in point:
                    point[name] = sampler.sample_independent(shown, asking, name, axis)
        return self._values(point)

    def _values(self, point: Mapping[str, Any]) -> dict[str, Value]:
        return {n: self._lines[n][v] if n in self._lines else v for n, v in point.items()}

    def _repeats(self, point: Mapping[str, float], known: Container[str]) -> bool:
        """Of a part of the settings nobody can say."""
        if point.keys() != self._places.keys():
            return False
        held = {name: self._places[name].to_external_repr(v) for name, v in point.items()}
        return self.active(self._values(held)) in known

    def _left(self, trial: FrozenTrial, known: Container[str]) -> dict[str, Value] | None:
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


class Groups(_GroupDecomposedSearchSpace):
    """Which settings are drawn together, as Optuna finds it, from each set of settings once.

    A further trial with the same settings changes nothing. Each trial has a fresh sampler: after
    8,000 trials this takes 5 ms, Optuna's own way 28.
    """

    def calculate(self, study: optuna.Study, use_cache: bool = False) -> _SearchSpaceGroup:
        """The groups; each sampler asks once."""
        found, states = _SearchSpaceGroup(), (Stored.COMPLETE, Stored.PRUNED)
        different: dict[frozenset[str], FrozenTrial] = {}
        for trial in study._get_trials(deepcopy=False, states=states, use_cache=use_cache):
            different.setdefault(frozenset(trial.distributions), trial)
        for trial in different.values():
            found.add_distributions(trial.distributions)
        return found


class FreshTPE(optuna.samplers.TPESampler):
    """TPE that takes the best of its candidates that is not in the store.

    Among few points its best candidate is the best point known, again and again.
    """

    def __init__(self, repeats: Repeats, **options: Any) -> None:
        super().__init__(**options, group=True)
        self._repeats = repeats
        self._group_decomposed_search_space = Groups(include_pruned=True)

    def _compute_acquisition_func(
        self, samples: dict[str, Any], mpe_below: Any, mpe_above: Any
    ) -> Any:
        found = super()._compute_acquisition_func(samples, mpe_below, mpe_above)
        for place in range(len(found)):
            if self._repeats({name: float(values[place]) for name, values in samples.items()}):
                found[place] = -np.inf
        return found


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
