"""Samplers whose draws depend only on the stored trials, the study's seed and the trial's number.

A sampler that lives as long as its driver draws other points after a restart, and one with a fixed
seed repeats its points. Here each trial gets a new Optuna sampler, seeded by (study seed, trial
number), and an in-memory study with the trials that it may see.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import optuna
import scipy
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.study.samplers.study_adapter import (
    ShownTrial,
    as_numbers,
    distribution,
    lines_of,
    shown,
)
from sentune.study.space.domains import Value
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import DIRECTIONS, PARENT, TWIN, key

View: TypeAlias = Callable[[Sequence[ShownTrial]], list[ShownTrial]]
"""Function from trials, ordered by number and without copies, to those that a sampler sees. A trial
that was stopped and continued appears once, with its whole curve."""

COUNTABLE = 10_000
"""Most configurations of a space whose unused points are listed if draws only repeat known ones."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The settings of a trial.

    Attributes:
        point: value of each active setting.
        notes: system attributes of the trial that the sampler needs later, in JSON types.
    """

    point: dict[str, Value]
    notes: dict[str, Any] = field(default_factory=dict)


class Sampler(Protocol):
    """Draws settings of trials. A draw depends only on the sampler's and the method's arguments."""

    def draw(self, trials: Sequence[FrozenTrial], number: int, known: Container[str]) -> Draw:
        """Return the settings of a trial.

        Args:
            trials: all stored trials, by number.
            number: number of the draw.
            known: keys of settings that are running or have a result.
        """


def derived_seed(seed: int, *places: int) -> int:
    """Return a 31-bit seed for one draw; close seeds and places give independent ones."""
    return int(np.random.SeedSequence([abs(seed), *places]).generate_state(1)[0] >> 1)


@dataclass(kw_only=True)
class PerTrial:
    """One of Optuna's samplers, created anew for each trial.

    If a draw gives a known point, it is repeated up to ``attempts`` times. After that an unused
    point is taken if the space has at most ``COUNTABLE``. (In GaussCSE's grid of 15 points TPE
    otherwise drew its best one until the search ended.)

    Attributes:
        make: creates a sampler from a seed and the number of draws that gave known points.
        seed: seed of the study.
        modes: ``max`` or ``min`` of each objective.
        view: selects the trials that the sampler sees.
        notes: whether system attributes that the sampler sets are kept for later draws.
    """

    make: Callable[[int, int], BaseSampler]
    seed: int
    space: SearchSpace
    modes: Sequence[str]
    view: View
    attempts: int = 10
    notes: bool = False

    def __post_init__(self) -> None:
        self._lines = lines_of(self.space.settings)
        shown_as = as_numbers(self.space.settings)
        self._axes = {name: distribution(dimension) for name, dimension in shown_as.items()}
        self._known: dict[int, tuple[FrozenTrial, ShownTrial | None]] = {}
        optuna.logging.set_verbosity(optuna.logging.ERROR)  # it logs every in-memory study

    def draw(self, trials: Sequence[FrozenTrial], number: int, known: Container[str]) -> Draw:
        """Return a point that is not known if one is found, else a known one."""
        with warnings.catch_warnings():  # of TPE's groups and GP; Optuna's version is pinned
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study = self._study(trials)
            for attempt in range(self.attempts):
                seed = derived_seed(self.seed, number, attempt)
                study.sampler = self.make(seed, attempt)
                asked = study.ask(self._axes)
                point = self._point(asked.params)
                if key(point) not in known:
                    break
                study.tell(asked, state=Stored.FAIL)
            else:
                point = self._left(number, known) or point
        notes = study.get_trials(deepcopy=False)[asked.number].system_attrs if self.notes else {}
        return Draw(point=point, notes=dict(notes))

    def _study(self, trials: Sequence[FrozenTrial]) -> optuna.Study:
        """Return an in-memory study of the trials that the sampler sees."""
        seen: dict[int, ShownTrial] = {}
        for trial in trials:
            known = self._known.get(trial.number)  # a changed trial is a new object
            if known is None or not (known[0] is trial or known[0].state.is_finished()):
                known = self._known[trial.number] = trial, self._shown(trial)
            found = known[1]
            if found is None:
                continue
            if found.parent in seen:
                curve = seen.pop(found.parent).intermediate_values
                found.intermediate_values = {**curve, **found.intermediate_values}
            seen[trial.number] = found
        storage = optuna.storages.InMemoryStorage()
        place = storage.create_new_study([DIRECTIONS[mode] for mode in self.modes], "draw")
        for found in self.view([*seen.values()]):  # like add_trials, but without its checks
            storage.create_new_trial(place, found)
        return optuna.load_study(
            study_name="draw", storage=storage, pruner=optuna.pruners.NopPruner()
        )

    def _shown(self, trial: FrozenTrial) -> ShownTrial | None:
        """Return the trial as the sampler sees it.

        None for a copy, and for a continued trial that is running or has failed.
        """
        nothing = trial.state in (Stored.RUNNING, Stored.FAIL)
        if TWIN in trial.user_attrs or (PARENT in trial.user_attrs and nothing):
            return None
        return shown(trial, self._lines)

    def _point(self, params: Mapping[str, Any]) -> dict[str, Value]:
        """Return the point of the space for parameters as the sampler sees them."""
        found = dict(params)
        found |= {n: line[found[n]] for n, line in self._lines.items() if n in found}
        return self.space.draw(lambda name, _: found[name])

    def _left(self, number: int, known: Container[str]) -> dict[str, Value] | None:
        """Return one of the unused points at random; None if there is none or too many to list."""
        size = self.space.size
        if size is None or size > COUNTABLE:
            return None
        left = [point for point in self.space.points() if key(point) not in known]
        return left[derived_seed(self.seed, number) % len(left)] if left else None


class Sobol:
    """Points of a scrambled Sobol sequence, indexed by the trial's number.

    Optuna's QMCSampler draws choices at random, and a kill loses its place in the sequence.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space, self._seed = space, seed

    def draw(self, trials: Sequence[FrozenTrial], number: int, known: Container[str]) -> Draw:
        if not self._space.settings:
            return Draw(point={})
        sequence = scipy.stats.qmc.Sobol(
            len(self._space.settings), scramble=True, rng=derived_seed(self._seed)
        )
        if number:  # scipy refuses fast_forward(0)
            sequence.fast_forward(number)
        places = dict(zip(self._space.settings, sequence.random(1)[0], strict=True))
        return Draw(point=self._space.draw(lambda name, d: d.at(float(places[name]))))


class GridOrder:
    """Points of a grid in order, without those that a stored trial has had.

    Optuna's GridSampler shuffles the points, uses up the first ones for enqueued trials, and stops
    the study inside ``tell``, which ask-and-tell does not allow.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._points = space.points()

    def draw(self, trials: Sequence[FrozenTrial], number: int, known: Container[str]) -> Draw:
        tried = {key(trial.params) for trial in trials}
        left = (point for point in self._points if key(point) not in tried)
        return Draw(point=next(left, self._points[0]))
