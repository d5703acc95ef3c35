"""What a model says about two sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentune.errors import InvalidValue


@dataclass(frozen=True)
class Entailment:
    """How far a premise entails a hypothesis.

    Attributes:
        score: P(hypothesis | premise) for boxes, sim(hypothesis || premise) in (0, 1] for
            Gaussians, the cosine in [-1, 1] for points.
        threshold: the readout that decides; None if the model has none.
    """

    score: float
    threshold: float | None

    @property
    def decision(self) -> bool:
        """Whether it is an entailment.

        Raises:
            InvalidValue: the model was tuned without labelled pairs, so it has no threshold.
        """
        if self.threshold is None:
            fix = "the model has none; give entails() a threshold"
            raise InvalidValue("rte/threshold", self.threshold, fix)
        return self.score > self.threshold


@dataclass(frozen=True)
class Direction:
    """Which of two sentences entails the other.

    Attributes:
        entailing: ``first``, ``second``, or ``neither`` where the margin is exactly 0.
        margin: positive for the first: log similarity one way minus the other, or, by extent,
            the difference of log-volumes or of summed log sigma.
    """

    entailing: Literal["first", "second", "neither"]
    margin: float

    @classmethod
    def of(cls, margin: float) -> Direction:
        """Return the direction that a margin stands for."""
        if margin == 0:
            return cls("neither", margin)
        return cls("first" if margin > 0 else "second", margin)
