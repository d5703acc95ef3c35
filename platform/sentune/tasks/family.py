"""Judging a fitted model whose similarities depend on one readout, all values of it at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentune.beats import beat
from sentune.errors import InvalidValue
from sentune.readouts.grid import Grid
from sentune.readouts.sweep import SWEEP_FILE, Sweep
from sentune.tasks.base import ModelTask, Result, Task
from sentune.tasks.sts import Sts

Floats = NDArray[np.float64]
Similarities: TypeAlias = Callable[[Sequence[str], Any, Any, Sequence[int]], Floats]
"""Distinct sentences, rows of them that N pairs' sides are, [N] each, and V values of the readout
-> [V, N] similarities."""


def evaluate_family(
    tasks: Sequence[Task | ModelTask],
    similarities: Similarities,
    axis: str,
    grid: Grid,
    metric: str = "pearson",
) -> Result:
    """Return metrics at the best value of the readout, and the whole sweep, of each task.

    Args:
        tasks: of scored pairs.
        axis: the readout that the models differ in, such as the number of components removed.
        metric: ``pearson`` or ``spearman``, by which the value is chosen.

    Raises:
        InvalidValue: a task is of another kind.
    """
    result = Result()
    values = [int(value) for value in grid]
    for done, task in enumerate(tasks):
        beat("validating", done=done, total=len(tasks))
        if not isinstance(task, Sts):
            fix = "methods on word vectors are judged on scored pairs"
            raise InvalidValue("task", task.name, fix)
        found = similarities(task.pairs.sentences, *task.pairs.rows, values)
        name = f"{task.name}/{metric}"
        sweep = Sweep(metric=name, axes={axis: grid}, values=task.sweep(found, metric))
        (place,) = sweep.place
        result.update(task.metrics_of(found[place]))
        result.readouts[f"{task.name}/{axis}"] = values[place]
        error = standard_error(found[place], task.scores, metric)
        result.metrics[f"{name}_standard_error"] = error
        result.tables[f"{task.name}/{SWEEP_FILE}"] = sweep.to_table()
    return result


def standard_error(similarities: Floats, scores: Floats, metric: str) -> float:
    """Return the standard error of a correlation over the choice of pairs, of 1,000 bootstraps.

    A method that is fitted in closed form has no seeds to vary; its error bar is that of the data.
    """
    from scipy.stats import bootstrap, rankdata  # it takes a second to import

    def statistic(x: Floats, y: Floats, axis: int) -> Floats:
        if metric == "spearman":
            x, y = rankdata(x, axis=axis), rankdata(y, axis=axis)
        x = x - x.mean(axis=axis, keepdims=True)
        y = y - y.mean(axis=axis, keepdims=True)
        norms = np.linalg.norm(x, axis=axis) * np.linalg.norm(y, axis=axis)
        products: Floats = (x * y).sum(axis=axis)
        found: Floats = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
        return found

    found = bootstrap(
        (similarities, scores),
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=1000,
        batch=100,
        method="basic",
        rng=0,
    )
    return float(found.standard_error)
