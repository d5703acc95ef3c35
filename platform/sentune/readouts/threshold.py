"""The threshold of a binary decision, found exactly: the scores are sorted once.

GaussCSE (section 3.1) steps through 0, 0.001, ..., 1. Only the N + 1 gaps between N sorted
scores can make a difference, so looking at each gap once finds the optimum that a grid may miss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sentune.errors import InvalidValue

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class PrecisionRecall:
    """The whole precision-recall curve, from "everything is positive" to "nothing is".

    Attributes:
        precision, recall: [K + 1]; the last point is (recall 0, precision 1).
        thresholds: [K]; point k belongs to ``score >= thresholds[k]``.
        area: area under the curve by the trapezoid rule, as the papers' published code takes it;
            through a run of equal scores as ``_area`` says.
        average_precision: the step-wise sum, which does not interpolate between points.
    """

    precision: Floats
    recall: Floats
    thresholds: Floats
    area: float
    average_precision: float

    def thinned(self, points: int = 1000) -> dict[str, list[float]]:
        """At most ``points`` of the curve's points with both ends, as JSON types for a plot."""
        count = len(self.thresholds)
        chosen = np.unique(np.linspace(0, count - 1, min(points - 1, count)).round().astype(int))
        ends = np.append(chosen, count)
        return {
            "recall": self.recall[ends].tolist(),
            "precision": self.precision[ends].tolist(),
            "thresholds": self.thresholds[chosen].tolist(),
        }


def best_threshold(scores: ArrayLike, positive: ArrayLike) -> float:
    """Return the accuracy-maximising threshold of ``score > threshold``.

    It lies halfway between two distinct scores; equal scores are never told apart. It is the
    largest score where nothing should be positive, and just below the smallest one where
    everything should. Of several best ones it is the lowest.

    Args:
        scores: [N] finite scores, N > 0.
        positive: [N] truth values.

    Raises:
        InvalidValue: no scores, shapes that differ, or scores that are not finite.
    """
    values, truth = _checked(scores, positive)
    order = np.argsort(values, kind="stable")
    values, truth = values[order], truth[order]
    # right[k]: cases decided rightly when the k lowest are called negative, the rest positive
    right = np.concatenate(([0], np.cumsum(~truth))) + truth.sum()
    right = right - np.concatenate(([0], np.cumsum(truth)))
    return between(values, best_cut(values, right))


def precision_recall(scores: ArrayLike, positive: ArrayLike) -> PrecisionRecall:
    """Return the precision-recall curve with its area and the average precision.

    Raises:
        InvalidValue: as ``best_threshold``, or no case is positive (recall is undefined then).
    """
    values, truth = _checked(scores, positive)
    if not truth.any():
        raise InvalidValue("positive", "no case", "a precision-recall curve needs a positive case")
    # here: it takes seconds to import, and listing studies does without it
    from sklearn.metrics import average_precision_score, precision_recall_curve

    precision, recall, thresholds = precision_recall_curve(truth, values)
    return PrecisionRecall(
        precision,
        recall,
        thresholds,
        area=_area(values, truth),
        average_precision=float(average_precision_score(truth, values)),
    )


def _area(values: Floats, truth: Flags) -> float:
    """Return the area, a point of the curve for each positive case.

    Among equal scores negative cases come in proportion to positive ones (Davis & Goadrich 2006),
    so that equal scores throughout have the share of the positives. One straight line through them,
    from precision 1, would give (1 + share) / 2, more than a trained model reaches on SNLI.
    """
    _, group = np.unique(-values, return_inverse=True)
    hits, misses = np.bincount(group, truth), np.bincount(group, ~truth)
    of = np.sort(group[truth])  # of each positive case
    before = np.arange(len(of))
    rate = misses[of] / hits[of]
    false = (np.cumsum(misses) - misses)[of] + rate * (before - (np.cumsum(hits) - hits)[of])
    start = np.divide(before, before + false, out=1 / (1 + rate), where=before + false > 0)
    end = (before + 1) / (before + 1 + false + rate)
    return float((start + end).mean() / 2)


def best_cut(values: Floats, scores: NDArray[Any]) -> int:
    """Return the place of the largest score that tells no equal values apart, the first of equals.

    Args:
        values: [N] sorted.
        scores: [N + 1] of calling the 0, 1, ..., N lowest values negative.
    """
    cuts = np.flatnonzero(np.concatenate(([True], values[1:] > values[:-1], [True])))
    return int(cuts[np.argmax(scores[cuts])])


def between(values: Floats, cut: int) -> float:
    """Return a threshold that calls exactly the ``cut`` lowest of the sorted values negative."""
    if cut == 0:
        return float(np.nextafter(values[0], -np.inf))
    if cut == len(values):
        return float(values[-1])
    low, high = float(values[cut - 1]), float(values[cut])
    middle = low + (high - low) / 2
    return middle if middle < high else low  # neighbouring floats: the middle may round up


def _checked(scores: ArrayLike, positive: ArrayLike) -> tuple[Floats, Flags]:
    values = np.asarray(scores, dtype=np.float64)
    truth = np.asarray(positive, dtype=bool)
    if values.ndim != 1 or values.shape != truth.shape or not len(values):
        shapes = f"{values.shape} scores, {truth.shape} truth values"
        raise InvalidValue("scores", shapes, "give one score and one truth value for each case")
    if not np.isfinite(values).all():
        raise InvalidValue("scores", "nan or inf", "every score must be finite")
    return values, truth
