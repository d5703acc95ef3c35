"""Samplers of a trial's settings as a whole, from the stored trials and a seed of its own.

A sampler that lives as long as its driver draws other points after a restart, and one with a fixed
seed draws its old points again. Here each trial has a fresh one of Optuna's samplers, seeded by
(study seed, trial number), in an in-memory study of what it is to see.
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
"""Function from trials, by number, to those that a sampler sees; copies are left out before. A
trial that was stopped and went on is there once, with all of its curve."""

COUNTABLE = 10_000
"""Configurations up to which those that are left are listed, where draws only repeat themselves."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The settings of a trial.

    Attributes:
        point: a value of each active setting.
        notes: what the sampler must find on the trial later, JSON types.
    """

    point: dict[str, Value]
    notes: dict[str, Any] = field(default_factory=dict)


class Sampler(Protocol):
    """Draws the settings of trials; a draw depends on the sampler's arguments and its own alone."""

    def draw(self, trials: Sequence[FrozenTrial], number: int, known: Container[str]) -> Draw:
        """Return the settings of a trial.

        Args:
            trials: all that are stored, by number.
            number: of the trial that is to have the settings.
            known: keys of settings that run or have an outcome.
        """


def derived_seed(seed: int, *places: int) -> int:
    """Return a 31-bit seed of one draw; close seeds and places give unrelated ones."""
    return int(np.random.SeedSequence([abs(seed), *places]).generate_state(1)[0] >> 1)


@dataclass(kw_only=True)
class PerTrial:
    """One of Optuna's samplers, made anew for each trial.

    A point that is known already is drawn again, ``attempts`` times; then one of those that are
    left is taken, where they can be counted. In GaussCSE's grid of 15 points TPE drew its best one
    again until the search ended by itself.

    Attributes:
        make: makes a sampler from a seed and the number of draws that gave known points.
        seed: of the study.
        modes: ``max`` or ``min`` of each objective.
        view: chooses what the sampler sees.
        notes: whether what the sampler writes on a trial is kept for later draws.
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
        optuna.logging.set_verbosity(optuna.logging.ERROR)  # it tells of every in-memory study

    def draw(self, trials: Sequence[FrozenTrial], number: int, known: Container[str]) -> Draw:
        """Return a point that is not known, if one is found."""
        with warnings.catch_warnings():  # of TPE's groups and of GP; the lock pins Optuna's version
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
            known = self._known.get(trial.number)  # a storage has a new object for what changed
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
        for found in self.view([*seen.values()]):  # as add_trials, which checks each of them again
            storage.create_new_trial(place, found)
        return optuna.load_study(
            study_name="draw", storage=storage, pruner=optuna.pruners.NopPruner()
        )

    def _shown(self, trial: FrozenTrial) -> ShownTrial | None:
        """Return the trial as the sampler sees it; None for a copy, and for one that goes on with
        another and has measured nothing more yet."""
        nothing = trial.state in (Stored.RUNNING, Stored.FAIL)
        if TWIN in trial.user_attrs or (PARENT in trial.user_attrs and nothing):
            return None
        return shown(trial, self._lines)

    def _point(self, params: Mapping[str, Any]) -> dict[str, Value]:
        found = dict(params)
        found |= {n: line[found[n]] for n, line in self._lines.items() if n in found}
        return self.space.draw(lambda name, _: found[name])

    def _left(self, number: int, known: Container[str]) -> dict[str, Value] | None:
        size = self.space.size
        if size is None or size > COUNTABLE:
            return None
        left = [point for point in self.space.points() if key(point) not in known]
        return left[derived_seed(self.seed, number) % len(left)] if left else None


class Sobol:
    """Points of a scrambled Sobol sequence, the trial's number being the place in it.

    Optuna's own draws choices at random, and its place in the sequence is lost by a kill.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space, self._seed = space, seed

    def draw(self, trials: Sequence[FrozenTrial], number: int, known: Container[str]) -> Draw:
        if not self._space.settings:
            return Draw(point={})
        sequence = scipy.stats.qmc.Sobol(
            len(self._space.settings), scramble=True, rng=derived_seed(self._seed)
        )
        if number:  # scipy cannot go forward by nothing
            sequence.fast_forward(number)
        places = dict(zip(self._space.settings, sequence.random(1)[0], strict=True))
        return Draw(point=self._space.draw(lambda name, d: d.at(float(places[name]))))


class GridOrder:
    """The points of a grid in their order, skipping those that the store has already.

    Optuna's own GridSampler shuffles, spends the first points on trials that were enqueued, and
    stops a study from inside ``tell``, which ask-and-tell does not allow.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._points = space.points()

    def draw(self, trials: Sequence[FrozenTrial], number: int, known: Container[str]) -> Draw:
        tried = {key(trial.params) for trial in trials}
        left = (point for point in self._points if key(point) not in tried)
        return Draw(point=next(left, self._points[0]))
