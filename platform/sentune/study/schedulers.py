"""Schedulers, which stop and promote trials at rungs from the stored curves alone.

Optuna's pruners have state between ask and tell, so their answers can differ after a kill.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, takewhile
from random import Random
from statistics import fmean, median
from typing import ClassVar, TypeAlias

Curves: TypeAlias = Mapping[int, Mapping[int, float]]
"""Trial number -> examples -> objective."""

SIMULATED = 200
"""Trials simulated to estimate the cost of a search; a longer search is scaled up from these."""

SIMULATED_MILESTONES = 30
"""Most milestones of ``MedianStopping`` in that simulation, whose time grows with their square."""


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """Scheduler that runs every trial to its end; subclasses stop some at their rungs.

    Attributes:
        max_examples: examples of a full trial; no trials are compared there.
        first_rung: examples at which trials are first compared.
        eta: one trial in ``eta`` continues at a rung.
        mode: ``max`` or ``min``.
        keep: fewest trials that continue at a rung.
        ahead: number of first trials that ``AshaPromotion`` does not stop.
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
        """Examples of the rungs and the end."""
        return (*self.rungs, self.max_examples)

    @property
    def sign(self) -> float:
        """1.0 if more of the objective is better, else -1.0."""
        return 1.0 if self.mode == "max" else -1.0

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        """Return why a trial, by its number, stops at a milestone; empty if it continues.

        Only trials with smaller numbers are compared, so later ones do not change the answer.
        """
        return ""

    def promoted(
        self, curves: Curves, stopped: Mapping[int, int], complete: int | None = None
    ) -> int | None:
        """Return the stopped trial to promote now; None if there is none.

        Args:
            stopped: trial -> rung that stopped it, without trials that were promoted before.
            complete: given if nothing else is left to run: number of trials that have reached
                their end, or will without another rung.
        """
        return None

    def waiting(self, curves: Curves, stopped: Mapping[int, int], trials: int) -> set[int]:
        """Return the stopped trials that may still be promoted in a search of so many trials."""
        return set()

    def most_waiting(self, trials: int) -> int:
        """Return the most trials that ``waiting`` returns."""
        return 0

    def expected(self, trials: int) -> dict[int, float]:
        """Return milestone, in examples -> number of trials of a search expected to reach it.

        The mean over simulated searches, whose trials have constant curves of different values
        and come in random order; a first trial that is ``ahead`` is among the better half.
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


NO_RUNGS = Scheduler(max_examples=1)
"""Runs every trial to its end; its ``max_examples`` means nothing."""


class Halving(Scheduler):
    """Asynchronous successive halving that stops trials, with rungs at multiples of ``eta``.

    ASHA (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2) in
    its stopping variant: a trial continues past a rung if it is among the best 1/eta of those that
    have reached it, or among the best ``keep``. There are no rungs if the first is the budget.
    Trials equal to the last of these also continue, as long as at most ``most_with_equals`` times
    that number do in all.
    """

    most_with_equals: ClassVar[int] = 2
    _of_equals: ClassVar[str] = "unless too many are equal"

    @property
    def rungs(self) -> tuple[int, ...]:
        assert min(self.first_rung, self.eta - 1) > 0, "the rungs would have no end"
        powers = (self.first_rung * self.eta**power for power in count())
        return tuple(takewhile(lambda rung: rung < self.max_examples, powers))

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        if examples not in self.rungs:
            return ""
        earlier = [curve for number, curve in curves.items() if number <= trial]
        values = (self.sign * curve[examples] for curve in earlier if examples in curve)
        reached = sorted(values, reverse=True)
        places = self._places(len(reached))
        own = self.sign * curves[trial][examples]
        as_good = sum(value >= own for value in reached)
        if as_good - reached.count(own) < places and as_good <= self.most_with_equals * places:
            return ""
        equal = f", {self._of_equals}" if places and own == reached[places - 1] else ""
        why = self._why(reached, places)
        return f"{self.sign * own:.4g} at {examples:,} examples; {why}{equal}"

    def _why(self, reached: Sequence[float], places: int) -> str:
        """Return the reason of a stop; ``reached`` are the signed values at the rung in order."""
        return (
            f"the best {places} of {len(reached)} go on, from {self.sign * reached[places - 1]:.4g}"
        )

    def _places(self, reached: int) -> int:
        """Return how many of the trials at a rung continue."""
        return max(self.keep, reached // self.eta)


class AshaPromotion(Halving):
    """Asynchronous successive halving by promotion.

    Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2: a trial
    that is not among the best 1/eta of a rung is stopped there. It continues from its checkpoint
    once it is among them, before a new trial starts; of equal trials, the earlier ones are. At the
    end of a search the best continue until ``keep`` are complete. The first ``ahead`` trials never
    wait for others, which would only cost time if their points are expected to be good or the
    search has too few trials.
    """

    most_with_equals: ClassVar[int] = 1
    _of_equals: ClassVar[str] = "of equals the earlier"

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        return "" if trial < self.ahead else super().verdict(curves, trial, examples)

    def _places(self, reached: int) -> int:
        return reached // self.eta

    def _why(self, reached: Sequence[float], places: int) -> str:
        waits = f"it waits: the best of {self.eta} goes on, and {len(reached)} came here so far"
        return super()._why(reached, places) if places else waits

    def _ranked(self, curves: Curves, rung: int) -> list[int]:
        """Return the trials that have reached a rung, best first, the earlier of equals first."""
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
        """Return the stopped trials that would continue if all trials of the search reached their
        rung, and one more in case one of them fails."""
        found: set[int] = set()
        for rung in set(stopped.values()):
            most = self._most(max(trials, len(curves)))
            found |= {n for n in self._ranked(curves, rung)[:most] if stopped.get(n) == rung}
        return found

    def most_waiting(self, trials: int) -> int:
        return len(self.rungs) * min(trials, self._most(trials))

    def _most(self, trials: int) -> int:
        return 1 + max(self.keep, self._places(trials))


class Hyperband(Halving):
    """Hyperband: successive halving in brackets, each of which compares its own trials only.

    Li et al. 2018, "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization",
    algorithm 1. Early rungs may rank trials by their warm-up, so only a share of the trials has
    them. ``rungs`` are those of the first bracket; each further bracket starts one rung later, and
    the last one stops nothing. A trial's number determines its bracket. The brackets share
    ``keep`` among them.
    """

    @cached_property
    def brackets(self) -> tuple[Halving, ...]:
        """Successive halving for each first rung, the earliest first."""
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
        """Bracket of each trial of a round, with the shares of the algorithm.

        The bracket with s rungs has ceil((s_max + 1) / (s + 1) * eta^s) trials of a round, spread
        evenly over it.
        """
        most = len(self.brackets)
        sizes = [-(-most * self.eta**s // (s + 1)) for s in reversed(range(most))]
        turns = [((2 * i + 1) / (2 * size), b) for b, size in enumerate(sizes) for i in range(size)]
        return tuple(bracket for _, bracket in sorted(turns))

    def bracket_of(self, trial: int) -> int:
        """Return the index of a trial's bracket in ``brackets``."""
        return self._turns[trial % len(self._turns)]

    def verdict(self, curves: Curves, trial: int, examples: int) -> str:
        bracket = self.bracket_of(trial)
        peers = {number: c for number, c in curves.items() if self.bracket_of(number) == bracket}
        why = self.brackets[bracket].verdict(peers, trial, examples)
        where = f"bracket {bracket + 1} of {len(self.brackets)}"
        return f"{why} ({where})" if why else ""


