"""Median stopping: a trial ends where its best value is below the others' usual one.

Golovin et al. 2017, "Google Vizier: A Service for Black-Box Optimization", section 3.2.2. It makes
no assumption on how curves go on, and lets half of the trials through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median

from sentune.study.schedulers.base import GOES_ON, Curves, Verdict, cascade, check_rungs


@dataclass(frozen=True, kw_only=True)
class MedianStopping:
    """A rung every ``first_rung`` examples; at the first one nothing is stopped.

    Attributes:
        first_rung: examples from one rung to the next.
        max_examples: budget of a full trial; there nothing is compared.
        mode: ``max`` or ``min``.
        keep: earlier trials that must have come to a rung before it stops any.
    """

    first_rung: int
    max_examples: int
    mode: str = "max"
    keep: int = 1

    def __post_init__(self) -> None:
        check_rungs(self.first_rung, 2, self.max_examples)

    @property
    def rungs(self) -> tuple[int, ...]:
        """Examples at which trials are compared."""
        return tuple(range(2 * self.first_rung, self.max_examples, self.first_rung))

    @property
    def milestones(self) -> tuple[int, ...]:
        """The rungs, the grace before them, and the end."""
        return (*range(self.first_rung, self.max_examples, self.first_rung), self.max_examples)

    def verdict(self, curves: Curves, trial: int, examples: int) -> Verdict:
        """Return whether a trial goes on past a milestone; see ``Scheduler``.

        It ends if its best value so far is worse than the median of the earlier trials' running
        averages at this rung.
        """
        if examples not in self.rungs:
            return GOES_ON
        sign = 1.0 if self.mode == "max" else -1.0
        averages = [
            fmean(_until(curve, examples))
            for number, curve in curves.items()
            if number < trial and examples in curve
        ]
        if len(averages) < max(self.keep, 1):
            return GOES_ON
        usual = median(averages)
        best = sign * max(sign * value for value in _until(curves[trial], examples))
        if sign * best >= sign * usual:
            return GOES_ON
        told = f"{best:.4g} at best by {examples:,} examples"
        others = f"the median of {len(averages)} earlier trials' averages is {usual:.4g}"
        return Verdict(stop=True, reason=f"{told}; {others}")

    def expected(self, trials: int) -> int:
        """Examples of a search whose every second trial ends at the first rung that compares."""
        first = (*self.rungs[:1], self.max_examples)
        return cascade(trials, first, 2)


def _until(curve: Mapping[int, float], examples: int) -> list[float]:
    return [value for at, value in curve.items() if at <= examples]
