"""Asynchronous successive halving on examples seen.

ASHA (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2): a trial
goes on past a rung if it is among the best 1/eta of those that have reached it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentune.search.schedulers.base import GOES_ON, Curves, Verdict, cascade, check_rungs


@dataclass(frozen=True, kw_only=True)
class Halving:
    """Rungs in examples seen.

    Attributes:
        first_rung: examples at which trials are first compared.
        eta: one trial in ``eta`` goes on, and the next rung is ``eta`` times as far.
        max_examples: budget of a full trial; there nothing is compared.
        mode: ``max`` or ``min``.
        keep: trials that go on at least, however few have come.
    """

    first_rung: int
    eta: int
    max_examples: int
    mode: str = "max"
    keep: int = 1

    def __post_init__(self) -> None:
        check_rungs(self.first_rung, self.eta, self.max_examples)

    @property
    def rungs(self) -> tuple[int, ...]:
        """Examples at which trials are compared; none where the first rung is the whole budget."""
        found, rung = [], self.first_rung
        while rung < self.max_examples:
            found.append(rung)
            rung *= self.eta
        return tuple(found)

    @property
    def milestones(self) -> tuple[int, ...]:
        """The rungs and the end."""
        return (*self.rungs, self.max_examples)

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
