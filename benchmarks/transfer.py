"""MR's protocol, folds in folds, against scikit-learn's grid search in a cross-validation.

python benchmarks/transfer.py [--rows 10662 --folds 10]

The options in brackets are all rows of MR and the folds of SentEval.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np
from measure import Work, measure_all, options, report

from sentune.tasks.transfer_solver import GRID, SEED, Labels, Part, nested


def rows(count: int, width: int) -> Part:
    """Labels of a noisy direction; features' extents fall a hundredfold, as word averages' do."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(count, width)).astype(np.float32)
    direction = rng.normal(size=width)
    labels = features @ direction + rng.logistic(scale=np.sqrt(width), size=count) > 0
    mixing = np.linalg.qr(rng.normal(size=(width, width)))[0].astype(np.float32)
    extents = np.geomspace(1, 0.01, width, dtype=np.float32)
    return Part(features=(features * extents) @ mixing, targets=labels.astype(np.float64))


def ours(count: int, width: int, folds: int) -> Work:
    return partial(nested, Labels(), rows(count, width), folds, GRID)


def theirs(count: int, width: int, folds: int) -> Work:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

    data = rows(count, width)
    split = StratifiedKFold(folds, shuffle=True, random_state=SEED)
    search = GridSearchCV(LogisticRegression(max_iter=1000), {"C": GRID}, cv=split)
    return partial(cross_val_score, search, data.features, data.targets, cv=split)


def main() -> None:
    o = options(__doc__, rows=3000, width=300, folds=5, repeats=1)
    for library in ("OPENBLAS", "OMP"):
        os.environ[f"{library}_NUM_THREADS"] = str(o.threads)  # for the processes that measure
    sizes = (o.rows, o.width, o.folds)
    ways = {"scikit-learn": partial(theirs, *sizes), "sentune": partial(ours, *sizes)}
    found = measure_all(ways, repeats=o.repeats, threads=o.threads)
    fits = o.folds * o.folds * len(GRID)
    title = f"{fits} fits of {o.rows} rows, {o.width} wide, {o.folds} folds in {o.folds} folds"
    report(title, found, o.threads)
    print(f"{found[0][1].seconds / found[1][1].seconds:.1f} times as fast as scikit-learn.")


if __name__ == "__main__":
    main()