class MedianStopping(Scheduler):
    """Median stopping: stops a trial whose best value is below the median of others' averages.

    Golovin et al. 2017, "Google Vizier: A Service for Black-Box Optimization", section 3.2.2. It
    makes no assumption on the shape of curves, and about half of the trials pass. Trials are
    validated every ``first_rung`` examples and compared from the second time on. A rung stops no
    trial before ``keep`` earlier ones have reached it.
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
        others = f"the median of {len(until)} earlier trials' averages is {usual:.4g}"
        return f"{best:.4g} at best by {examples:,} examples; {others}"

    def expected(self, trials: int) -> dict[int, float]:
        step = max(self.first_rung, -(-self.max_examples // SIMULATED_MILESTONES))
        if step == self.first_rung:
            return super().expected(trials)
        coarse = replace(self, first_rung=step).expected(trials)
        return {at: next(coarse[end] for end in coarse if end >= at) for at in self.milestones}


RUNG_STEPS = 20
"""Fewest steps before trials are compared. After eight steps ranks still reflect the warm-up, as
measured in docs/search-quality.md, "The first rung"."""


def default_first_rung(max_examples: int, eta: int, batch_size: int = 1) -> int:
    """Return the default first rung in examples: the budget divided by ``eta`` squared.

    This gives two rungs before the end, as recommended by ASHA's authors. If it is less than
    ``RUNG_STEPS`` batches, the budget divided by ``eta`` is returned.
    """
    early, late = (-(-max_examples // eta**power) for power in (2, 1))
    # rounded up, so that no rung is just before the end
    return early if early >= RUNG_STEPS * batch_size else late


KINDS: Mapping[str, type[Scheduler]] = {
    "asha": Halving,
    "asha-promotion": AshaPromotion,
    "hyperband": Hyperband,
    "median": MedianStopping,
    "none": Scheduler,
}
