"""MR's protocol, folds in folds, against scikit-learn's grid search in a cross-validation.

python benchmarks/transfer.py [--rows 10662 --folds 10]
"""

from __future__ import annotations

import argparse
import os
from functools import partial

import numpy as np
from measure import Work, measure, report

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
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=3000, help="10662 is all of MR")
    options.add_argument("--width", type=int, default=300)
    options.add_argument("--folds", type=int, default=5, help="10 in SentEval")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--repeats", type=int, default=1)
    o = options.parse_args()
    for library in ("OPENBLAS", "OMP"):
        os.environ[f"{library}_NUM_THREADS"] = str(o.threads)  # for the processes that measure
    ways = {"scikit-learn": theirs, "sentune": ours}
    sizes = (o.rows, o.width, o.folds)
    found = [
        (name, measure(partial(way, *sizes), repeats=o.repeats, threads=o.threads))
        for name, way in ways.items()
    ]
    fits = o.folds * o.folds * len(GRID)
    title = f"{fits} fits of {o.rows} rows, {o.width} wide, {o.folds} folds in {o.folds} folds"
    report(title, found, o.threads)
    print(f"{found[0][1].seconds / found[1][1].seconds:.1f} times as fast as scikit-learn.")


if __name__ == "__main__":
    main()
