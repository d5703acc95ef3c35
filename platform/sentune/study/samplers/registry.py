"""Samplers by name, with checks of what each supports, and a user's own samplers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import optuna.samplers as optunas

from sentune import user_code
from sentune.code import result_code
from sentune.errors import InvalidValue
from sentune.study import SAMPLERS
from sentune.study.samplers.per_trial import GridOrder, PerTrial, Sampler, Sobol, View
from sentune.study.samplers.priorband import PriorBand
from sentune.study.samplers.study_adapter import as_finished, lines_of, newest_and_best
from sentune.study.space.domains import Choice
from sentune.study.space.objectives import Constraint
from sentune.study.space.space import SearchSpace

OPTION = "--sampler"
STARTUP = (4, 10)
"""Fewest and most random trials before a sampler uses its model."""

CANDIDATES = 24
"""Candidates of a TPE draw (Optuna's default)."""

GP_TRIALS = 500
"""Most trials of the Gaussian process, whose cost grows with their cube."""


def make_sampler(
    name: str,
    space: SearchSpace,
    *,
    trials: int,
    seed: int,
    modes: Sequence[str] = (),
    constraints: Sequence[Constraint] = (),
) -> Sampler:
    """Return the sampler of a study.

    Args:
        name: ``tpe``, ``random``, ``grid``, ``grid:NAME``, ``qmc``, ``gp``, ``cmaes``, ``nsga2`` or
            ``priorband``; or the name or address ``MODULE:CLASS`` of a user's own sampler.
        space: search space; for ``grid:NAME`` the space that ``on_grid`` returned.
        trials: planned trials; a quarter of them (4 to 10) is drawn at random first.
        seed: seed of the study.
        modes: ``max`` or ``min`` of each objective; if empty, the space's only one.
        constraints: constraints on metrics, which a sampler with a model must support. Random,
            grid and Sobol points do not depend on any metric.

    Raises:
        InvalidValue: an unknown name, a grid over a range, or something that the sampler does not
            support (where Optuna would silently draw at random).
    """
    kind, modes = name.partition(":")[0], modes or (space.mode,)
    if is_own(name):
        own = find_own(name)
        return PerTrial(
            make=lambda drawn, _: _made(own, drawn),
            seed=seed,
            space=space,
            modes=modes,
            view=partial(as_finished, modes=modes, constrained=False),
            notes=True,
        )
    _check(kind, space, trials, modes, constraints)
    if kind == "grid":
        return GridOrder(space)
    if kind == "qmc":
        return Sobol(space, seed)
    startup = min(max(trials // 4, STARTUP[0]), STARTUP[1])
    makers: dict[str, Callable[[int, int], optunas.BaseSampler]] = {
        "random": lambda drawn, _: optunas.RandomSampler(seed=drawn),
        "tpe": lambda drawn, repeats: optunas.TPESampler(
            seed=drawn,
            n_startup_trials=startup,
            # the best candidate may be the best known point again; fewer candidates vary more
            n_ei_candidates=max(1, CANDIDATES >> repeats),
            multivariate=True,
            group=True,
            constant_liar=True,
        ),
        "gp": lambda drawn, _: optunas.GPSampler(
            seed=drawn, n_startup_trials=startup, deterministic_objective=False
        ),
        "cmaes": lambda drawn, _: optunas.CmaEsSampler(
            seed=drawn, n_startup_trials=startup, warn_independent_sampling=False
        ),
        "priorband": lambda drawn, _: PriorBand(drawn, space, maximise=modes[0] != "min"),
        "nsga2": lambda drawn, _: optunas.NSGAIISampler(
            seed=drawn, population_size=min(max(trials // 5, 4), 50)
        ),
    }
    view: View = partial(as_finished, modes=modes, constrained=kind != "cmaes")
    if kind == "priorband":  # ranks trials at their rungs
        view = list
    elif kind == "tpe":
        view = partial(newest_and_best, modes=modes)
    return PerTrial(
        make=makers[kind],
        seed=seed,
        space=space,
        modes=modes,
        view=(lambda trials: []) if kind == "random" else view,
        attempts=1 if kind == "gp" else 10,  # GP's model would find the same point again
        notes=kind in ("cmaes", "nsga2"),
    )


def _check(
    kind: str,
    space: SearchSpace,
    trials: int,
    modes: Sequence[str],
    constraints: Sequence[Constraint],
) -> None:
    fix, conditional = "", ", ".join(space.conditions)
    if kind == "gp" and conditional:
        fix = f"it would draw conditional settings ({conditional}) at random; give tpe"
    elif kind == "gp" and trials > GP_TRIALS:
        fix = f"its cost grows with the cube of the trials; give tpe, or --trials {GP_TRIALS}"
    elif kind == "priorband" and not space.prior:
        fix = "the space has no start and no published point to draw around; give tpe"
    elif kind == "priorband" and (len(modes) > 1 or constraints):
        fix = "it supports one objective and no constraints; give tpe"
    elif kind == "nsga2" and conditional:
        fix = f"it does not support conditional settings ({conditional}); give tpe"
    elif kind == "cmaes":
        lines = lines_of(space.settings)
        choices = [n for n, d in space.settings.items() if isinstance(d, Choice) and n not in lines]
        if len(modes) > 1:
            fix = "it supports one objective; give tpe, nsga2 or gp"
        elif constraints:
            listed = ", ".join(map(str, constraints))
            fix = f"it supports no constraints ({listed}); give tpe, gp or nsga2"
        elif choices:
            fix = f"it searches numbers only; fix {', '.join(choices)} with --set, or give tpe"
    if fix:
        raise InvalidValue(OPTION, kind, fix)


def is_own(name: str) -> bool:
    """Return whether a name of ``--sampler`` refers to a user's own sampler."""
    return name.partition(":")[0] not in SAMPLERS


def find_own(name: str) -> type[optunas.BaseSampler]:
    """Return a user's sampler class by its entry point or address ``MODULE:CLASS``.

    Raises:
        InvalidValue: there is none, it is not a sampler, or it needs more than a seed.
    """
    kind = user_code.named("samplers", name, OPTION, [*SAMPLERS, "grid:NAME"])
    if not isinstance(kind, type) or not issubclass(kind, optunas.BaseSampler):
        raise InvalidValue(OPTION, name, "name a class derived from optuna.samplers.BaseSampler")
    try:
        _made(kind, 0)
    except Exception as error:
        fix = f"it needs more than a seed ({error}); name a subclass whose only argument is seed"
        raise InvalidValue(OPTION, name, fix) from error
    return kind


def _made(kind: type[optunas.BaseSampler], seed: int) -> optunas.BaseSampler:
    """Return a new sampler, with the seed if its class takes one."""
    takes_seed = "seed" in inspect.signature(kind).parameters
    return kind(seed=seed) if takes_seed else kind()  # type: ignore[call-arg]


def identity_of_own(name: str) -> dict[str, Any]:
    """Return a user's sampler as an entry of a study's fingerprint; empty for other samplers."""
    if not is_own(name):
        return {}
    kind = find_own(name)
    module = name.partition(":")[0] if ":" in name else kind.__module__
    return {"sampler": {"name": name, **result_code([module])}}
