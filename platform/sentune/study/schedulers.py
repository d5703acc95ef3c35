"""Schedulers by name: they stop trials at rungs, from the stored curves alone.

Optuna's own pruners keep state between asking and telling and gave another answer after a kill.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from random import Random
from statistics import fmean, median
from typing import TypeAlias

Curves: TypeAlias = Mapping[int, Mapping[int, float]]
"""Trial number -> examples -> objective."""

SIMULATED = 200
"""Trials simulated to estimate the cost of a search; a longer search is scaled up from these."""


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """Runs every trial to its end; a subclass stops some at its rungs.

    Attributes:
        max_examples: of a full trial; there nothing is compared.
        first_rung: examples at which trials are first compared.
        eta: one trial in ``eta`` goes on at a rung.
        mode: ``max`` or ``min``.
        keep: trials that go on at least, however few have come.
        ahead: first trials that ``AshaPromotion`` stops at no rung.
    """

    max_examples: int
    first_rung: int = 1
    eta: int = 2
    mode: str = "max"
    keep: int = 1
    ahead: int = 0

    @property
    def rungs(self) -> tuple[int, ...]:
        """Examples at which trials are compared."""
        return ()

    @property
    def milestones(self) -> tuple[int, ...]:
        """The rungs and the end."""
        return (*self.rungs, self.max_examples)

    @property
    def sign(self) -> float:
        """The factor that makes more of the objective better."""
        return 1.0 if self.mode == "max" else -1.0

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        """Return why a trial ends at a milestone, in examples; empty where it goes on.

        Only trials of a smaller number are compared: one that comes later changes no answer.
        """
        return ""

    def promoted(
        self, curves: Curves, stopped: Mapping[int, int], complete: int | None = None
    ) -> int | None:
        """Return the stopped trial that goes on now; None: none does.

        Args:
            stopped: trial -> the rung that stopped it; none has gone on from there.
            complete: trials that came to their end, or are on their way to it where no rung stops
                them, once there is nothing else to run.
        """
        return None

    def waiting(self, curves: Curves, stopped: Mapping[int, int], trials: int) -> set[int]:
        """Return the stopped ones that may still go on in a search of so many trials."""
        return set()

    def most_waiting(self, trials: int) -> int:
        """Return how many ``waiting`` has at most."""
        return 0

    def expected(self, trials: int) -> dict[int, float]:
        """Return milestone, in examples -> number of trials of a search expected to reach it.

        The mean over simulated searches, whose trials have constant curves and come in random
        order; a first trial that is ``ahead`` is among the better half.
        """
        drawn = min(trials, SIMULATED)
        rounds = -(-SIMULATED // max(drawn, 1))
        random, reached = Random(0), Counter[int]()
        for _ in range(rounds):
            ranks = random.sample(range(drawn), drawn)
            if self.ahead and ranks[0] < drawn // 2:
                ranks = [drawn - 1 - rank for rank in ranks]
            reached.update(self._reached([self.sign * rank for rank in ranks]))
        scale = trials / max(drawn, 1) / rounds
        return {milestone: scale * reached[milestone] for milestone in self.milestones}

    def _reached(self, values: Iterable[float]) -> Iterator[int]:
        """Simulate a search of trials with constant curves; yield every milestone reached."""
        left = deque(values)
        curves: dict[int, dict[int, float]] = {}
        stopped: dict[int, int] = {}
        for number in count():
            complete = sum(self.max_examples in curve for curve in curves.values())
            parent = self.promoted(curves, stopped, None if left else complete)
            if parent is not None:
                del stopped[parent]
                curves[number] = curves.pop(parent)
                value = curves[number][self.milestones[0]]
            elif left:
                curves[number], value = {}, left.popleft()
            else:
                return
            for milestone in self.milestones:
                if milestone in curves[number]:
                    continue
                curves[number][milestone] = value
                yield milestone
                if self.verdict(curves, number, milestone):
                    stopped[number] = milestone
                    break


@dataclass(frozen=True, kw_only=True)
class Halving(Scheduler):
    """Successive halving: rungs in examples seen, each ``eta`` times as far as the one before.

    ASHA (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2) as
    it stops: a trial goes on past a rung if it is among the best 1/eta of those that have reached
    it, and at least ``keep`` of them. There is no rung where the first one is the whole budget.
    """

    @property
    def rungs(self) -> tuple[int, ...]:
        assert min(self.first_rung, self.eta - 1) > 0, "the rungs would have no end"
        found, rung = [], self.first_rung
        while rung < self.max_examples:
            found.append(rung)
            rung *= self.eta
        return tuple(found)

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        if examples not in self.rungs:
            return ""
        earlier = [curve for number, curve in curves.items() if number <= trial]
        values = (self.sign * curve[examples] for curve in earlier if examples in curve)
        reached = sorted(values, reverse=True)
        places = self._places(len(reached))
        own = self.sign * curves[trial][examples]
        if sum(value >= own for value in reached) <= places:  # of equals the earlier are better
            return ""
        equal = ", of equals the earlier" if places and own == reached[places - 1] else ""
        why = self._why(reached, places)
        return f"{self.sign * own:.4g} at {examples:,} examples; {why}{equal}"

    def _why(self, reached: Sequence[float], places: int) -> str:
        return (
            f"the best {places} of {len(reached)} go on, from {self.sign * reached[places - 1]:.4g}"
        )

    def _places(self, reached: int) -> int:
        """Return how many of the trials at a rung go on."""
        return max(self.keep, reached // self.eta)


@dataclass(frozen=True, kw_only=True)
class AshaPromotion(Halving):
    """Asynchronous successive halving by promotion.

    Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2: a trial
    that is not among the best 1/eta of a rung is stopped there, and goes on from its checkpoint
    once it is among them, before a new one starts. At the end of a search the best go on until
    ``keep`` are complete. The ``ahead`` first trials wait for no others: of a point that is
    expected to be good, or where too few come, that would cost time alone.
    """

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        return "" if trial < self.ahead else super().verdict(curves, trial, examples)

    def _places(self, reached: int) -> int:
        return reached // self.eta

    def _why(self, reached: Sequence[float], places: int) -> str:
        waits = f"it waits: the best of {self.eta} goes on, and {len(reached)} came here so far"
        return super()._why(reached, places) if places else waits

    def _ranked(self, curves: Curves, rung: int) -> list[int]:
        """Return the trials that have reached a rung, the best first, equals as they came."""
        reached = [number for number, curve in sorted(curves.items()) if rung in curve]
        return sorted(reached, key=lambda number: -self.sign * curves[number][rung])

    def promoted(
        self, curves: Curves, stopped: Mapping[int, int], complete: int | None = None
    ) -> int | None:
        for rung in reversed(self.rungs):
            ranked = self._ranked(curves, rung) if rung in stopped.values() else []
            short = complete is not None and complete < self.keep
            places = self._places(len(ranked))
            best = ranked[: max(self.keep, places) if short else places]
            if (found := next((n for n in best if stopped.get(n) == rung), None)) is not None:
                return found
        return None

    def waiting(self, curves: Curves, stopped: Mapping[int, int], trials: int) -> set[int]:
        """Return those that are good enough were all trials of the search at their rung, and one
        more for where such a one fails."""
        found: set[int] = set()
        for rung in set(stopped.values()):
            most = self._most(max(trials, len(curves)))
            found |= {n for n in self._ranked(curves, rung)[:most] if stopped.get(n) == rung}
        return found

    def most_waiting(self, trials: int) -> int:
        return len(self.rungs) * min(trials, self._most(trials))

    def _most(self, trials: int) -> int:
        return 1 + max(self.keep, self._places(trials))


@dataclass(frozen=True, kw_only=True)
class Hyperband(Halving):
    """Brackets by trial number; trials of one bracket are compared with each other alone.

    Li et al. 2018, "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization",
    algorithm 1. Early rungs may rank by warm-up; only a share of the trials is exposed to them.
    The rungs are those of the bracket that stops earliest; each further bracket starts a rung
    later, and the last one stops nothing. They share the trials that ``keep`` lets go on.
    """

    @cached_property
    def brackets(self) -> tuple[Halving, ...]:
        """One successive halving for each first rung, the earliest first."""
        return tuple(
            Halving(
                first_rung=first,
                eta=self.eta,
                max_examples=self.max_examples,
                mode=self.mode,
                keep=-(-self.keep // len(self.milestones)),
            )
            for first in self.milestones
        )

    @cached_property
    def _turns(self) -> tuple[int, ...]:
        """Bracket of each trial of a round; each has the share that the algorithm gives it.

        ceil((s_max + 1) / (s + 1) * eta^s) trials of a round go to the bracket with s rungs, and
        the turns are spread evenly over the round.
        """
        most = len(self.brackets)
        sizes = [-(-most * self.eta**s // (s + 1)) for s in reversed(range(most))]
        turns = [((2 * i + 1) / (2 * size), b) for b, size in enumerate(sizes) for i in range(size)]
        return tuple(bracket for _, bracket in sorted(turns))

    def bracket_of(self, trial: int) -> int:
        """Return the place of a trial's bracket in ``brackets``."""
        return self._turns[trial % len(self._turns)]

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        bracket = self.bracket_of(trial)
        peers = {number: c for number, c in curves.items() if self.bracket_of(number) == bracket}
        said = self.brackets[bracket].verdict(peers, trial, examples)
        where = f"bracket {bracket + 1} of {len(self.brackets)}"
        return f"{said} ({where})" if said else ""


