"""Population-based training on stored segments.

Jaderberg et al. 2017, "Population Based Training of Neural Networks", sections 3 and 4.1. A
population trains in parallel and stops several times. At each stop, every member of the worst share
continues from the checkpoint of a member of the best share, with slightly changed settings; all
others continue as they are. The result is a schedule of settings, at the cost of training the
population once.

Each segment between two stops is one Optuna trial. A generation starts when the previous one has
ended. It depends only on the study's seed and the stored trials, so a study is reproducible across
kills of its driver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.errors import InvalidValue
from sentune.study.runner.trial_source import Candidate, Source, running_of
from sentune.study.samplers.study_adapter import distribution
from sentune.study.space.domains import Choice, Dimension, Value
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import BEGUN_AT, MEMBER, PARENT, milestones, run_name
from sentune.study.store.trial_store import TrialStore

FACTORS, RESAMPLED = (0.8, 1.2), 0.25
"""Jaderberg et al., appendix A.1.1: factors for a number, and the probability of a new draw."""

SHARE = 0.25
"""Share of the members that are replaced after a generation, and of those that replace them."""

GENERATION = "generation"
"""User attribute of a segment: its index among its member's segments."""


class Population(Source):
    """Source of the segments of a population.

    Args:
        store: store without a scheduler that stops trials.
        space: search space; its ``live`` settings may change between two segments.
        members: training runs in parallel.
        generations: segments of each member; checkpoints are exchanged between them.

    Raises:
        InvalidValue: too few members or generations, more generations than examples, or no
            searched setting that may change during training.
    """

    def __init__(
        self, store: TrialStore, space: SearchSpace, *, members: int, generations: int, seed: int
    ) -> None:
        if members < 2:
            raise InvalidValue("--population", members, "give 2 or more members")
        if not 1 <= generations <= store.budget:
            fix = f"give 1 to {store.budget}, at most one for each example"
            raise InvalidValue("--generations", generations, fix)
        if not space.live & space.settings.keys():
            known = ", ".join(sorted(space.live)) or f"none of {space.method}"
            fix = f"search a setting that may change during training: {known}"
            raise InvalidValue("--population", members, fix)
        super().__init__(store, ())
        self.space, self.seed = space, seed
        self.members, self.generations = members, generations
        self.replaced = min(math.ceil(SHARE * members), members // 2)
        for run in running_of(store):
            if self._stop(run.user_attrs[GENERATION]) in milestones(run):
                store.complete(run.number)  # its driver was killed just before this call
            else:
                self._orphans.append(run.number)

    def needed(self) -> set[str]:
        """Return names of the runs whose checkpoints a member may still continue from."""
        table = self._table()
        found: set[int] = set()
        for members, later in zip(table, [*table[1:], None], strict=True):
            to_start = later is not None and len(later) < self.members
            for trial in members.values():
                if not trial.state.is_finished():
                    found |= {trial.number, trial.user_attrs.get(PARENT, trial.number)}
                elif to_start and trial.state == Stored.COMPLETE:
                    found.add(trial.number)
        return {run_name(number) for number in found}

    def _stop(self, generation: int) -> int:
        """Return the examples at which a generation ends."""
        return self.store.budget * (generation + 1) // self.generations

    def _table(self) -> list[dict[int, FrozenTrial]]:
        """Return member -> trial of each generation."""
        table: list[dict[int, FrozenTrial]] = [{} for _ in range(self.generations)]
        for trial in self.store.trials():
            notes = trial.user_attrs
            if MEMBER in notes:
                table[notes[GENERATION]][notes[MEMBER]] = trial
        return table

    def _start(self) -> int | None:
        """Store the next segment; None while the previous generation has running segments."""
        table = self._table()
        generation = next((g for g, of in enumerate(table) if len(of) < self.members), None)
        if generation is None:
            return None
        before = table[generation - 1] if generation else {}
        if any(not trial.state.is_finished() for trial in before.values()):
            return None
        best = self._best(before, generation) if generation else []
        if generation and not best:
            return None
        member = next(m for m in range(self.members) if m not in table[generation])
        notes: dict[str, Any] = {MEMBER: member, GENERATION: generation}
        rng = np.random.default_rng([abs(self.seed), generation, member])
        known = self.space.first_points()
        if generation:
            parent, point = self._descent(member, before, best, rng)
            notes |= {PARENT: parent.number, BEGUN_AT: self._stop(generation - 1)}
        elif member < len(known):
            point = known[member]
        else:
            point = self.space.draw(lambda name, dimension: dimension.at(float(rng.random())))
        return self.store.create(
            point,
            {name: distribution(self.space.settings[name]) for name in point},
            settings={**self.space.fixed, **point},
            seed=self.seed,
            attributes=notes,
        )

    def _descent(
        self, member: int, before: dict[int, FrozenTrial], best: list[int], rng: np.random.Generator
    ) -> tuple[FrozenTrial, dict[str, Value]]:
        """Return the trial whose checkpoint a member continues from, and its new settings."""
        worst = [m for m in before if m not in best] + best[::-1]
        lost = max(self.replaced, len(before) - len(best))
        if member not in worst[:lost]:
            return before[member], dict(before[member].params)
        top = best[: self.replaced]
        parent = before[int(rng.choice([m for m in top if m != member] or top))]
        return parent, explored(parent.params, self.space, rng)

    def _best(self, members: Mapping[int, FrozenTrial], generation: int) -> list[int]:
        """Return members whose segment before ``generation`` is complete, the best first."""
        end = self._stop(generation - 1)
        ends = {
            member: self.store.first.of(milestones(trial)[end]["metrics"])
            for member, trial in members.items()
            if trial.state == Stored.COMPLETE
        }
        return sorted(ends, key=lambda member: (-ends[member], member))

    def _candidate(self, run: FrozenTrial) -> Candidate:
        return replace(Candidate.of(run), stop_at=self._stop(run.user_attrs[GENERATION]))


def explored(
    point: Mapping[str, Value], space: SearchSpace, rng: np.random.Generator
) -> dict[str, Value]:
    """Return the point with its live settings perturbed and all others unchanged.

    A number is multiplied by one of ``FACTORS`` within its dimension, and a choice moves to a
    neighbouring value; with probability ``RESAMPLED`` either is drawn anew.
    """

    def changed(name: str, dimension: Dimension) -> Value:
        if name not in space.live and name in point:
            return point[name]
        if name not in point or rng.random() < RESAMPLED:
            return dimension.at(float(rng.random()))
        value, place = point[name], int(rng.integers(2))
        if isinstance(dimension, Choice):
            values = dimension.values
            return values[min(max(values.index(value) + 2 * place - 1, 0), len(values) - 1)]
        assert isinstance(value, int | float)
        return dimension.nearest(value * FACTORS[place])

    return space.draw(changed)
