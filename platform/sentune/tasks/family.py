"""Judging a fitted model whose similarities depend on one readout, all values of it at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap, rankdata

from sentune.errors import InvalidValue
from sentune.readouts.grid import Grid, Readout
from sentune.readouts.sweep import SWEEP_FILE, Sweep
from sentune.tasks.base import ModelTask, Result, Task, readout_of
from sentune.tasks.sts import Sts


class Family(Protocol):
    """Models that differ in one readout alone, such as the number of components removed."""

    @property
    def axis(self) -> Readout:
        """The readout."""

    def similarities(
        self,
        sentences: Sequence[str],
        first: NDArray[np.int64],
        second: NDArray[np.int64],
        values: Sequence[int],
    ) -> NDArray[np.float64]:
        """[V, N] similarities of pairs of rows of ``sentences``, for each value."""


def evaluate_family(
    tasks: Sequence[Task | ModelTask],
    family: Family,
    grid: Grid,
    metric: str = "pearson",
    readouts: Mapping[str, Any] | None = None,
) -> Result:
    """Metrics at the best value of the readout, and the whole sweep, of each task.

    Args:
        tasks: of scored pairs.
        family: the fitted models.
        grid: values of the readout that are swept.
        metric: ``pearson`` or ``spearman``, by which the value is chosen.
        readouts: None to sweep (development set), or the values to apply (test set).

    Raises:
        InvalidValue: a task is of another kind.
    """
    result = Result()
    for task in tasks:
        if not isinstance(task, Sts):
            fix = "methods on word vectors are judged on scored pairs"
            raise InvalidValue("task", task.name, fix)
        values = grid if readouts is None else (_known(readouts, task.name, family.axis),)
        result.update(_judge(task, family, values, metric, swept=readouts is None))
    return result


def _judge(task: Sts, family: Family, grid: Grid, metric: str, *, swept: bool) -> Result:
    values = [int(value) for value in grid]
    found = family.similarities(task.pairs.sentences, *task.pairs.rows, values)
    axis = family.axis.name
    sweep = Sweep(
        metric=f"{task.name}/{metric}", axes={axis: grid}, values=task.sweep(found, metric)
    )
    (place,) = sweep.place
    result = task.metrics_of(found[place])
    result.readouts[f"{task.name}/{axis}"] = values[place]
    error = standard_error(found[place], task.scores, metric)
    result.metrics[f"{task.name}/{metric}_standard_error"] = error
    if swept:
        result.tables[f"{task.name}/{SWEEP_FILE}"] = sweep.to_table()
    return result


def standard_error(
    similarities: NDArray[np.float64], scores: NDArray[np.float64], metric: str
) -> float:
    """Standard error of a correlation over the choice of pairs: 1,000 bootstrap samples.

    A method that is fitted in closed form has no seeds to vary; its error bar is that of the data.
    """

    def statistic(x: NDArray[np.float64], y: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        if metric == "spearman":
            x, y = rankdata(x, axis=axis), rankdata(y, axis=axis)
        x = x - x.mean(axis=axis, keepdims=True)
        y = y - y.mean(axis=axis, keepdims=True)
        norms = np.linalg.norm(x, axis=axis) * np.linalg.norm(y, axis=axis)
        products: NDArray[np.float64] = (x * y).sum(axis=axis)
        return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)

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


def _known(readouts: Mapping[str, Any], task: str, axis: Readout) -> int:
    value = readout_of(readouts, task, Sts.kind, axis.name)
    value = readouts.get(axis.name) if value is None else value
    if value is None:
        raise InvalidValue(axis.name, None, "choose it on a development set")
    return int(value)
