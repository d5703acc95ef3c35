"""Judging a model that offers several representations of a sentence, on all of them at once.

Legend: S = sentences, D = width of a representation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.geometry.points import Points
from sentune.readouts.grid import Grid
from sentune.readouts.representation import REPRESENTATION
from sentune.readouts.sweep import SWEEP_FILE, Sweep
from sentune.tasks.base import Embed, ModelTask, Result, Task, readout_of
from sentune.tasks.evaluate import evaluate, finite
from sentune.tasks.pairs import symmetric_similarity
from sentune.tasks.sts import METRICS, Sts

Represent = Callable[[list[str]], Mapping[str, Tensor]]
"""S sentences -> name of a representation -> [S, D]."""

TABLE = "representations.json"
WORDS = "words"
"""The averaged word vectors, which a learned representation must beat (Table 4)."""
SHIPPED = "ensemble"


def evaluate_representations(
    tasks: Sequence[Task | ModelTask],
    represent: Represent,
    *,
    features: Embed | None = None,
    readouts: Mapping[str, Any] | None = None,
    grid: Grid = REPRESENTATION.grid,
) -> Result:
    """Metrics, readouts and tables of all tasks.

    STS tasks judge every representation; all other tasks the one that is shipped, and
    ``features``.

    Args:
        represent: called once for each STS task, with its sentences.
        features: as in ``sentune.tasks.base.Model``.
        readouts: None to choose the representations (development set), or those chosen there.
        grid: representations to choose among.

    Returns:
        As ``sentune.tasks.evaluate``. Where representations were chosen, the bare readout
        ``representation`` is the one of the best mean over the STS tasks, for what has none.

    Raises:
        InvalidValue: there is no representation of a name in grid or readouts.
        TrialFailed: a representation is not finite; the message shows a sentence.
    """
    sts = [task for task in tasks if isinstance(task, Sts)]
    result = Result()
    for task in sts:
        result.update(judge(task, represent(task.sentences()), readouts=readouts, grid=grid))
    if readouts is None and sts:
        result.readouts[REPRESENTATION.name] = _overall(result, sts, grid)
    found = result.readouts if readouts is None else readouts
    embed = partial(_shipped, represent, str(found.get(REPRESENTATION.name, SHIPPED)))
    others = [task for task in tasks if not isinstance(task, Sts)]
    result.update(evaluate(others, embed, Points(), readouts, features=features))
    return result


def judge(
    task: Sts,
    representations: Mapping[str, Tensor],
    *,
    readouts: Mapping[str, Any] | None = None,
    grid: Grid = REPRESENTATION.grid,
) -> Result:
    """One STS task by the cosines of every representation.

    The metrics are those of the chosen representation, and ``TASK/words_pearson`` of averaged word
    vectors. ``TASK/representations.json`` holds the metrics over all subsets of each one. The
    readout ``TASK/representation`` is the one of the highest Pearson correlation where it is chosen
    here; else it is read, first the task's own, then that of ``sts``, then the bare one, and the
    ensemble where there is none.

    Args:
        representations: name -> [S, D] of ``task.sentences()``.
    """
    _known((*grid, WORDS), representations)
    found = {name: _metrics(task, vectors) for name, vectors in representations.items()}
    swept = _sweep(task, found, grid) if readouts is None else None
    chosen = str(swept.chosen[REPRESENTATION.name] if swept else _read(task, readouts or {}))
    _known((chosen,), representations)
    result = found[chosen]
    table = {name: _over_all(task, result.metrics) for name, result in found.items()}
    result.metrics[f"{task.name}/{WORDS}_pearson"] = table[WORDS]["pearson"]
    result.readouts[f"{task.name}/{REPRESENTATION.name}"] = chosen
    result.tables[f"{task.name}/{TABLE}"] = table
    if swept:
        result.tables[f"{task.name}/{SWEEP_FILE}"] = swept.to_table()
    return result


def _metrics(task: Sts, vectors: Tensor) -> Result:
    similarity = symmetric_similarity(Points())
    return task.metrics_of(task.pairs.compare(finite(vectors, task.sentences()), similarity))


def _sweep(task: Sts, found: Mapping[str, Result], grid: Grid) -> Sweep:
    metric = f"{task.name}/pearson"
    values = np.array([found[str(name)].metrics[metric] for name in grid])
    return Sweep(metric=metric, axes={REPRESENTATION.name: grid}, values=values)


def _read(task: Sts, readouts: Mapping[str, Any]) -> Any:
    own = readout_of(readouts, task.name, Sts.kind, REPRESENTATION.name)
    return own if own is not None else readouts.get(REPRESENTATION.name, SHIPPED)


def _over_all(task: Sts, metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics over all subsets: ``pearson``, and ``pearson_mean`` where there are subsets."""
    wanted = [f"{m}{mean}" for m in METRICS for mean in ("", "_mean", "_weighted_mean")]
    names = {name: f"{task.name}/{name}" for name in wanted}
    return {short: metrics[full] for short, full in names.items() if full in metrics}


def _overall(result: Result, tasks: Sequence[Sts], grid: Grid) -> str:
    """Return the representation of the best mean Pearson correlation over the tasks."""
    tables = [result.tables[f"{task.name}/{TABLE}"] for task in tasks]
    means = [np.mean([table[str(name)]["pearson"] for table in tables]) for name in grid]
    return str(grid[int(np.argmax(means))])


def _shipped(represent: Represent, name: str, sentences: list[str]) -> Tensor:
    found = represent(sentences)
    _known((name,), found)
    return found[name]


def _known(names: Sequence[Any], representations: Mapping[str, Tensor]) -> None:
    for name in names:
        if name not in representations:
            fix = f"choose among {', '.join(representations)}"
            raise InvalidValue(f"readout {REPRESENTATION.name}", name, fix)
