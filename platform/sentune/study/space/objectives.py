"""What a study selects by: one metric, or several with a Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sentune.errors import InvalidValue
from sentune.records import TrialRecord, TrialState

MODES = ("max", "min")


@dataclass(frozen=True)
class Objective:
    """A metric ``task/metric`` and whether more (``max``) or less (``min``) of it is better."""

    metric: str
    mode: str = "max"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InvalidValue("--objective", f"{self.metric}:{self.mode}", "end it in max or min")

    @classmethod
    def parse(cls, text: str, mode: str = "max") -> Objective:
        """``task/metric``, or with its direction ``train/seconds:min``."""
        metric, colon, said = text.rpartition(":")
        return cls(metric, said) if colon else cls(text, mode)

    @property
    def sign(self) -> float:
        """The factor that makes more better."""
        return 1.0 if self.mode == "max" else -1.0

    def of(self, metrics: Mapping[str, float]) -> float:
        """The metric's value, higher is better."""
        return self.sign * metrics[self.metric]

    def to_dict(self) -> dict[str, str]:
        """As JSON types."""
        return {"metric": self.metric, "mode": self.mode}


def feasible(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Complete trials that hold every constraint."""
    return [t for t in trials if t.state is TrialState.COMPLETE and t.feasible]


def pareto_front(
    trials: Sequence[TrialRecord], objectives: Sequence[Objective]
) -> list[TrialRecord]:
    """Feasible complete trials that no other one beats in every objective, by the first of them.

    With one objective these are the trials that share its best value.
    """
    points = [(t, tuple(o.of(t.metrics) for o in objectives)) for t in feasible(trials)]
    front = [
        (trial, point)
        for trial, point in points
        if not any(_dominates(other, point) for _, other in points)
    ]
    return [trial for trial, point in sorted(front, key=lambda found: (-found[1][0], found[0].id))]


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """At least as good everywhere, and better somewhere."""
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))
