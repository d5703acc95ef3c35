"""The threshold beta of ambiguous RTE, found exactly (GumbelCSE section 4.4, Eq. 14).

A pair has a range of probabilities, from low to high, over its interpretations: entailment where
low > beta, non-entailment where high < beta, both otherwise. Only the sorted values and the gaps
between them can make a difference, so cumulative counts along them give every macro F1 there is.

Legend: V = combinations of other readouts, N = pairs, K = 2N + 1 places among the sorted values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sentune.errors import InvalidValue
from sentune.readouts.threshold import best_cut, between

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
ENTAILMENT, NON_ENTAILMENT, BOTH = 0, 1, 2
CLASSES = ("entailment", "non_entailment", "both")
EVERYWHERE = (-np.inf, np.inf)
# Values sorted at once; about ten arrays of this size live at a time, 8 MB each.
CHUNK = 2**20


@dataclass(frozen=True)
class BestBeta:
    """[...] each: the best threshold and its macro F1."""

    beta: Floats
    macro_f1: Floats


def class_of(labels: Iterable[str]) -> int:
    """Return the class of a pair by its labels: both where entailment is not the only one."""
    found = set(labels)
    if "entailment" not in found:
        return NON_ENTAILMENT
    return ENTAILMENT if len(found) == 1 else BOTH


def class_metrics(gold: Counts, predicted: Counts) -> dict[str, float]:
    """Return macro F1, the F1 of each class and the accuracy (GumbelCSE section 4.4, Table 3).

    The F1 of a class that is neither predicted nor gold is 0.
    """
    from sklearn.metrics import f1_score  # it takes seconds to import

    each = f1_score(gold, predicted, labels=range(3), average=None, zero_division=0)
    found = {f"f1_{name}": float(f1) for name, f1 in zip(CLASSES, each, strict=True)}
    accuracy = float(np.mean(predicted == gold))
    return {"macro_f1": float(each.mean()), **found, "accuracy": accuracy}


def decide(lows: ArrayLike, highs: ArrayLike, beta: ArrayLike) -> Counts:
    """Return the class of each pair by Eq. 14; both comparisons are strict. Broadcasts."""
    low, high = np.asarray(lows), np.asarray(highs)
    rest = np.where(high < beta, NON_ENTAILMENT, BOTH)
    return np.where(low > beta, ENTAILMENT, rest)


def best_beta(
    lows: ArrayLike, highs: ArrayLike, gold: ArrayLike, limits: tuple[float, float] = EVERYWHERE
) -> BestBeta:
    """Return the beta with the largest macro F1 over the three classes; of equal ones the lowest.

    The F1 of a class that is neither predicted nor gold counts as 0. A beta between two values
    lies halfway.

    Args:
        lows, highs: [..., N] finite, low <= high.
        gold: [N] classes 0, 1 or 2.
        limits: the smallest and the largest beta that may be found.

    Raises:
        InvalidValue: shapes that differ, no pairs, values that are not finite or out of order,
            other classes, or no beta within the limits.
    """
    low, high, truth = _checked(lows, highs, gold)
    shape, pairs = low.shape[:-1], low.shape[-1]
    low, high = low.reshape(-1, pairs), high.reshape(-1, pairs)
    step = max(1, CHUNK // (2 * pairs))
    blocks = [slice(start, start + step) for start in range(0, len(low), step)]
    parts = [_best_of_rows(low[block], high[block], truth, limits) for block in blocks]
    betas, scores = (np.concatenate(side) for side in zip(*parts, strict=True))
    if not np.isfinite(scores).all():
        raise InvalidValue("limits", limits, "no beta that these values tell apart lies within")
    return BestBeta(betas.reshape(shape), scores.reshape(shape))


def best_split(scores: ArrayLike, gold: ArrayLike) -> BestBeta:
    """Return the beta of two classes, entailment where score > beta and non-entailment otherwise.

    Macro F1 is over all three classes, so that it compares with ``best_beta``; of equal ones the
    lowest.

    Args:
        scores: [N] finite.
        gold: [N] classes 0, 1 or 2.
    """
    values, _, truth = _checked(scores, scores, gold)
    order = np.argsort(values, kind="stable")
    values, truth = values[order], truth[order]
    below = np.arange(len(values) + 1)  # pairs at or below beta
    lows, highs = (
        _Tally(below, np.concatenate(([0], np.cumsum(truth == c))), below)  # so that none is both
        for c in (ENTAILMENT, NON_ENTAILMENT)
    )
    macro = _macro(lows, highs, truth)
    cut = best_cut(values, macro)
    return BestBeta(np.asarray(between(values, cut)), np.asarray(macro[cut]))


def macro_f1(lows: ArrayLike, highs: ArrayLike, gold: ArrayLike, betas: ArrayLike) -> Floats:
    """[..., B]: macro F1 of [..., N] ranges at each of B thresholds.

    Raises:
        InvalidValue: as ``best_beta``.
    """
    low, high, truth = _checked(lows, highs, gold)
    thresholds = np.asarray(betas, dtype=np.float64)
    pairs = low.shape[-1]
    rows = zip(low.reshape(-1, pairs), high.reshape(-1, pairs), strict=True)
    found = [_at_thresholds(*row, truth, thresholds) for row in rows]
    return np.array(found).reshape(*low.shape[:-1], len(thresholds))


def _at_thresholds(low: Floats, high: Floats, truth: Counts, betas: Floats) -> Floats:
    """[B]: macro F1 of one row of ranges."""
    under, over = low[:, None] <= betas, high[:, None] < betas
    both = truth == BOTH
    lows = _Tally(under.sum(0), under[truth == ENTAILMENT].sum(0), under[both].sum(0))
    highs = _Tally(over.sum(0), over[truth == NON_ENTAILMENT].sum(0), over[both].sum(0))
    return _macro(lows, highs, truth)


class _Tally(NamedTuple):
    """Of all pairs, of the gold class that the side decides, and of the gold class ``both``.

    For lows, how many are at or under beta; for highs, how many are under it.
    """

    everything: Counts
    own: Counts
    both: Counts


def _macro(lows: _Tally, highs: _Tally, truth: Counts) -> Floats:
    total = np.bincount(truth, minlength=3)
    entailments = len(truth) - lows.everything
    each = (
        _f1(total[ENTAILMENT] - lows.own, entailments, total[ENTAILMENT]),
        _f1(highs.own, highs.everything, total[NON_ENTAILMENT]),
        _f1(lows.both - highs.both, lows.everything - highs.everything, total[BOTH]),
    )
    return sum(each, np.zeros(())) / 3


def _f1(hits: Counts, predicted: Counts, gold: int) -> Floats:
    """2 hits / (predicted + gold); 0 where nothing is predicted and nothing is gold."""
    return 2 * hits / np.maximum(predicted + gold, 1)


def _best_of_rows(
    low: Floats, high: Floats, truth: Counts, limits: tuple[float, float]
) -> tuple[Floats, Floats]:
    """[V, N] -> the best beta and its macro F1, [V] each."""
    values = np.concatenate([low, high], axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    values = np.take_along_axis(values, order, axis=1)
    lows, highs = _cumulated(order, truth)
    candidates = [
        (betas, _macro(at_low, at_high, truth))
        for betas, at_low, at_high in _candidates(values, lows, highs)
    ]
    betas, scores = (np.concatenate(side, axis=1) for side in zip(*candidates, strict=True))
    scores = np.where((betas >= limits[0]) & (betas <= limits[1]), scores, -np.inf)
    best = scores.max(axis=1)
    return np.where(scores == best[:, None], betas, np.inf).min(axis=1), best


def _cumulated(order: Counts, truth: Counts) -> tuple[_Tally, _Tally]:
    """[V, K] each: lows and highs among the first k of the sorted values."""
    is_high = order >= len(truth)
    gold = truth[order % len(truth)]

    def among_first(mask: NDArray[np.bool_]) -> Counts:
        return np.pad(np.cumsum(mask, axis=1), ((0, 0), (1, 0)))

    return (
        _Tally(*map(among_first, (~is_high, ~is_high & (gold == 0), ~is_high & (gold == 2)))),
        _Tally(*map(among_first, (is_high, is_high & (gold == 1), is_high & (gold == 2)))),
    )


def _candidates(
    values: Floats, lows: _Tally, highs: _Tally
) -> Iterator[tuple[Floats, _Tally, _Tally]]:
    """Every beta that can make a difference, [V, K] at a time, NaN where a place has none.

    First the gaps: at place k the first k values are under beta. Then the values themselves: a
    run of equal values from place s to place e has lows at or under beta up to e, but highs under
    it only up to s.
    """
    ends = (np.nextafter(values[:, :1], -np.inf), np.nextafter(values[:, -1:], np.inf))
    left, right = values[:, :-1], values[:, 1:]
    middle = left + (right - left) / 2
    # neighbouring floats have nothing in between: the middle rounds to one of them
    inner = np.where((left < middle) & (middle < right), middle, np.nan)
    yield np.concatenate([ends[0], inner, ends[1]], axis=1), lows, highs
    last = np.ones(values.shape, dtype=bool)
    last[:, :-1] = left < right
    edge = np.pad(last, ((0, 0), (1, 0)), constant_values=True)
    places = np.where(edge, np.arange(edge.shape[1]), 0)
    start = np.maximum.accumulate(places, axis=1)[:, :-1]  # of the run that value k belongs to
    at_high = _Tally(*(np.take_along_axis(c, start, axis=1) for c in highs))
    at_low = _Tally(*(c[:, 1:] for c in lows))
    yield np.where(last, values, np.nan), at_low, at_high


def _checked(lows: ArrayLike, highs: ArrayLike, gold: ArrayLike) -> tuple[Floats, Floats, Counts]:
    low, high = (np.asarray(side, dtype=np.float64) for side in (lows, highs))
    truth = np.asarray(gold, dtype=np.int64)
    if (
        low.shape != high.shape
        or truth.ndim != 1
        or low.shape[-1:] != truth.shape
        or not len(truth)
    ):
        shapes = f"lows {low.shape}, highs {high.shape}, gold {truth.shape}"
        raise InvalidValue("lows", shapes, "give a low, a high and a gold class for each pair")
    if not np.isfinite(low).all() or not np.isfinite(high).all() or (low > high).any():
        raise InvalidValue("lows", "nan, inf or above highs", "give finite ranges, low <= high")
    if truth.min() < 0 or truth.max() > BOTH:
        raise InvalidValue("gold", sorted(set(truth.tolist())), "use the classes 0, 1 and 2")
    return low, high, truth
