"""What rules without a model reach: the figures that a model's must beat."""

from __future__ import annotations

from collections.abc import Sequence

from sentune.corpora.schema import Corpus, Kind
from sentune.tasks import (
    Direction,
    Generation,
    Rte,
    Transfer,
    bag_of_words_direction,
    entailment_pairs,
    tasks_for,
)


def baselines(train: Corpus | None, judged: Sequence[Corpus]) -> dict[str, float]:
    """``task/metric`` -> fraction on the corpora that a model is judged on.

    The larger class on every RTE and transfer task, LENGTH on every direction task, copying the
    input where sentences are generated; where there are entailments to learn from, also a bag of
    words trained on the training corpus, which tells how much the words alone give away.
    """
    found: dict[str, float] = {}
    for task in tasks_for(*judged):
        if isinstance(task, Rte | Transfer):
            found[f"{task.name}/majority"] = task.majority()
        if isinstance(task, Generation):
            found |= task.baselines()
        if not isinstance(task, Direction):
            continue
        found |= task.baselines()
        if train is not None and train.kind is Kind.TRIPLETS:
            pairs = list(zip(task.pairs.first, task.pairs.second, strict=True))
            found[f"{task.name}/bag_of_words"] = bag_of_words_direction(
                entailment_pairs(train), pairs
            )
    return found
