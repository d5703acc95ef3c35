"""Learning curves to be replayed: recorded ones, and synthetic ones of a stated shape."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from sentune.errors import InvalidValue
from sentune.records import TrialRecord
from sentune.study.store.trial_codec import key

Shape: TypeAlias = float | Callable[[Mapping[str, Any]], float]
"""A number of a curve's law: the same for all settings, or theirs."""


class Curves(Protocol):
    """What a training run would measure."""

    def value(self, settings: Mapping[str, Any], examples: int) -> float:
        """The objective after so many examples."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Curves of runs that were made.

    Attributes:
        points: settings as ``stored.key`` writes them -> examples -> objective.
    """

    points: Mapping[str, Mapping[int, float]]

    @classmethod
    def of(cls, trials: Iterable[TrialRecord], objective: str) -> Recorded:
        """The curves of a study's trials."""
        return cls(
            points={
                key(trial.settings): {at: said[objective] for at, said in trial.curve.items()}
                for trial in trials
            }
        )

    def value(self, settings: Mapping[str, Any], examples: int) -> float:
        """The recorded value.

        Raises:
            InvalidValue: nothing was recorded there; a replay invents nothing.
        """
        curve = self.points.get(key(settings))
        if curve is None:
            raise InvalidValue("settings", dict(settings), "no run was recorded with them")
        if examples not in curve:
            known = ", ".join(str(at) for at in sorted(curve))
            raise InvalidValue("examples", examples, f"recorded are {known}")
        return curve[examples]


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """``final - gap ((examples / budget)^-rate - 1)``, over-fitting, and noise of the seed.

    Attributes:
        final: settings -> the value at the end of the budget, without noise.
        budget: examples of a full run.
        gap: how far below its end a run is after ``2^(-1/rate)`` of the budget (a quarter at a
            rate of 0.5); below 0 curves sink to their end from above.
        rate: of the power law.
        unequal: standard deviation of the logarithm of ``gap`` over configurations; above 0 curves
            cross.
        fall: how far a run has fallen below this law at its end; it falls evenly after the first
            third.
        noise: standard deviation of what a seed adds.
        lasting: share of the noise's variance that a run keeps along its curve; the rest is fresh
            at every milestone.
        seed: of noise and gaps.
    """

    final: Callable[[Mapping[str, Any]], float]
    budget: int
    gap: Shape = 0.05
    rate: float = 0.5
    unequal: float = 0.0
    fall: Shape = 0.0
    noise: float = 0.01
    lasting: float = 0.5
    seed: int = 0

    def law(self, settings: Mapping[str, Any], examples: int) -> float:
        """The objective after so many examples, without what a seed adds to it."""
        gap = _number(self.gap, settings)
        if self.unequal:
            gap *= float(np.exp(self.unequal * self._normal(settings, "gap")))
        share = examples / self.budget
        fallen = _number(self.fall, settings) * max(0.0, 1.5 * share - 0.5)
        return self.final(settings) - gap * (share**-self.rate - 1) - fallen

    def value(self, settings: Mapping[str, Any], examples: int) -> float:
        """The objective after so many examples; the same however often it is asked."""
        kept = self.lasting**0.5 * self._normal(settings, "run")
        fresh = (1 - self.lasting) ** 0.5 * self._normal(settings, str(examples))
        return self.law(settings, examples) + self.noise * (kept + fresh)

    def _normal(self, settings: Mapping[str, Any], what: str) -> float:
        return _normal(self.seed, f"{key(settings)} {what}")


def _number(shape: Shape, settings: Mapping[str, Any]) -> float:
    return shape(settings) if callable(shape) else shape


@lru_cache(maxsize=10_000)
def _normal(seed: int, words: str) -> float:
    """A standard normal number that belongs to a seed and some words."""
    place = zlib.crc32(words.encode())
    return float(np.random.default_rng([seed, place]).standard_normal())
