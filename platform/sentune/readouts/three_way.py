"""Find the threshold beta of ambiguous RTE exactly (GumbelCSE section 4.4, Eq. 14).

Over its interpretations a pair has a range of probabilities from low to high. Its class is
entailment if low > beta, non-entailment if high < beta, and both otherwise. The macro F1 can change
only at the sorted lows and highs, so cumulative counts along them give its value in every gap. A
beta is never equal to a low or high, because rounding would then decide the class.

Legend: V = combinations of other readouts, N = pairs, K = 2N + 1 places among the sorted values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sentune.errors import InvalidValue

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
ENTAILMENT, NON_ENTAILMENT, BOTH = 0, 1, 2
CLASSES = ("entailment", "non_entailment", "both")
EVERYWHERE = (-np.inf, np.inf)
EQUAL = np.ones(3)
"""Weights of the classes that count every pair once."""
PRIOR = re.compile(r"balanced|both=(0?\.\d+)")
# Values sorted at once; about ten arrays of this size exist at a time, 8 MB each.
CHUNK = 2**20


@dataclass(frozen=True)
class BestBeta:
    """The best threshold and its macro F1, [...] each."""

    beta: Floats
    macro_f1: Floats


def class_of(labels: Iterable[str]) -> int:
    """Return the class of a pair: ``BOTH`` if its labels are entailment and others."""
    found = set(labels)
    if "entailment" not in found:
        return NON_ENTAILMENT
    return ENTAILMENT if len(found) == 1 else BOTH


def check_prior(prior: str) -> None:
    """Raise a ``ValueError`` if a text is not a prior of the classes."""
    match = PRIOR.fullmatch(prior)
    if match is None or (match[1] and float(match[1]) == 0):
        raise ValueError("give balanced, or both=SHARE with 0 < SHARE < 1, such as both=0.3")


def class_weights(prior: str, gold: Counts) -> Floats:
    """Return the weight of a pair of each class, [3], that gives the classes a prior.

    The mean weight of the pairs is 1.

    Args:
        prior: ``both=SHARE`` for the share of ``both``, where the other classes keep their ratio;
            ``balanced`` for equal shares; empty for weights of 1.
        gold: [N] classes.

    Raises:
        InvalidValue: the prior has another form, or none or all of the pairs are ``both``.
    """
    if not prior:
        return EQUAL
    try:
        check_prior(prior)
    except ValueError as error:
        raise InvalidValue("--prior", prior, str(error)) from None
    counts = np.bincount(gold, minlength=3)
    both = counts[BOTH] / len(gold)
    if both in (0, 1):
        found = f"{counts[BOTH]} of {len(gold)} pairs are of the class both"
        fix = f"{found}; give pairs of this and other classes, or leave --prior out"
        raise InvalidValue("--prior", prior, fix)
    if prior == "balanced":
        return len(gold) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    share = float(prior.partition("=")[2])
    rest = (1 - share) / (1 - both)
    return np.array([rest, rest, share / both])


def class_metrics(gold: Counts, predicted: Counts, weights: Floats = EQUAL) -> dict[str, float]:
    """Return macro F1, the F1 of each class and the accuracy (GumbelCSE section 4.4, Table 3).

    The F1 of a class that is neither predicted nor gold is 0.

    Args:
        gold, predicted: [N] classes.
        weights: [3] weight of a pair of each gold class.
    """
    from sklearn.metrics import f1_score  # it takes seconds to import

    by_pair = weights[gold]
    each = f1_score(
        gold, predicted, labels=range(3), average=None, sample_weight=by_pair, zero_division=0
    )
    found = {f"f1_{name}": float(f1) for name, f1 in zip(CLASSES, each, strict=True)}
    accuracy = float(np.average(predicted == gold, weights=by_pair))
    return {"macro_f1": float(each.mean()), **found, "accuracy": accuracy}


def decide(lows: ArrayLike, highs: ArrayLike, beta: ArrayLike) -> Counts:
    """Return the class of each pair by Eq. 14, with broadcasting; both comparisons are strict."""
    low, high = np.asarray(lows), np.asarray(highs)
    rest = np.where(high < beta, NON_ENTAILMENT, BOTH)
    return np.where(low > beta, ENTAILMENT, rest)


def best_beta(
    lows: ArrayLike,
    highs: ArrayLike,
    gold: ArrayLike,
    limits: tuple[float, float] = EVERYWHERE,
    weights: Floats = EQUAL,
) -> BestBeta:
    """Return the beta with the largest macro F1 over the three classes, the lowest of equal ones.

    The F1 of a class that is neither predicted nor gold is 0. Beta lies halfway between two of the
    lows and highs, or beyond all of them.

    Args:
        lows, highs: [..., N] finite, low <= high.
        gold: [N] classes 0, 1 or 2.
        limits: smallest and largest beta allowed.
        weights: [3] weight of a pair of each class, as returned by ``class_weights``.

    Raises:
        InvalidValue: the shapes differ, there are no pairs, a value is not finite, a low is above
            its high, a class is unknown, or no beta lies within the limits.
    """
    low, high, truth = _checked(lows, highs, gold)
    shape, pairs = low.shape[:-1], low.shape[-1]
    low, high = low.reshape(-1, pairs), high.reshape(-1, pairs)
    step = max(1, CHUNK // (2 * pairs))
    blocks = [slice(start, start + step) for start in range(0, len(low), step)]
    parts = [_best_of_rows(low[block], high[block], truth, limits, weights) for block in blocks]
    betas, scores = (np.concatenate(side) for side in zip(*parts, strict=True))
    if not np.isfinite(scores).all():
        fix = "no gap between the lows and highs lies within; widen it"
        raise InvalidValue("limits", limits, fix)
    return BestBeta(betas.reshape(shape), scores.reshape(shape))


def macro_f1(
    lows: ArrayLike, highs: ArrayLike, gold: ArrayLike, betas: ArrayLike, weights: Floats = EQUAL
) -> Floats:
    """Return the macro F1 of [..., N] ranges at each of B thresholds, [..., B].

    The arguments are those of ``best_beta``.

    Raises:
        InvalidValue: see ``best_beta``.
    """
    low, high, truth = _checked(lows, highs, gold)
    thresholds = np.asarray(betas, dtype=np.float64)
    found = []
    sides = (side.reshape(-1, len(truth), 1) for side in (low, high))
    for low_row, high_row in zip(*sides, strict=True):  # [N, 1] each
        below = low_row <= thresholds, high_row < thresholds
        lows, highs = (np.stack([side[truth == c].sum(0) for c in range(3)]) for side in below)
        found.append(_macro(lows, highs, truth, weights))
    return np.array(found).reshape(*low.shape[:-1], len(thresholds))


def _macro(lows: Counts, highs: Counts, truth: Counts, weights: Floats) -> Floats:
    """Return the macro F1 at several betas, [...].

    Args:
        lows, highs: [3, ...] number of pairs of each gold class with a low at or below beta, and
            with a high below beta.
    """
    gold = np.bincount(truth, minlength=3)
    across = (3, *(1,) * (lows.ndim - 1))
    predicted = gold.reshape(across) - lows, highs, lows - highs
    least, total = np.finfo(np.float64).tiny, np.zeros(())
    for c, pairs in enumerate(predicted):
        # the F1 is 2 hits / (predicted + gold), or 0 if both are 0
        weighted = weights.reshape(across) * pairs
        of_class = weighted.sum(axis=0) + weights[c] * gold[c]
        total = total + 2 * weighted[c] / np.maximum(of_class, least)
    return total / 3


def _best_of_rows(
    low: Floats, high: Floats, truth: Counts, limits: tuple[float, float], weights: Floats
) -> tuple[Floats, Floats]:
    """Return the best beta of each row and its macro F1, [V, N] -> [V] each."""
    values = np.concatenate([low, high], axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    values = np.take_along_axis(values, order, axis=1)
    # the number of lows and highs of each class among the first k of the sorted values, [V, K]
    codes = truth[order % len(truth)] + 3 * (order >= len(truth))
    before = ((0, 0), (1, 0))
    counts = np.stack([np.pad(np.cumsum(codes == code, axis=1), before) for code in range(6)])
    betas, scores = _gaps(values), _macro(counts[:3], counts[3:], truth, weights)
    scores = np.where((betas >= limits[0]) & (betas <= limits[1]), scores, -np.inf)
    best = scores.max(axis=1)
    return np.where(scores == best[:, None], betas, np.inf).min(axis=1), best


def _gaps(values: Floats) -> Floats:
    """Return a beta above the first k sorted values and below the rest, NaN if none, [V, K]."""
    ends = (np.nextafter(values[:, :1], -np.inf), np.nextafter(values[:, -1:], np.inf))
    left, right = values[:, :-1], values[:, 1:]
    middle = left + (right - left) / 2
    # no float lies between neighbouring floats: the middle rounds to one of them
    inner = np.where((left < middle) & (middle < right), middle, np.nan)
    return np.concatenate([ends[0], inner, ends[1]], axis=1)


def _checked(lows: ArrayLike, highs: ArrayLike, gold: ArrayLike) -> tuple[Floats, Floats, Counts]:
    low, high = (np.asarray(side, dtype=np.float64) for side in (lows, highs))
    truth = np.asarray(gold, dtype=np.int64)
    alike = truth.ndim == 1 and low.shape == high.shape and low.shape[-1:] == truth.shape
    if not alike or not len(truth):
        shapes = f"lows {low.shape}, highs {high.shape}, gold {truth.shape}"
        raise InvalidValue("lows", shapes, "give a low, a high and a gold class for each pair")
    if not np.isfinite(low).all() or not np.isfinite(high).all() or (low > high).any():
        raise InvalidValue("lows", "nan, inf or above highs", "give finite values, low <= high")
    if truth.min() < 0 or truth.max() > BOTH:
        raise InvalidValue("gold", sorted(set(truth.tolist())), "use the classes 0, 1 and 2")
    return low, high, truth
