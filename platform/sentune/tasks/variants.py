"""Evaluation of models with several variants: values of a readout, or representations.

Legend: S = sentences, N = pairs, V = values of a readout, D = width of a representation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

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
"""Function of distinct sentences, the rows of the pairs' two sides, [N] each, and V values of the
readout that returns similarities, [V, N]."""


def evaluate_family(
    tasks: Sequence[Task | ModelTask],
    similarities: Similarities,
    axis: str,
    grid: Grid,
    metric: str = "pearson",
) -> Result:
    """Return each task's metrics at the best value of the readout, and the whole sweep.

    Args:
        tasks: tasks of scored pairs.
        similarities: returns the similarities of a task's pairs for all values.
        axis: name of the readout, such as the number of components removed.
        grid: values of the readout.
        metric: metric of the objective, which chooses the value; see ``Sts.chosen_by``.

    Raises:
        InvalidValue: a task is of another kind.
    """
    result = Result()
    values = [int(value) for value in grid]
    for done, task in enumerate(tasks):
        beat("validating", done=done, total=len(tasks))
        if not isinstance(task, Sts):
            fix = "methods on word vectors are evaluated on scored pairs"
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
"""Function of S sentences that returns name of a representation -> embeddings, [S, D]."""


Features: TypeAlias = Callable[..., Tensor]
"""Function of S sentences and the keyword ``representation`` that returns its features for a
classifier, [S, F]."""

TABLE = "representations.json"
WORDS = "words"
"""Name of averaged word vectors, the baseline of learned representations (Table 4)."""
SHIPPED = "ensemble"
"""Name of the default representation."""


def evaluate_representations(
    tasks: Sequence[Task | ModelTask],
    represent: Represent,
    *,
    features: Features | None = None,
    readouts: Given = None,
    grid: Grid = REPRESENTATION.grid,
    objective: str = "sts/pearson",
) -> Result:
    """Return metrics, readouts and tables of all tasks for a model with several representations.

    STS tasks evaluate every representation; other tasks the chosen one, or ``features``.

    Args:
        represent: called once for each STS task, with its sentences.
        features: as in ``sentune.tasks.base.Model``, of the representation that the readout
            ``features`` names, by default ``ensemble``, the concatenation of both encoders (section
            5.2). This readout is never swept.
        readouts: values to apply (test set), or None to choose representations (development set).
        grid: representations to choose among.
        objective: ``task/metric``, whose metric chooses; see ``Sts.chosen_by``.

    Returns:
        As ``sentune.tasks.evaluate``. If representations are chosen, the readout
        ``representation``, for tasks without their own, is that of the objective's task or, if
        this is not an STS task, the one with the best mean Pearson correlation over STS tasks.
        Without STS tasks it is the ensemble or, if the grid lacks this, its first one.
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
    if readouts is None:
        result.readouts[REPRESENTATION.name] = str(SHIPPED if SHIPPED in grid else grid[0])
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
    """Return the result of one STS task, with the cosine of every representation, name -> [S, D].

    The metrics are those of the chosen representation, and ``TASK/words_pearson`` of averaged word
    vectors; ``TASK/representations.json`` has the metrics of each one. Without ``readouts`` the
    representation with the highest ``metric`` is chosen, else it is the task's readout, that of
    ``sts``, the one without a task, or the ensemble.
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
    # correlations over all pairs and means over subsets
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
    """Return a representation; InvalidValue if the model does not have it."""
    if name not in representations:
        fix = f"choose among {', '.join(representations)}"
        raise InvalidValue(f"readout {REPRESENTATION.name}", name, fix)
    return representations[name]
