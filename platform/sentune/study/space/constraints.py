"""Constraints on what a trial measures: ``train/seconds<=600``, ``sts/spearman>=0.7``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sentune.errors import InvalidValue, TrialFailed

_FORM = re.compile(r"\s*([^\s<>=]+)\s*(<=|>=)\s*(\S+)\s*")
_FIX = "write METRIC<=NUMBER or METRIC>=NUMBER, as in train/seconds<=600"


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """A bound on a metric.

    Attributes:
        metric: ``task/metric``.
        bound: the last value that is allowed.
        at_most: whether values above the bound break it; else those below.
    """

    metric: str
    bound: float
    at_most: bool

    def __str__(self) -> str:
        return f"{self.metric}{'<=' if self.at_most else '>='}{self.bound:.12g}"

    def violation(self, metrics: Mapping[str, float]) -> float:
        """By how much metrics break it, in the metric's unit; 0 or less where it holds.

        Raises:
            InvalidValue: the trial does not measure the metric.
            TrialFailed: the metric is no number, so that nobody can say.
        """
        if self.metric not in metrics:
            fix = f"trials do not measure it; they measure {', '.join(sorted(metrics))}"
            raise InvalidValue("--constraint", str(self), fix)
        value = metrics[self.metric]
        if math.isnan(value):
            raise TrialFailed(f"{self.metric} is nan, so the constraint {self} says nothing")
        return value - self.bound if self.at_most else self.bound - value


def parse(text: str) -> Constraint:
    """The constraint that ``METRIC<=NUMBER`` or ``METRIC>=NUMBER`` stands for.

    Raises:
        InvalidValue: another form, or a bound that is no finite number.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise InvalidValue("--constraint", text, _FIX)
    metric, sign, number = form.groups()
    try:
        bound = float(number)
    except ValueError:
        raise InvalidValue("--constraint", text, _FIX) from None
    if not math.isfinite(bound):
        raise InvalidValue("--constraint", text, "give a finite bound")
    return Constraint(metric=metric, bound=bound, at_most=sign == "<=")
