"""Runs tasks on a model: every distinct sentence is encoded once, whatever the tasks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sentune.errors import TrialFailed
from sentune.geometry.base import Geometry
from sentune.tasks.base import Result, Task

Embed = Callable[[list[str]], Tensor]


def evaluate(
    tasks: Sequence[Task],
    embed: Embed,
    geometry: Geometry,
    readouts: Mapping[str, Any] | None = None,
) -> Result:
    """Metrics, readouts and tables of all tasks.

    Args:
        tasks: with distinct names.
        embed: S sentences -> [S, D] packed embeddings; called once.
        geometry: compares the embeddings.
        readouts: None to sweep them (development set), or the values to apply (test set).

    Raises:
        TrialFailed: an embedding is not finite; the message shows a sentence.
    """
    needs = [task.sentences() for task in tasks]
    row = {s: i for i, s in enumerate(dict.fromkeys(s for need in needs for s in need))}
    result = Result()
    if not row:
        return result
    with torch.no_grad():
        embeddings = _finite(embed(list(row)), list(row))
        for task, need in zip(tasks, needs, strict=True):
            chosen = torch.tensor([row[s] for s in need], device=embeddings.device)
            result.update(task.evaluate(embeddings[chosen], geometry, readouts))
    return result


def _finite(embeddings: Tensor, sentences: Sequence[str]) -> Tensor:
    bad = (~torch.isfinite(embeddings).all(dim=1)).nonzero().flatten().tolist()
    if bad:
        raise TrialFailed(
            f"{len(bad)} of {len(sentences)} embeddings are not finite, "
            f"the first that of {sentences[bad[0]]!r}"
        )
    return embeddings
