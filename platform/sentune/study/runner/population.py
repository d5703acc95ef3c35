"""Population-based training on stored segments.

Jaderberg et al. 2017, "Population Based Training of Neural Networks", sections 3 and 4.1. A
population trains side by side and stops several times. Then each member of the worst share takes
up the checkpoint of one of the best share, with its settings changed a little; all others go on.
What is found is a schedule of settings, and costs no more than training the population once.

Each segment between two stops is one Optuna trial. A generation starts when the one before has
ended, and what it does depends on the study's seed and the stored trials alone, so a killed driver
goes on as if nothing had been.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.errors import InvalidValue
from sentune.study.runner.trial_source import Candidate
from sentune.study.samplers.study_adapter import distribution
from sentune.study.space.domains import Choice, Dimension, Value
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import BEGUN_AT, MICRO_BATCH, SEED, SETTINGS, milestones
from sentune.study.store.trial_store import TrialStore

FACTORS, RESAMPLED = (0.8, 1.2), 0.25
"""Jaderberg et al., appendix A.1.1: a number is multiplied by one of these, or drawn anew with
this probability."""

MEMBER, GENERATION, PARENT = "member", "generation", "parent"
"""User attributes of a segment: whose it is, its place, and the trial whose checkpoint it takes."""


@dataclass(frozen=True, kw_only=True)
class PopulationPlan:
    """A population's size and how often it stops.

    Attributes:
        members: training runs side by side.
        generations: segments of each; checkpoints are exchanged between them.
        share: of the members that is replaced after a generation, and of those that replace them.
    """

    members: int
    generations: int
    share: float = 0.25

    def __post_init__(self) -> None:
        if self.members < 2:
            raise InvalidValue("--population", self.members, "give 2 or more members")
        if self.generations < 1:
            raise InvalidValue("--generations", self.generations, "give 1 or more")
        if not 0 < self.share <= 0.5:
            raise InvalidValue("share", self.share, "give more than 0 and at most 0.5")

    @property
    def replaced(self) -> int:
        """Members that are replaced after a generation."""
        return min(math.ceil(self.share * self.members), self.members // 2)

    def stop(self, generation: int, budget: int) -> int:
        """Return examples at which a generation's segment ends."""
        return budget * (generation + 1) // self.generations


