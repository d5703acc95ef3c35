"""Objectives and constraints of a study, and the ranking of its trials by them.

A constraint bounds a metric: ``train/seconds<=600``, ``sts/spearman>=0.7``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sentune.errors import InvalidValue
from sentune.records import FinalistRecord, TrialRecord, TrialState
from sentune.study.space.domains import parse_number

_FORM = re.compile(r"\s*([^\s<>=]+)\s*(<=|>=)\s*(\S+)\s*")
_FIX = "write METRIC<=NUMBER or METRIC>=NUMBER, as in train/seconds<=600"


@dataclass(frozen=True)
class Objective:
    """A metric ``task/metric`` to maximise (``max``) or minimise (``min``)."""

    metric: str
    mode: str = "max"

    def __post_init__(self) -> None:
        if self.mode not in ("max", "min"):
            raise InvalidValue(
                "--objective", f"{self.metric}:{self.mode}", "end it in :max or :min"
            )

    @classmethod
    def parse(cls, text: str, mode: str = "max") -> Objective:
        """Return the objective of a text: ``task/metric``, or with a mode ``train/seconds:min``."""
        metric, colon, own_mode = text.rpartition(":")
        return cls(metric, own_mode) if colon else cls(text, mode)

    @property
    def sign(self) -> float:
        """1.0 for ``max``, -1.0 for ``min``."""
        return 1.0 if self.mode == "max" else -1.0

    def of(self, metrics: Mapping[str, float]) -> float:
        """Return the metric's value times ``sign``, so that higher is better."""
        return self.sign * metrics[self.metric]

    def to_dict(self) -> dict[str, str]:
        """Return the objective as JSON types."""
        return {"metric": self.metric, "mode": self.mode}


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """An inclusive bound on a metric ``task/metric``: upper if ``at_most``, else lower."""

    metric: str
    bound: float
    at_most: bool

    def __str__(self) -> str:
        return f"{self.metric}{'<=' if self.at_most else '>='}{self.bound:.12g}"

    def violation(self, metrics: Mapping[str, float]) -> float:
        """Return by how much the metric violates the bound, in its unit; 0 or less if it is met."""
        value = metrics[self.metric]
        return value - self.bound if self.at_most else self.bound - value

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Return the constraint of a text ``METRIC<=NUMBER`` or ``METRIC>=NUMBER``.

        Raises:
            InvalidValue: the text has another form, or the bound is not a finite number.
        """
        form = _FORM.fullmatch(text)
        metric, sign, number = form.groups() if form else ("", "", "")
        try:
            return cls(metric=metric, bound=parse_number(number), at_most=sign == "<=")
        except ValueError as error:
            raise InvalidValue("--constraint", text, f"{error}: {_FIX}") from None


def broken(finalist: FinalistRecord, constraints: Iterable[Constraint]) -> dict[Constraint, float]:
    """Return the constraints that a finalist breaks in the mean over its seeds, and by how much."""
    means = {name: over.mean for name, over in finalist.metrics.items()}
    known = {c: c.violation(means) for c in constraints if c.metric in means}
    return {constraint: by for constraint, by in known.items() if by > 0}


def ranked_finalists(
    finalists: Iterable[FinalistRecord], objective: Objective, constraints: Sequence[Constraint]
) -> list[FinalistRecord]:
    """Return finalists, the winner first.

    Finalists that hold every constraint in the mean over their seeds come before those that break
    one, and finalists with two or more complete seeds before those with one, whose mean tells
    nothing about noise. Then the better mean of the objective counts, then the earlier trial.
    """

    def place(one: FinalistRecord) -> tuple[bool, bool, float, int]:
        mean = objective.sign * one.metrics[objective.metric].mean
        return bool(broken(one, constraints)), len(one.seeds) < 2, -mean, one.trial

    return sorted(finalists, key=place)


def feasible(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the complete trials that meet every constraint."""
    return [t for t in trials if t.state is TrialState.COMPLETE and t.feasible]


def ranked(trials: Sequence[TrialRecord], objectives: Sequence[Objective]) -> list[TrialRecord]:
    """Return the feasible complete trials, best first, the earlier of equals first.

    With several objectives they are those on the Pareto front.
    """
    if len(objectives) > 1:
        return pareto_front(trials, objectives)
    return sorted(feasible(trials), key=lambda t: (-objectives[0].of(t.metrics), t.id))


def pareto_front(
    trials: Sequence[TrialRecord], objectives: Sequence[Objective]
) -> list[TrialRecord]:
    """Return the feasible complete trials on the Pareto front, ordered by the first objective.

    With one objective these are the trials that share its best value.
    """
    points = [(t, tuple(o.of(t.metrics) for o in objectives)) for t in feasible(trials)]

    def dominated(point: tuple[float, ...]) -> bool:
        others = (other for _, other in points if other != point)
        return any(all(a >= b for a, b in zip(o, point, strict=True)) for o in others)

    front = [(trial, point) for trial, point in points if not dominated(point)]
    return [trial for trial, point in sorted(front, key=lambda found: (-found[1][0], found[0].id))]
