"""Every sampler of the package in Optuna's own test cases for samplers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import optuna
import pytest
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.search_space import intersection_search_space
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import FrozenTrial

from sentune.errors import InvalidValue
from sentune.study import SAMPLERS
from sentune.study.samplers.registry import make_sampler
from sentune.study.space.domains import Choice, Dimension, Integer, Uniform
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import key

Axes = Mapping[str, BaseDistribution]

ONE = ("cmaes", "priorband")
"""Samplers that know one objective."""

RANGE = "a grid lists the values of each setting, so it refuses a continuous range"
CHOICE = "CMA-ES searches numbers, so names to choose from are refused; Optuna draws them at random"
CANNOT = {
    r"(nan|partial_fixed|conditional_parameter|dynamic_range|trial_relative)_\w+\[grid": RANGE,
    r"(float|multi_objective\w*)\[grid-distribution[0-3]\]": RANGE,
    r"(numerical|mixed)\[grid-.*distribution[01]\b": RANGE,
    r"objective\[grid-.*lambda>[04]": RANGE,
    r"categorical\[cmaes-choices[12]\]": CHOICE,
    r"conditional_\w+\[cmaes\]": CHOICE,
}
"""Name of a case, as a regular expression -> why the sampler cannot pass it by design."""


def dimension(axis: Any) -> Dimension:
    """One of Optuna's distributions as a dimension of ours; a range with a step is a choice."""
    if isinstance(axis, CategoricalDistribution):
        return Choice(*axis.choices)
    if not isinstance(axis, FloatDistribution):
        return Integer(axis.low, axis.high, axis.log, axis.step)
    if axis.step is None:
        return Uniform(axis.low, axis.high, axis.log)
    places = range(round((axis.high - axis.low) / axis.step) + 1)
    return Choice(*(min(axis.low + place * axis.step, axis.high) for place in places))


class OwnSampler(optuna.samplers.BaseSampler):
    """A sampler of ours for Optuna's studies, whose spaces are known draw by draw: each draw is
    one of a space of its own, after the trials that lie in it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return intersection_search_space(study.get_trials(deepcopy=False))

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: Axes
    ) -> dict[str, Any]:
        axes = search_space or {"none of the study's": IntDistribution(0, 1)}
        settings = {name: dimension(axis) for name, axis in axes.items()}
        middle = {name: axis.at(0.5) for name, axis in settings.items()}
        space = SearchSpace(objective="toy/score", settings=settings, published=middle)
        modes = [direction.name[:3].lower() for direction in study.directions]
        sampler = make_sampler(self.name, space, trials=16, seed=1, modes=modes)
        trials = [
            other
            for other in study.get_trials(deepcopy=False)
            if other.number < trial.number
            and all(n in other.params and d.contains(other.params[n]) for n, d in settings.items())
        ]
        known = {key({name: other.params[name] for name in settings}) for other in trials}
        return dict(sampler.draw(trials, trial.number, known).point) if search_space else {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        return self.sample_relative(study, trial, {param_name: param_distribution})[param_name]


def each(*names: str) -> Any:
    """A fixture that makes each of these samplers; a case of ``CANNOT`` has to be refused."""

    @pytest.fixture(params=names)
    def sampler(self: object, request: pytest.FixtureRequest) -> Callable[[], OwnSampler]:
        for case, reason in CANNOT.items():
            if re.search(case, request.node.name):
                mark = pytest.mark.xfail(reason=reason, raises=InvalidValue, strict=True)
                request.applymarker(mark)
        return lambda: OwnSampler(request.param)

    return sampler


class TestSeveralObjectives(
    BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase
):
    sampler = each(*(name for name in SAMPLERS if name not in ONE))


class TestOneObjective(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    sampler = each(*ONE)
