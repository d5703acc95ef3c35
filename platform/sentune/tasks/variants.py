"""Judging a model that embeds a sentence in several ways, on all of them at once.

A fitted family has similarities that depend on one readout; other models have several
representations.

Legend: S = sentences, N = pairs, V = values of a readout, D = width of a representation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sentune.beats import beat
from sentune.errors import InvalidValue
from sentune.geometry.points import Points
from sentune.readouts.grid import REPRESENTATION, Grid
from sentune.readouts.sweep import SWEEP_FILE, Sweep
from sentune.tasks.base import Given, ModelTask, Result, Task, evaluate, finite, readout_of
from sentune.tasks.pairs import symmetric_similarity
from sentune.tasks.sts import METRICS, Sts

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
        metric: of the objective, by which the value is chosen; see ``Sts.chosen_by``.

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
        short = task.chosen_by(metric)
        name = f"{task.name}/{short}"
        sweep = Sweep(metric=name, axes={axis: grid}, values=task.sweep(found, short))
        (place,) = sweep.place
        result.update(task.metrics_of(found[place]))
        result.readouts[f"{task.name}/{axis}"] = values[place]
        result.metrics[f"{name}_standard_error"] = task.standard_error(found[place], short)
        result.tables[f"{task.name}/{SWEEP_FILE}"] = sweep.to_table()
    return result


Represent = Callable[[list[str]], Mapping[str, Tensor]]
"""S sentences -> name of a representation -> [S, D]."""


class Features(Protocol):
    """S sentences -> [S, F] for a linear classifier, of a representation."""

    def __call__(self, sentences: Sequence[str], *, representation: str) -> Tensor: ...


TABLE = "representations.json"
WORDS = "words"
"""The averaged word vectors, which a learned representation must beat (Table 4)."""
SHIPPED = "ensemble"


def evaluate_representations(
    tasks: Sequence[Task | ModelTask],
    represent: Represent,
    *,
    features: Features | None = None,
    readouts: Given = None,
    grid: Grid = REPRESENTATION.grid,
    objective: str = "sts/pearson",
) -> Result:
    """Metrics, readouts and tables of all tasks.

    STS tasks judge every representation; all other tasks the one that is shipped, and
    ``features``.

    Args:
        represent: called once for each STS task, with its sentences.
        features: as in ``sentune.tasks.base.Model``, of the representation that the readout
            ``features`` names, or of both encoders (``ensemble``, which is their concatenation
            here, section 5.2). It is never chosen.
        readouts: None to choose the representations (development set), or those chosen there.
        grid: representations to choose among.
        objective: ``task/metric``; its metric chooses, see ``Sts.chosen_by``.

    Returns:
        As ``sentune.tasks.evaluate``. Where representations were chosen, the bare readout
        ``representation``, for what has none, is that of the objective's task, or where this is
        none of STS the one of the best mean over the STS tasks.
    """
    leading, _, metric = objective.partition("/")
    sts = [task for task in tasks if isinstance(task, Sts)]
    result = Result()
    tables = []
    for done, task in enumerate(sts):
        beat("validating", done=done, total=len(tasks))
        found = _judge(task, represent(task.sentences()), readouts, grid, metric)
        result.update(found)
        tables.append(found.tables[f"{task.name}/{TABLE}"])
    if readouts is None and sts:
        means = [np.mean([table[str(name)]["pearson"] for table in tables]) for name in grid]
        best = result.readouts.get(f"{leading}/{REPRESENTATION.name}", grid[int(np.argmax(means))])
        result.readouts[REPRESENTATION.name] = str(best)
    chosen = result.readouts if readouts is None else readouts
    name = str(chosen.get(REPRESENTATION.name, SHIPPED))

    def embed(sentences: list[str]) -> Tensor:
        return _known(name, represent(sentences))

    others = [task for task in tasks if not isinstance(task, Sts)]
    named = str((readouts or {}).get("features", SHIPPED))
    classified = None if features is None else partial(features, representation=named)
    result.update(evaluate(others, embed, Points(), readouts, features=classified))
    return result


def _judge(
    task: Sts, representations: Mapping[str, Tensor], readouts: Given, grid: Grid, metric: str
) -> Result:
    """Judge one STS task by the cosines of every representation, name -> [S, D] of its sentences.

    The metrics are those of the chosen representation, and ``TASK/words_pearson`` of averaged word
    vectors; ``TASK/representations.json`` holds those of each one. The readout is the one of the
    highest ``metric`` where it is chosen here; else the task's own, that of ``sts``, the bare one,
    or the ensemble.
    """
    for name in (*grid, WORDS):
        _known(str(name), representations)
    similarity, swept = symmetric_similarity(Points()), {}
    found = {
        name: task.metrics_of(task.pairs.compare(finite(vectors, task.sentences()), similarity))
        for name, vectors in representations.items()
    }
    if readouts is None:
        chooser = f"{task.name}/{task.chosen_by(metric)}"
        values = np.array([found[str(name)].metrics[chooser] for name in grid])
        sweep = Sweep(metric=chooser, axes={REPRESENTATION.name: grid}, values=values)
        chosen: Any = sweep.chosen[REPRESENTATION.name]
        swept = {f"{task.name}/{SWEEP_FILE}": sweep.to_table()}
    else:
        bare = readouts.get(REPRESENTATION.name, SHIPPED)
        chosen = readout_of(readouts, task.name, Sts.kind, REPRESENTATION.name) or bare
    _known(str(chosen), representations)
    # over all subsets, and the means over them where there are any
    wanted = [f"{m}{mean}" for m in METRICS for mean in ("", "_mean", "_weighted_mean")]
    names = {f"{task.name}/{short}": short for short in wanted}
    table = {
        name: {short: each.metrics[full] for full, short in names.items() if full in each.metrics}
        for name, each in found.items()
    }
    result = found[str(chosen)]
    result.metrics[f"{task.name}/{WORDS}_pearson"] = table[WORDS]["pearson"]
    result.readouts[f"{task.name}/{REPRESENTATION.name}"] = str(chosen)
    result.tables |= {f"{task.name}/{TABLE}": table, **swept}
    return result


def _known(name: str, representations: Mapping[str, Tensor]) -> Tensor:
    if name not in representations:
        fix = f"choose among {', '.join(representations)}"
        raise InvalidValue(f"readout {REPRESENTATION.name}", name, fix)
    return representations[name]
