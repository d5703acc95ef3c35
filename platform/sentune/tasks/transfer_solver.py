"""Logistic regressions on many subsets of the same rows, along a grid of strengths.

They are scikit-learn's, each started from its neighbour in the grid.

Legend: N = rows, E = examples, D = width of the features, K = columns of logits (classes, or 1
where there are two), M = subsets.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

Singles = NDArray[np.float32]
Values = NDArray[np.float64]
Places = NDArray[np.int64]

_EXACT = 1000
"""K (D + 1) up to which Newton's steps are taken, in double precision, instead of L-BFGS in single.

A fold with averaged GloVe vectors (D = 300, a thread), all strengths: of MR (K = 1) newton-cholesky
took 0.9 s and 2 steps a strength, L-BFGS 0.3 s, but it stayed where it was at one of six strengths;
of TREC (K = 6) 17 s against 3.6 s (5.6 s in double precision, 7.7 s without warm starts). In single
precision TREC's Hessian was singular, after which newton-cholesky took up to 227 steps.
"""

_TOLERANCE = 5e-4
"""Of the mean loss's gradient, in units of the features' root mean square.

That is 0.2 for averaged GloVe vectors, which gives scikit-learn's 1e-4. With a plain 1e-4 features
25 times as short were hardly fitted (SICK-R's dev r 0.765, not 0.793). With a fifth of it SICK-R
(D = 600, K = 5) took more than 1000 steps, for the same r; beyond C = 16 it stays where it is.
"""


@dataclass(frozen=True, kw_only=True)
class WeightedRows:
    """What the rows' targets are to a classifier.

    Attributes:
        rows: [E] places of the rows; a row with two classes is there twice.
        classes: [E].
        weights: [E], or None where all are 1.
    """

    rows: Places
    classes: Values
    weights: Values | None = None


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The regressions of one strength.

    Attributes:
        models: M of them; the next strength changes them.
        unconverged: how many of them stopped before their minimum.
    """

    models: list[LogisticRegression]
    unconverged: int


def along(
    features: Singles,
    examples: WeightedRows,
    subsets: Sequence[Places],
    grid: Sequence[float],
    max_steps: int = 1000,
) -> Iterator[Fitted]:
    """[N, D] features, examples of them -> the regressions of M subsets of rows, by strength.

    Features are not standardised (SentEval does not).
    """
    chosen = [np.flatnonzero(np.isin(examples.rows, subset)) for subset in subsets]
    classes = len(np.unique(examples.classes))
    exact = (features.shape[1] + 1) * (1 if classes == 2 else classes) <= _EXACT
    scale = np.sqrt(np.mean(np.square(features, dtype=np.float64)))
    models = [
        LogisticRegression(
            solver="newton-cholesky" if exact else "lbfgs",
            tol=_TOLERANCE * (scale or 1.0),
            max_iter=max_steps,
            warm_start=True,
        )
        for _ in subsets
    ]
    rows = features.astype(np.float64) if exact else features
    for strength in grid:
        converged = [
            _fit(model.set_params(C=strength), rows, examples, places)
            for model, places in zip(models, chosen, strict=True)
        ]
        yield Fitted(models=models, unconverged=converged.count(False))


def _fit(
    model: LogisticRegression,
    features: NDArray[np.floating],
    examples: WeightedRows,
    places: Places,
) -> bool:
    """Return whether it converged; other warnings are passed on."""
    weights = None if examples.weights is None else examples.weights[places]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(features[examples.rows[places]], examples.classes[places], weights)
    others = [w for w in told if not issubclass(w.category, ConvergenceWarning)]
    for other in others:
        warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return len(others) == len(told)
