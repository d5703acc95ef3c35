"""Samplers by name, and what each of them cannot do."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial

import optuna
from optuna.samplers import BaseSampler

from sentune.errors import InvalidValue
from sentune.study.samplers import SAMPLERS
from sentune.study.samplers.per_trial import (
    FreshTPE,
    GridOrder,
    PerTrial,
    Repeats,
    Sobol,
    derived_seed,
    distribution,
)
from sentune.study.samplers.study_adapter import Finished, Newest, Seen, lines_of
from sentune.study.space.constraints import Constraint
from sentune.study.space.domains import Choice
from sentune.study.space.space import SearchSpace

STARTUP = (4, 10)
"""Fewest and most random trials before a model of the objective is used."""


GP_TRIALS = 500
"""Most trials of a Gaussian process, whose cost grows with their cube."""

__all__ = ["SAMPLERS", "derived_seed", "distribution", "make_sampler"]


def make_sampler(
    name: str,
    space: SearchSpace,
    *,
    trials: int,
    seed: int,
    objectives: int = 1,
    constraints: Sequence[Constraint] = (),
) -> BaseSampler:
    """The sampler of a study.

    Random, grid and Sobol points follow nothing that was measured, the objective included; under
    constraints they are as good as without.

    Args:
        name: ``tpe``, ``random``, ``grid``, ``grid:NAME``, ``qmc``, ``gp``, ``cmaes`` or ``nsga2``.
        space: what is searched; for ``grid:NAME`` the space that ``on_grid`` made.
        trials: planned trials, a quarter of which are drawn at random first (4 to 10).
        seed: of the study.
        objectives: number of them.
        constraints: on metrics, which a sampler with a model must learn too.

    Raises:
        InvalidValue: an unknown name, a package that is missing, a grid over a range, or
            something that the sampler cannot do; Optuna would draw at random there in silence.
    """
    kind = name.partition(":")[0]
    if kind == "grid":
        return GridOrder(space)
    if kind == "qmc":
        return Sobol(space, seed)
    startup = min(max(trials // 4, STARTUP[0]), STARTUP[1])
    made: dict[str, Callable[[], BaseSampler]] = {
        "random": lambda: PerTrial(_random, seed, space),
        "tpe": lambda: PerTrial(
            partial(_tpe, startup), seed, space, view=Newest if objectives == 1 else Seen
        ),
        "gp": lambda: _gp(startup, seed, space, trials),
        "cmaes": lambda: _cmaes(startup, seed, space, objectives, constraints),
        "nsga2": lambda: _nsga2(seed, space, trials),
    }
    if kind not in made:
        raise InvalidValue("--sampler", name, f"give one of {', '.join(SAMPLERS)}, or grid:NAME")
    return made[kind]()


def _random(seed: int, repeats: Repeats) -> BaseSampler:
    del repeats
    return optuna.samplers.RandomSampler(seed=seed)


def _tpe(startup: int, seed: int, repeats: Repeats) -> BaseSampler:
    return FreshTPE(
        repeats,
        seed=seed,
        multivariate=True,
        constant_liar=True,
        n_startup_trials=startup,
    )


def _gp(startup: int, seed: int, space: SearchSpace, trials: int) -> BaseSampler:
    if space.conditions:
        fix = f"it draws conditional settings ({_listed(space.conditions)}) at random; give tpe"
        raise InvalidValue("--sampler", "gp", fix)
    if trials > GP_TRIALS:
        fix = f"its cost grows with the cube of the trials; give tpe, or --trials {GP_TRIALS}"
        raise InvalidValue("--sampler", "gp", fix)

    def make(seed: int, repeats: Repeats) -> BaseSampler:
        del repeats
        return optuna.samplers.GPSampler(
            seed=seed, n_startup_trials=startup, deterministic_objective=False
        )

    # from another seed it finds the same point: its model is what it is
    return PerTrial(make, seed, space, view=partial(Finished, constrained=True), attempts=1)


def _cmaes(
    startup: int,
    seed: int,
    space: SearchSpace,
    objectives: int,
    constraints: Sequence[Constraint],
) -> BaseSampler:
    if importlib.util.find_spec("cmaes") is None:
        raise InvalidValue("--sampler", "cmaes", "it needs the package cmaes: pip install cmaes")
    if objectives > 1:
        raise InvalidValue("--sampler", "cmaes", "it knows one objective; give tpe, nsga2 or gp")
    if constraints:
        fix = f"it knows no constraints ({_listed(constraints)}); give tpe, gp or nsga2"
        raise InvalidValue("--sampler", "cmaes", fix)
    lines = lines_of(space.settings)
    choices = [n for n, d in space.settings.items() if isinstance(d, Choice) and n not in lines]
    if choices:
        fix = f"it searches numbers alone; fix {_listed(choices)} with --set, or give tpe"
        raise InvalidValue("--sampler", "cmaes", fix)

    def make(seed: int, repeats: Repeats) -> BaseSampler:
        del repeats
        return optuna.samplers.CmaEsSampler(
            seed=seed, n_startup_trials=startup, warn_independent_sampling=False
        )

    return PerTrial(make, seed, space, view=partial(Finished, constrained=False))


def _nsga2(seed: int, space: SearchSpace, trials: int) -> BaseSampler:
    if space.conditions:
        fix = f"it mutates settings that every trial has ({_listed(space.conditions)}); give tpe"
        raise InvalidValue("--sampler", "nsga2", fix)
    population = min(max(trials // 5, 4), 50)

    def make(seed: int, repeats: Repeats) -> BaseSampler:
        del repeats
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=population)

    return PerTrial(make, seed, space, view=partial(Finished, constrained=True))


def _listed(names: object) -> str:
    return ", ".join(str(name) for name in names)  # type: ignore[attr-defined]