class Population:
    """Gives the segments of a population; a ``Source``.

    Args:
        store: whose scheduler stops nothing.
        space: whose ``live`` settings may change between two segments.
        plan: of the population.
        seed: of the study.

    Raises:
        InvalidValue: no setting that is searched may change in mid-training, or more stops than
            examples.
    """

    def __init__(
        self, store: TrialStore, space: SearchSpace, plan: PopulationPlan, *, seed: int
    ) -> None:
        if not space.live & space.settings.keys():
            known = ", ".join(sorted(space.live)) or f"none of {space.method}"
            fix = f"settings that may change in mid-training are {known}; search one of them"
            raise InvalidValue("--population", plan.members, fix)
        if plan.generations > store.budget:
            fix = f"give at most {store.budget}, one for each example"
            raise InvalidValue("--generations", plan.generations, fix)
        self.store, self.space, self.plan, self.seed = store, space, plan, seed
        self.finished = self._closed = False
        self._orphans = [t for t in self._segments() if not t.state.is_finished()]

    def close(self) -> None:
        """Start no further segment; those that run go on."""
        self._closed = True

    def next(self, live: int) -> Candidate | None:
        """Return the next segment; None while a generation waits for the last of the one before."""
        while self._orphans and not self._closed:
            orphan = self._orphans.pop(0)
            candidate = self._candidate(orphan)
            if candidate.stop_at not in milestones(orphan):
                return candidate
            self.store.complete(orphan.number)  # its driver was killed just before it could
        place = None if self._closed else self._place()
        if place is not None:
            return self._candidate(self._start(*place))
        self.finished = live == 0
        return None

    def needed(self) -> set[str]:
        """Return names of the runs whose checkpoints a member may still take up."""
        table = self._table()
        found: set[str] = set()
        for generation, members in enumerate(table):
            later = table[generation + 1] if generation + 1 < len(table) else {}
            for trial in members.values():
                if not trial.state.is_finished():
                    found.add(name_of(trial.number))
                    if PARENT in trial.user_attrs:
                        found.add(name_of(trial.user_attrs[PARENT]))
                elif self._open(generation, later) and trial.state == Stored.COMPLETE:
                    found.add(name_of(trial.number))
        return found

    def _open(self, generation: int, later: Mapping[int, FrozenTrial]) -> bool:
        """Return whether the generation after this one has members that have not started."""
        return generation + 1 < self.plan.generations and len(later) < self.plan.members

    def _segments(self) -> list[FrozenTrial]:
        return [t for t in self.store.trials() if MEMBER in t.user_attrs]

    def _table(self) -> list[dict[int, FrozenTrial]]:
        """Of each generation that has started: member -> trial."""
        table: list[dict[int, FrozenTrial]] = []
        for trial in self._segments():
            generation = trial.user_attrs[GENERATION]
            while len(table) <= generation:
                table.append({})
            table[generation][trial.user_attrs[MEMBER]] = trial
        return table

    def _place(self) -> tuple[int, int, list[dict[int, FrozenTrial]]] | None:
        """Generation and member of the next segment, with the table; None if there is none now."""
        table = self._table()
        generation = max(len(table) - 1, 0)
        members = table[generation] if table else {}
        if len(members) == self.plan.members:
            if any(not trial.state.is_finished() for trial in members.values()):
                return None
            generation, members = generation + 1, {}
            if not _best(table[-1], self.store, generation, self.plan):
                return None  # every member has failed
        if generation == self.plan.generations:
            return None
        left = next(m for m in range(self.plan.members) if m not in members)
        return generation, left, table

    def _start(
        self, generation: int, member: int, table: list[dict[int, FrozenTrial]]
    ) -> FrozenTrial:
        """Store a segment in one write, so that a kill leaves all of it or nothing."""
        notes: dict[str, Any] = {MEMBER: member, GENERATION: generation}
        rng = np.random.default_rng([abs(self.seed), generation, member])
        if generation == 0:
            point = self._first(member, rng)
        else:
            parent, point = self._descent(member, table[generation - 1], generation, rng)
            notes[PARENT] = parent.number
            notes[BEGUN_AT] = self.plan.stop(generation - 1, self.store.budget)
        number = self.store.create(
            point,
            {name: distribution(self.space.settings[name]) for name in point},
            settings={**self.space.fixed, **point},
            seed=self.seed,
            attributes=notes,
        )
        return self.store.get(number)

    def _first(self, member: int, rng: np.random.Generator) -> dict[str, Value]:
        """Return known points first, then random ones."""
        known = self.space.first_points()
        if member < len(known):
            return known[member]
        return self.space.draw(lambda name, dimension: dimension.at(float(rng.random())))

    def _descent(
        self,
        member: int,
        before: Mapping[int, FrozenTrial],
        generation: int,
        rng: np.random.Generator,
    ) -> tuple[FrozenTrial, dict[str, Value]]:
        """Return whose checkpoint a member takes up, and with which settings."""
        best = _best(before, self.store, generation, self.plan)
        worst = [m for m in before if m not in best] + best[::-1]
        lost = max(self.plan.replaced, len(before) - len(best))
        if member not in worst[:lost]:
            return before[member], dict(before[member].params)
        top = best[: min(self.plan.replaced, len(best))]
        parent = before[int(rng.choice([m for m in top if m != member] or top))]
        return parent, explored(parent.params, self.space, rng)

    def _candidate(self, trial: FrozenTrial) -> Candidate:
        notes = trial.user_attrs
        generation, budget = notes[GENERATION], self.store.budget
        return Candidate(
            number=trial.number,
            name=name_of(trial.number),
            settings=notes[SETTINGS],
            seed=notes[SEED],
            micro_batch=notes.get(MICRO_BATCH, 0),
            start_from=name_of(notes[PARENT]) if PARENT in notes else "",
            start_at=notes.get(BEGUN_AT, 0),
            stop_at=self.plan.stop(generation, budget),
        )


def name_of(number: int) -> str:
    """Return the run of a trial."""
    return f"{number:04d}"


def _best(
    members: Mapping[int, FrozenTrial], store: TrialStore, generation: int, plan: PopulationPlan
) -> list[int]:
    """Return members whose segment before a generation is complete, the best at its end first."""
    end = plan.stop(generation - 1, store.budget)
    ends = {
        member: store.first.of(milestones(trial)[end]["metrics"])
        for member, trial in members.items()
        if trial.state == Stored.COMPLETE
    }
    return sorted(ends, key=lambda member: (-ends[member], member))


def explored(
    point: Mapping[str, Value], space: SearchSpace, rng: np.random.Generator
) -> dict[str, Value]:
    """Return the point with its live settings changed, all others as they are.

    Args:
        point: active settings.
        space: what may be taken.
        rng: two or three numbers are drawn for each live setting.
    """

    def value(name: str, dimension: Dimension) -> Value:
        if name not in space.live and name in point:
            return point[name]
        if name not in point or rng.random() < RESAMPLED:
            return dimension.at(float(rng.random()))
        return perturbed(point[name], dimension, rng)

    return space.draw(value)


def perturbed(value: Value, dimension: Dimension, rng: np.random.Generator) -> Value:
    """Return a fifth less or more within the dimension; for a choice a neighbour of the value."""
    place = int(rng.integers(2))
    if isinstance(dimension, Choice):
        values = dimension.values
        return values[min(max(values.index(value) + 2 * place - 1, 0), len(values) - 1)]
    assert isinstance(value, int | float)
    return dimension.nearest(value * FACTORS[place])
