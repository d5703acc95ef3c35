"""Successive halving on examples seen, and several of them side by side (Hyperband).

ASHA (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2): a trial
goes on past a rung if it is among the best 1/eta of those that have reached it.

Hyperband (Li et al. 2018, "Hyperband: A Novel Bandit-Based Approach to Hyperparameter
Optimization", algorithm 1) gives each halving its own first rung. Early rungs may rank by warm-up;
only a share of the trials is exposed to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sentune.study.schedulers.base import GOES_ON, Curves, Scheduler, Verdict, cascade


@dataclass(frozen=True, kw_only=True)
class Halving(Scheduler):
    """Rungs in examples seen, each ``eta`` times as far as the one before, with a halving at each.

    There are none where the first rung is the whole budget.
    """

    @property
    def rungs(self) -> tuple[int, ...]:
        found, rung = [], self.first_rung
        while rung < self.max_examples:
            found.append(rung)
            rung *= self.eta
        return tuple(found)

    def verdict(self, curves: Curves, trial: int, examples: int) -> Verdict:
        if examples not in self.rungs:
            return GOES_ON
        reached = sorted(
            (
                self.sign * curve[examples]
                for number, curve in curves.items()
                if examples in curve and number <= trial
            ),
            reverse=True,
        )
        places = max(self.keep, len(reached) // self.eta)
        bar = reached[min(places, len(reached)) - 1]
        own = self.sign * curves[trial][examples]
        if own >= bar:
            return GOES_ON
        kept = f"the best {places} of {len(reached)} go on, from {self.sign * bar:.4g}"
        return Verdict(stop=True, reason=f"{self.sign * own:.4g} at {examples:,} examples; {kept}")

    def expected(self, trials: int) -> int:
        return cascade(trials, self.milestones, self.eta)


@dataclass(frozen=True, kw_only=True)
class Hyperband(Halving):
    """Brackets by trial number; trials of one bracket are compared with each other alone.

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

    def verdict(self, curves: Curves, trial: int, examples: int) -> Verdict:
        bracket = self.bracket_of(trial)
        peers = {number: c for number, c in curves.items() if self.bracket_of(number) == bracket}
        said = self.brackets[bracket].verdict(peers, trial, examples)
        where = f"bracket {bracket + 1} of {len(self.brackets)}"
        return Verdict(stop=True, reason=f"{said.reason} ({where})") if said.stop else GOES_ON

    def expected(self, trials: int) -> int:
        number = [self.bracket_of(trial) for trial in range(trials)]
        return sum(b.expected(number.count(place)) for place, b in enumerate(self.brackets))


def default_first_rung(max_examples: int, eta: int) -> int:
    """A ninth of the budget at eta 3: two rungs before the end, as ASHA's authors have it by rate.

    Earlier rungs rank sentence embeddings by their warm-up.
    """
    return -(-max_examples // eta**2)  # rounded up: no rung comes just short of the end
