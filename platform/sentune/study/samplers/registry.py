"""Samplers by name, what each of them cannot do, and a user's own, by entry point or address."""

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
"""Fewest and most random trials before a model of the objective is used."""

CANDIDATES = 24
"""Of TPE, of which it takes the best one (Optuna's default)."""

GP_TRIALS = 500
"""Most trials of a Gaussian process, whose cost grows with their cube."""


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

    Random, grid and Sobol points follow nothing that was measured, the objective included; under
    constraints they are as good as without.

    Args:
        name: ``tpe``, ``random``, ``grid``, ``grid:NAME``, ``qmc``, ``gp``, ``cmaes``, ``nsga2`` or
            ``priorband``; or that of a user's own, ``MODULE:CLASS``.
        space: what is searched; for ``grid:NAME`` the space that ``on_grid`` made.
        trials: planned trials, a quarter of which are drawn at random first (4 to 10).
        modes: ``max`` or ``min`` of each objective; empty: one objective, as the space has it.
        constraints: on metrics, which a sampler with a model must learn too.

    Raises:
        InvalidValue: an unknown name, a grid over a range, or something that the sampler cannot
            do; Optuna would draw at random there in silence.
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
            # its best candidate may be the best point known, again and again: of fewer it is
            # another
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
        attempts=1 if kind == "gp" else 10,  # its model finds the same point again
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
        fix = f"it draws conditional settings ({conditional}) at random; give tpe"
    elif kind == "gp" and trials > GP_TRIALS:
        fix = f"its cost grows with the cube of the trials; give tpe, or --trials {GP_TRIALS}"
    elif kind == "priorband" and not space.prior:
        fix = "the space has no start and no published point to draw around; give tpe"
    elif kind == "priorband" and (len(modes) > 1 or constraints):
        fix = "it knows one objective and no constraints; give tpe"
    elif kind == "nsga2" and conditional:
        fix = f"it mutates settings that every trial has ({conditional}); give tpe"
    elif kind == "cmaes":
        lines = lines_of(space.settings)
        choices = [n for n, d in space.settings.items() if isinstance(d, Choice) and n not in lines]
        if len(modes) > 1:
            fix = "it knows one objective; give tpe, nsga2 or gp"
        elif constraints:
            listed = ", ".join(map(str, constraints))
            fix = f"it knows no constraints ({listed}); give tpe, gp or nsga2"
        elif choices:
            fix = f"it searches numbers alone; fix {', '.join(choices)} with --set, or give tpe"
    if fix:
        raise InvalidValue(OPTION, kind, fix)


def is_own(name: str) -> bool:
    """Return whether a name of ``--sampler`` is not one of the package's."""
    return name.partition(":")[0] not in SAMPLERS


def find_own(name: str) -> type[optunas.BaseSampler]:
    """Return the sampler of a name among the entry points, or of an address, ``MODULE:CLASS``.

    Raises:
        InvalidValue: there is none, it is no sampler, or a seed is not all that it needs.
    """
    kind = user_code.named("samplers", name, OPTION, [*SAMPLERS, "grid:NAME"])
    if not isinstance(kind, type) or not issubclass(kind, optunas.BaseSampler):
        raise InvalidValue(OPTION, name, "name a class derived from optuna.samplers.BaseSampler")
    try:
        _made(kind, 0)
    except Exception as error:
        fix = f"it is not made of a seed alone ({error}); name a class derived from it that is"
        raise InvalidValue(OPTION, name, fix) from error
    return kind


def _made(kind: type[optunas.BaseSampler], seed: int) -> optunas.BaseSampler:
    """Return a new sampler; where it draws at random, from the seed."""
    takes_seed = "seed" in inspect.signature(kind).parameters
    return kind(seed=seed) if takes_seed else kind()  # type: ignore[call-arg]


def identity_of_own(name: str) -> dict[str, Any]:
    """Return what a study's fingerprint has of a user's sampler; nothing of the package's own."""
    if not is_own(name):
        return {}
    kind = find_own(name)
    module = name.partition(":")[0] if ":" in name else kind.__module__
    return {"sampler": {"name": name, **result_code([module])}}
