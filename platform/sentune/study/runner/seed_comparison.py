"""Whether the winner of the finals is better than the runner-up, or only luckier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sentune.lazy_import import LazyModule
from sentune.records import FinalistRecord
from sentune.study.space.objectives import Objective

if TYPE_CHECKING:
    from scipy import stats
else:
    stats = LazyModule("scipy.stats")

LEVEL = 0.95
SAME = 1e-12
"""Differences that are closer to each other than this come from rounding."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The winner against the runner-up, over the seeds that both were trained with.

    Attributes:
        winner: trial.
        runner_up: trial; None where there is only one finalist.
        metric: the objective.
        seeds: that both have.
        difference: mean over these seeds, above 0 where the winner is better; of all seeds where
            none is shared.
        interval: 95 % confidence interval of the mean difference; None where nothing tells.
        p: of the two-sided test that there is no difference; None where nothing tells.
        test: its name; empty where none was made.
        verdict: all of it in a sentence.
    """

    winner: int
    metric: str
    verdict: str
    runner_up: int | None = None
    seeds: tuple[int, ...] = ()
    difference: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    test: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types, without the verdict."""
        told = {name: value for name, value in asdict(self).items() if name != "verdict"}
        interval = list(self.interval) if self.interval is not None else None
        return {**told, "seeds": list(self.seeds), "interval": interval}


def compare(finalists: Sequence[FinalistRecord], objective: Objective) -> Comparison | None:
    """Return the paired t test of the best two finalists (Student 1908).

    Args:
        finalists: best mean first.
        objective: by which they are ordered.

    Returns:
        None without finalists.
    """
    if not finalists:
        return None
    winner = finalists[0]
    if len(finalists) == 1:
        told = f"Trial {winner.trial} is the only finalist; there is none to compare it with."
        return Comparison(winner=winner.trial, metric=objective.metric, verdict=told)
    other = finalists[1]
    ours, theirs = _by_seed(winner, objective), _by_seed(other, objective)
    seeds = tuple(seed for seed in ours if seed in theirs)
    apart = np.array([ours[seed] - theirs[seed] for seed in seeds])
    means = float(np.mean(list(ours.values())) - np.mean(list(theirs.values())))
    difference = float(apart.mean()) if seeds else means
    fractions = all(abs(value) <= 1 for value in (*ours.values(), *theirs.values()))
    ahead = _ahead(winner.trial, other.trial, difference, _Unit(objective.metric, fractions))
    interval, p, judged = _judge(apart, ahead, _Unit(objective.metric, fractions))
    return Comparison(
        winner=winner.trial,
        runner_up=other.trial,
        metric=objective.metric,
        seeds=seeds,
        difference=difference,
        interval=interval,
        p=p,
        test="paired t test" if p is not None else "",
        verdict=judged,
    )


@dataclass(frozen=True)
class _Unit:
    """How a metric's values are read out: fractions as points, others as they are."""

    metric: str
    fractions: bool

    def number(self, value: float) -> str:
        return f"{100 * value:.1f}" if self.fractions else f"{value:.3g}"

    def amount(self, value: float) -> str:
        number = self.number(value)
        return f"{number} points" if self.fractions else f"{number} in {self.metric}"


def _by_seed(finalist: FinalistRecord, objective: Objective) -> dict[int, float]:
    """Seed -> value, higher is better."""
    values = finalist.metrics[objective.metric].values
    return {s: objective.sign * v for s, v in zip(finalist.seeds, values, strict=True)}


def _ahead(winner: int, other: int, difference: float, unit: _Unit) -> str:
    """The mean of all seeds chose the winner; over the shared ones the other may be ahead."""
    if difference < 0:
        return f"Trial {winner} is behind trial {other} by {unit.amount(-difference)}"
    return f"Trial {winner} is ahead of trial {other} by {unit.amount(difference)}"


def _judge(
    apart: np.ndarray[Any, Any], ahead: str, unit: _Unit
) -> tuple[tuple[float, float] | None, float | None, str]:
    """Return interval, p and the sentence."""
    seeds = len(apart)
    if seeds < 2:
        shared = "one seed" if seeds else "seeds that they do not share"
        told = f"{ahead} over {shared}: that tells nothing about noise; give --seeds 2 or more."
        return None, None, told
    if np.ptp(apart) <= SAME:
        if abs(apart[0]) <= SAME:
            return None, None, f"{ahead} on each of {seeds} seeds: neither is better."
        return None, None, f"{ahead} on each of {seeds} seeds: no seed changes the difference."
    test = stats.ttest_rel(apart, np.zeros(seeds))
    low, high = (float(end) for end in test.confidence_interval(LEVEL))
    ends = f"{unit.number(low)} to {unit.number(high)}"
    within = f"({100 * LEVEL:.0f} % interval {ends} over {seeds} seeds)"
    p = float(test.pvalue)
    if low <= 0 <= high:
        return (low, high), p, f"{ahead} {within}: within noise; either may be better."
    return (low, high), p, f"{ahead} {within}: more than noise (p = {p:.2g})."
