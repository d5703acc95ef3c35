"""Find the best threshold of a binary decision exactly, by sorting the scores once.

GaussCSE (section 3.1) tries 0, 0.001, ..., 1. The decisions change only at the N scores, so one
threshold in each of the N + 1 gaps includes the optimum, which a grid may miss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sentune.errors import InvalidValue

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class PrecisionRecall:
    """A precision-recall curve, from all cases predicted positive to none.

    Attributes:
        precision, recall: [K + 1]; the last point is (recall 0, precision 1).
        thresholds: [K]; point k predicts positive if ``score >= thresholds[k]``.
        area: area under the curve by the trapezoid rule, as in the papers' published code; equal
            scores are interpolated (Davis & Goadrich 2006).
        average_precision: step-wise sum, without interpolation between points.
    """

    precision: Floats
    recall: Floats
    thresholds: Floats
    area: float
    average_precision: float

    def thinned(self, points: int = 1000) -> dict[str, list[float]]:
        """Return at most ``points`` points of the curve, with both ends, as JSON types."""
        count = len(self.thresholds)
        chosen = np.unique(np.linspace(0, count - 1, min(points - 1, count)).round().astype(int))
        ends = np.append(chosen, count)
        return {
            "recall": self.recall[ends].tolist(),
            "precision": self.precision[ends].tolist(),
            "thresholds": self.thresholds[chosen].tolist(),
        }


def best_threshold(scores: ArrayLike, positive: ArrayLike) -> float:
    """Return the threshold for which ``score > threshold`` has the largest accuracy.

    The threshold lies halfway between two distinct scores. If no case should be positive, it is the
    largest score; if every case should, it is just below the smallest. The lowest of several best
    thresholds is returned.

    Args:
        scores: [N] finite scores, N > 0.
        positive: [N] truth values.

    Raises:
        InvalidValue: there are no scores, the shapes differ, or a score is not finite.
    """
    values, truth = _checked(scores, positive)
    order = np.argsort(values, kind="stable")
    values, truth = values[order], truth[order]
    # right[k]: correct decisions if the k lowest scores are negative and the rest positive
    right = np.concatenate(([0], np.cumsum(~truth))) + truth.sum()
    right = right - np.concatenate(([0], np.cumsum(truth)))
    # a cut does not separate equal scores
    cuts = np.flatnonzero(np.concatenate(([True], values[1:] > values[:-1], [True])))
    cut = int(cuts[np.argmax(right[cuts])])  # the number of negative decisions
    if cut == 0:
        return float(np.nextafter(values[0], -np.inf))
    if cut == len(values):
        return float(values[-1])
    low, high = float(values[cut - 1]), float(values[cut])
    middle = low + (high - low) / 2
    return middle if middle < high else low  # neighbouring floats: the middle may round up


def precision_recall(scores: ArrayLike, positive: ArrayLike) -> PrecisionRecall:
    """Return the precision-recall curve with its area and the average precision.

    Raises:
        InvalidValue: see ``best_threshold``; also if no case is positive (recall is undefined).
    """
    values, truth = _checked(scores, positive)
    if not truth.any():
        raise InvalidValue("positive", "no case", "a precision-recall curve needs a positive case")
    # imported here because it takes seconds and listing studies does not need it
    from sklearn.metrics import average_precision_score, precision_recall_curve

    precision, recall, thresholds = precision_recall_curve(truth, values)
    average = float(average_precision_score(truth, values))
    return PrecisionRecall(precision, recall, thresholds, _area(values, truth), average)


def _area(values: Floats, truth: Flags) -> float:
    """Return the area under the curve, which has one point for each positive case.

    Within a run of equal scores the negative cases are spread in proportion to the positive ones
    (Davis & Goadrich 2006), so the area is the share of positives if all scores are equal. A
    straight line from precision 1 would give (1 + share) / 2, more than trained models reach on
    SNLI.
    """
    _, group = np.unique(-values, return_inverse=True)
    hits, misses = np.bincount(group, truth), np.bincount(group, ~truth)
    of = np.sort(group[truth])  # the group of each positive case
    before = np.arange(len(of))
    rate = misses[of] / hits[of]
    false = (np.cumsum(misses) - misses)[of] + rate * (before - (np.cumsum(hits) - hits)[of])
    start = np.divide(before, before + false, out=1 / (1 + rate), where=before + false > 0)
    end = (before + 1) / (before + 1 + false + rate)
    return float((start + end).mean() / 2)


def _checked(scores: ArrayLike, positive: ArrayLike) -> tuple[Floats, Flags]:
    values = np.asarray(scores, dtype=np.float64)
    truth = np.asarray(positive, dtype=bool)
    if values.ndim != 1 or values.shape != truth.shape or not len(values):
        shapes = f"{values.shape} scores, {truth.shape} truth values"
        raise InvalidValue("scores", shapes, "give one score and one truth value for each case")
    if not np.isfinite(values).all():
        raise InvalidValue("scores", "nan or inf", "every score must be finite")
    return values, truth
