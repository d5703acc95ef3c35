"""Sources of a study's runs: orphans of a killed driver first, then new points or seeds.

A trial is created in one write with its settings and seed, so a killed driver leaves all of it or
nothing. The next driver starts an orphan again under its number.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.records import PART, TrialRecord
from sentune.study.samplers.per_trial import Sampler
from sentune.study.samplers.registry import make_sampler
from sentune.study.samplers.study_adapter import SAMPLER, distribution
from sentune.study.schedulers import Curves
from sentune.study.space.domains import Value
from sentune.study.space.space import SearchSpace
from sentune.study.store import trial_codec as codec
from sentune.study.store.trial_store import TrialStore

logger = logging.getLogger(__name__)

ATTEMPTS = 50
"""Draws in a row that repeat stored trials before the space counts as exhausted."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One training run to be started.

    Attributes:
        number: number of its Optuna trial.
        name: name of the run and its folder, ``0007`` or ``finalist-0007-seed-3``.
        settings: all settings, drawn and fixed.
        micro_batch: sentences at a time, after the run ran out of memory; 0 for the settings' own.
        start_from: run whose checkpoint it starts from if it has none itself; empty for none.
        start_at: examples of that checkpoint.
        stop_at: examples at which the run ends; 0 for the study's budget.
    """

    number: int
    name: str
    settings: Mapping[str, Any]
    seed: int
    micro_batch: int = 0
    start_from: str = ""
    start_at: int = 0
    stop_at: int = 0

    @classmethod
    def of(cls, run: FrozenTrial) -> Candidate:
        """Return the training run of a stored trial."""
        attrs = run.user_attrs
        return cls(
            number=run.number,
            name=codec.name_of(run),
            settings=attrs[codec.SETTINGS],
            seed=attrs[codec.SEED],
            micro_batch=attrs.get(codec.MICRO_BATCH, 0),
            start_from=codec.run_name(attrs[codec.PARENT]) if attrs.get(codec.BEGUN_AT) else "",
            start_at=attrs.get(codec.BEGUN_AT, 0),
        )


class Source(ABC):
    """Base of the sources of runs, which give the orphans of a killed driver first.

    Attributes:
        finished: whether no run is left, now or later; known after ``next`` has returned None.
    """

    def __init__(self, store: TrialStore, orphans: Iterable[FrozenTrial]) -> None:
        self.store, self.finished = store, False
        self._orphans, self._closed = deque(run.number for run in orphans), False

    def next(self, live: int) -> Candidate | None:
        """Return the next run beside the ``live`` running ones.

        None if there is none now, or none any more (``finished``).
        """
        number: int | None = None
        if self._orphans:
            number = self._orphans.popleft()
        elif not self._closed:
            number = self._start()
        if number is not None:
            return self._candidate(self.store.get(number))
        self.finished = live == 0
        return None

    def close(self, *, orphans: bool = False) -> None:
        """Start no new run from now on; running ones continue.

        Args:
            orphans: whether the remaining orphans of a killed driver still start.
        """
        self._closed = True
        if not orphans:
            self._orphans.clear()

    @abstractmethod
    def _start(self) -> int | None:
        """Store the next run in one write, and return its number; None if there is none now."""

    def _candidate(self, run: FrozenTrial) -> Candidate:
        """Return the candidate of a stored run."""
        return Candidate.of(run)


class SearchSource(Source):
    """Source of the trials of a search.

    Before a new trial is drawn, the scheduler may promote a stopped one: a trial with the same
    settings and seed continues from its checkpoint, or from the beginning if that is missing.

    Args:
        trials: number of drawn trials over all starts; copies do not count.
        sampler: a sampler, or its name as ``--sampler`` takes it.
        first: whether to try the space's first points before the sampler draws.
        has_checkpoint: returns whether a run, by its name, has a checkpoint at so many examples.
    """

    def __init__(
        self,
        store: TrialStore,
        space: SearchSpace,
        *,
        trials: int,
        seed: int,
        sampler: Sampler | str = "tpe",
        first: bool = True,
        has_checkpoint: Callable[[str, int], bool] = lambda run, examples: True,
    ) -> None:
        super().__init__(store, running_of(store))
        self._has_checkpoint = has_checkpoint
        self.space, self.planned, self.seed = space, trials, seed
        if isinstance(sampler, str):
            sampler = make_sampler(
                sampler,
                space,
                trials=trials,
                seed=seed,
                modes=[objective.mode for objective in store.objectives],
                constraints=store.constraints,
            )
        self._sampler = sampler
        self._axes = {name: distribution(d) for name, d in space.settings.items()}
        self._first = [self._as_stored(point) for point in space.first_points()] if first else []
        self._answers: dict[str, FrozenTrial] = {}
        self._ended: set[str] = set()
        self._unended: list[int] = []
        self._rungs: dict[int, int] = {}
        self._ending = False
        self._given_up: set[int] = set()
        self._seen = 0

    def _as_stored(self, point: Mapping[str, Value]) -> dict[str, Value]:
        """Return the point as the store returns it: 1 becomes 1.0 in a float range."""
        axes = self._axes
        return {n: axes[n].to_external_repr(axes[n].to_internal_repr(v)) for n, v in point.items()}

    def _start(self) -> int | None:
        """Store the next trial that must run; draws that repeat a stored one are skipped."""
        trials = self.store.trials()
        if not self._ending and (number := self._promoted(trials)) is not None:
            return self._go_on(number)
        draws = not self._ending and self.planned > sum(map(codec.drawn, trials))
        for _ in range(ATTEMPTS if draws else 0):
            stored, running = self._look()
            size = self.space.size
            if size is not None and len(self._ended | running.keys()) >= max(size, 1):
                break
            if (number := self._create(stored, running)) is not None:
                return number
        else:  # stop drawing: every further call, ten a second, would store up to 50 copies
            if draws:
                planned, self.planned = self.planned, sum(map(codec.drawn, trials))
                logger.warning(
                    "the sampler draws only known points: the search ends after %d of %d trials",
                    self.planned,
                    planned,
                )
        at_work = [run for run in running_of(self.store) if run.number not in self._given_up]
        to_end = all(codec.TO_END in run.user_attrs for run in at_work)
        if to_end:
            ended = len(at_work) + sum(trial.state == Stored.COMPLETE for trial in trials)
            number = None if self._ending and ended else self._promoted(trials, ended)
            if number is not None:
                return self._go_on(number, to_end=True)
        promotes = self.store.scheduler.most_waiting(self.planned) > 0
        # stay open while a stopped trial may be promoted, or a running one stopped and promoted
        if not (at_work and ((promotes and not to_end) or self._waiting(trials))):
            self._closed = True
        return None

    def close(self, *, orphans: bool = False) -> None:
        """Draw no further trial.

        If no trial is complete, the best stopped one is still promoted, or else one orphan starts.
        """
        self._ending = True
        if orphans:
            return
        trials = self.store.trials()
        complete = any(trial.state == Stored.COMPLETE for trial in trials)
        kept = [n for n in self._orphans if not (complete or codec.drawn(self.store.get(n)))]
        if not (complete or kept) and self._promoted(trials, 0) is None:
            kept = [*self._orphans][:1]
        self._given_up |= {*self._orphans} - {*kept}
        self._orphans = deque(kept)

    def _standing(self, trials: Iterable[FrozenTrial]) -> tuple[Curves, dict[int, int]]:
        """Return the curves of all trials but failed ones, and stopped trial -> its rung.

        Stopped trials that another one has continued are left out of the second.
        """
        curves = codec.curves_of(trials)
        parents = {
            t.number: t.user_attrs[codec.PARENT] for t in trials if codec.PARENT in t.user_attrs
        }
        for trial in trials:
            number: int | None = trial.number
            if trial.state.is_finished() and number not in self._rungs:
                self._rungs[trial.number] = codec.stopped_at(trial)
            if self._rungs.get(trial.number) == 0 and trial.state != Stored.COMPLETE:
                while number is not None:
                    curves.pop(number, None)
                    number = parents.get(number)
        gone_on = set(parents.values())
        return curves, {n: at for n, at in self._rungs.items() if at and n not in gone_on}

    def _promoted(self, trials: Sequence[FrozenTrial], complete: int | None = None) -> int | None:
        """Return the number of the stopped trial to promote now; see ``Scheduler.promoted``."""
        return self.store.scheduler.promoted(*self._standing(trials), complete)

    def _waiting(self, trials: Sequence[FrozenTrial]) -> set[int]:
        """Return the numbers of stopped trials that may still be promoted."""
        return self.store.scheduler.waiting(*self._standing(trials), self.planned)

    def needed(self) -> set[str]:
        """Return names of the runs from whose checkpoints another one continues, or still may."""
        trials = [] if self.finished else self.store.trials()
        running = (run.user_attrs for run in running_of(self.store))
        parents = {attrs[codec.PARENT] for attrs in running if codec.PARENT in attrs}
        return {codec.run_name(number) for number in self._waiting(trials) | parents}

    def _go_on(self, number: int, *, to_end: bool = False) -> int:
        """Store the trial that continues a stopped one, and return its number."""
        parent = self.store.get(number)
        at, attrs = codec.stopped_at(parent), parent.user_attrs
        note = f"went on from trial {number} at {at:,} examples"
        if not self._has_checkpoint(codec.run_name(number), at):
            note = f"trial {number} again from its beginning: its checkpoint at {at:,} is gone"
            at = 0
        kept = {name: attrs[name] for name in (SAMPLER, codec.MICRO_BATCH) if name in attrs}
        kept |= {codec.TO_END: True} if to_end else {}
        best = codec.best_of_chain(parent, self.store.first)
        if at and PART not in best["metrics"]:  # a new beginning measures it again
            kept[codec.INHERITED] = {part: best.get(part, {}) for part in ("metrics", "readouts")}
        kept |= {codec.PARENT: parent.number, codec.BEGUN_AT: at, codec.NOTES: [note]}
        return self.store.create(
            dict(parent.params),
            dict(parent.distributions),
            settings=attrs[codec.SETTINGS],
            seed=attrs[codec.SEED],
            attributes=kept,
        )

    def _create(
        self, stored: Sequence[FrozenTrial], running: Mapping[str, FrozenTrial]
    ) -> int | None:
        """Store the next trial; None if it repeats a stored or running one."""
        notes: dict[str, Any] = {}
        if self._first:  # drop first points that a trial has had
            tried = {codec.key(trial.params) for trial in stored}
            self._first = [point for point in self._first if codec.key(point) not in tried]
        if self._first:
            point = self._first[0]
        else:
            number = sum(map(codec.drawn, stored))  # the draw's seed; promotions do not change it
            draw = self._sampler.draw(stored, number, {**self._answers, **running})
            point = self._as_stored(draw.point)
            notes = {SAMPLER: draw.notes} if draw.notes else {}
        axes = {name: self._axes[name] for name in point}
        twin = self._answers.get(codec.key(point)) or running.get(codec.key(point))
        if twin is None:
            settings = {**self.space.fixed, **point}
            return self.store.create(
                point, axes, settings=settings, seed=self.seed, attributes=notes
            )
        # A copy uses up a number, so that the next draw has another seed. The copy of a running
        # trial has failed, so samplers ignore it.
        ended = twin.state.is_finished()
        self.store.add(
            optuna.create_trial(
                state=twin.state if ended else Stored.FAIL,
                values=twin.values,
                params=point,
                distributions=axes,
                intermediate_values=twin.intermediate_values if ended else None,
                constraints=twin.constraints if ended else None,
                user_attrs={codec.TWIN: twin.number},
            )
        )
        return None

    def _look(self) -> tuple[Sequence[FrozenTrial], dict[str, FrozenTrial]]:
        """Remember the ended trials, and return all trials, and key of settings -> running trial.

        Trials that were taken over from another study count as ended ones, too.
        """
        stored = self.store.all_trials()
        unended = [*self._unended, *range(self._seen, len(stored))]
        self._seen = len(stored)
        self._unended = []
        running: dict[str, FrozenTrial] = {}
        for trial in (stored[number] for number in unended):
            if not trial.state.is_finished():
                self._unended.append(trial.number)
                running.setdefault(codec.key(trial.params), trial)
            elif codec.TWIN not in trial.user_attrs:
                self._ended.add(codec.key(trial.params))
                if codec.answers(trial):
                    self._answers[codec.key(trial.params)] = trial
        return stored, running


def running_of(store: TrialStore) -> list[FrozenTrial]:
    """Return the trials that have not ended; without a driver, they are orphans."""
    return [run for run in store.trials() if run.state == Stored.RUNNING]


def settle_orphans(store: TrialStore) -> None:
    """End every orphan whose end is stored: its driver was killed before it set the state."""
    for orphan in running_of(store):
        store.settle(orphan.number)


class FinalsSource(Source):
    """Source of the runs of the finals that the store does not have yet, orphans first.

    Args:
        wanted: trial and seed of each run.
        again: whether runs that have ended are repeated.
    """

    def __init__(
        self, store: TrialStore, wanted: Sequence[tuple[TrialRecord, int]], *, again: bool = False
    ) -> None:
        asked = {(trial.id, seed) for trial, seed in wanted}
        orphans = [run for run in running_of(store) if codec.identity(run) in asked]
        super().__init__(store, orphans)
        # a run that failed for an external reason, such as a lost worker, is repeated
        answered = [] if again else [run for run in store.trials() if codec.answers(run)]
        known = {codec.identity(run) for run in orphans + answered}
        self._left = deque((trial, seed) for trial, seed in wanted if (trial.id, seed) not in known)

    def _start(self) -> int | None:
        if not self._left:
            return None
        trial, seed = self._left.popleft()
        return self.store.create(
            {}, {}, settings=trial.settings, seed=seed, attributes={codec.TRIAL: trial.id}
        )
