"""Runs tasks on a model: every distinct sentence is encoded once, whatever the tasks share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sentune.beats import beat
from sentune.errors import TrialFailed
from sentune.geometry.base import Geometry
from sentune.tasks.base import Embed, Generate, Given, Model, ModelTask, Result, Task


def evaluate(
    tasks: Sequence[Task | ModelTask],
    embed: Embed,
    geometry: Geometry,
    readouts: Given = None,
    *,
    features: Embed | None = None,
    generate: Generate | None = None,
) -> Result:
    """Metrics, readouts and tables of all tasks.

    Args:
        tasks: with distinct names.
        embed: called once for all tasks that compare embeddings.
        readouts: None to sweep them (development set), or the values to apply (test set).
        features, generate: as in ``sentune.tasks.base.Model``.

    Raises:
        TrialFailed: an embedding is not finite; the message shows a sentence.
    """
    model = Model(embed=embed, geometry=geometry, features=features, generate=generate)
    result = Result()
    with torch.no_grad():
        result.update(_compare([t for t in tasks if not isinstance(t, ModelTask)], model, readouts))
        for done, task in enumerate(tasks):
            if isinstance(task, ModelTask):
                beat("validating", done=done, total=len(tasks))
                result.update(task.run(model, readouts))
    return result


def _compare(tasks: Sequence[Task], model: Model, readouts: Given) -> Result:
    """Return the tasks on embeddings, each distinct sentence embedded once."""
    needs = [task.sentences() for task in tasks]
    row = {s: i for i, s in enumerate(dict.fromkeys(s for need in needs for s in need))}
    result = Result()
    if not row:
        return result
    embeddings = finite(model.embed(list(row)), list(row))
    for done, (task, need) in enumerate(zip(tasks, needs, strict=True)):
        beat("validating", done=done, total=len(tasks))
        chosen = torch.tensor([row[s] for s in need], device=embeddings.device)
        result.update(task.evaluate(embeddings[chosen], model.geometry, readouts))
    return result


def finite(embeddings: Tensor, sentences: Sequence[str]) -> Tensor:
    """Return the embeddings as they are; a ``TrialFailed`` with a sentence if one is not finite."""
    bad = (~torch.isfinite(embeddings).all(dim=1)).nonzero().flatten().tolist()
    if bad:
        raise TrialFailed(
            f"{len(bad)} of {len(sentences)} embeddings are not finite, "
            f"the first that of {sentences[bad[0]]!r}"
        )
    return embeddings
