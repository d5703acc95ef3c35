"""Median stopping: a trial ends where its best value is below the others' usual one.

Golovin et al. 2017, "Google Vizier: A Service for Black-Box Optimization", section 3.2.2. It makes
no assumption on how curves go on, and lets half of the trials through.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from sentune.study.schedulers.base import GOES_ON, Curves, Scheduler, Verdict, cascade


@dataclass(frozen=True, kw_only=True)
class MedianStopping(Scheduler):
    """A rung every ``first_rung`` examples; at the first one nothing is stopped.

    So many earlier trials as ``keep`` says must have come to a rung before it stops any.
    """

    @property
    def rungs(self) -> tuple[int, ...]:
        return tuple(range(2 * self.first_rung, self.max_examples, self.first_rung))

    @property
    def milestones(self) -> tuple[int, ...]:
        """The rungs, the grace before them, and the end."""
        return (*range(self.first_rung, self.max_examples, self.first_rung), self.max_examples)

    def verdict(self, curves: Curves, trial: int, examples: int) -> Verdict:
        """Stop a trial whose best value so far is worse than the median of the others' averages.

        Each average is of an earlier trial's values up to this rung.
        """
        if examples not in self.rungs:
            return GOES_ON
        until = {
            number: [value for at, value in curve.items() if at <= examples]
            for number, curve in curves.items()
            if number == trial or (number < trial and examples in curve)
        }
        own = until.pop(trial)
        if len(until) < max(self.keep, 1):
            return GOES_ON
        usual = median(fmean(values) for values in until.values())
        best = self.sign * max(self.sign * value for value in own)
        if self.sign * best >= self.sign * usual:
            return GOES_ON
        told = f"{best:.4g} at best by {examples:,} examples"
        others = f"the median of {len(until)} earlier trials' averages is {usual:.4g}"
        return Verdict(stop=True, reason=f"{told}; {others}")

    def expected(self, trials: int) -> int:
        """Return the examples if every second trial ends at the first rung that compares."""
        return cascade(trials, (*self.rungs[:1], self.max_examples), 2)
