"""Asynchronous successive halving on examples seen.

ASHA (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2): a trial
goes on past a rung if it is among the best 1/eta of those that have reached it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentune.study.schedulers.base import GOES_ON, Curves, GeometricRungs, Verdict, cascade


@dataclass(frozen=True, kw_only=True)
class Halving(GeometricRungs):
    """One halving at each rung; see ``GeometricRungs``."""

    def verdict(self, curves: Curves, trial: int, examples: int) -> Verdict:
        """Whether a trial goes on past a milestone; see ``Scheduler``."""
        if examples not in self.rungs:
            return GOES_ON
        sign = 1.0 if self.mode == "max" else -1.0
        reached = sorted(
            (
                sign * curve[examples]
                for number, curve in curves.items()
                if examples in curve and number <= trial
            ),
            reverse=True,
        )
        places = max(self.keep, len(reached) // self.eta)
        bar = reached[min(places, len(reached)) - 1]
        own = sign * curves[trial][examples]
        if own >= bar:
            return GOES_ON
        kept = f"the best {places} of {len(reached)} go on, from {sign * bar:.4g}"
        return Verdict(stop=True, reason=f"{sign * own:.4g} at {examples:,} examples; {kept}")

    def expected(self, trials: int) -> int:
        """Examples of a search in which each rung lets one trial in ``eta`` go on."""
        return cascade(trials, self.milestones, self.eta)


def default_first_rung(max_examples: int, eta: int) -> int:
    """A ninth of the budget at eta 3: two rungs before the end, as ASHA's authors have it by rate.

    Earlier rungs rank sentence embeddings by their warm-up.
    """
    return -(-max_examples // eta**2)  # rounded up: no rung comes just short of the end