@dataclass(frozen=True, kw_only=True)
class MedianStopping(Scheduler):
    """A trial ends where its best value is below the median of the others' averages.

    Golovin et al. 2017, "Google Vizier: A Service for Black-Box Optimization", section 3.2.2. It
    makes no assumption on how curves go on, and lets half of the trials through. There is a rung
    every ``first_rung`` examples; at the first one nothing is stopped. A rung stops none before
    ``keep`` earlier trials have come to it.
    """

    @property
    def rungs(self) -> tuple[int, ...]:
        return tuple(range(2 * self.first_rung, self.max_examples, self.first_rung))

    @property
    def milestones(self) -> tuple[int, ...]:
        return (*range(self.first_rung, self.max_examples, self.first_rung), self.max_examples)

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        """Compare the best value so far with the earlier trials' averages up to this rung."""
        if examples not in self.rungs:
            return ""
        until = {
            number: [value for at, value in curve.items() if at <= examples]
            for number, curve in curves.items()
            if number == trial or (number < trial and examples in curve)
        }
        own = until.pop(trial)
        if len(until) < max(self.keep, 1):
            return ""
        usual = median(fmean(values) for values in until.values())
        best = self.sign * max(self.sign * value for value in own)
        if self.sign * best >= self.sign * usual:
            return ""
        told = f"{best:.4g} at best by {examples:,} examples"
        others = f"the median of {len(until)} earlier trials' averages is {usual:.4g}"
        return f"{told}; {others}"


RUNG_STEPS = 20
"""Steps before which trials are not compared: of eight steps, ranks are those of the warm-up.
Measured in docs/search-quality.md, "The first rung"."""


def default_first_rung(max_examples: int, eta: int, batch_size: int = 1) -> int:
    """Return a ninth of the budget at eta 3: two rungs before the end, as ASHA's authors have it by
    rate; a third where a ninth has fewer than ``RUNG_STEPS`` steps of a batch."""
    early, late = (-(-max_examples // eta**power) for power in (2, 1))
    # rounded up: no rung comes just short of the end
    return early if early >= RUNG_STEPS * batch_size else late


KINDS: Mapping[str, type[Scheduler]] = {
    "asha": Halving,
    "asha-promotion": AshaPromotion,
    "hyperband": Hyperband,
    "median": MedianStopping,
    "none": Scheduler,
}
