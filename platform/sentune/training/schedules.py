"""Learning rates and milestones, both counted in examples of the training corpus."""

from __future__ import annotations

import math

from sentune.errors import InvalidValue
from sentune.training.settings import Schedule


def learning_rate_factor(schedule: Schedule, *, step: int, steps: int, warmup: float) -> float:
    """Share of the highest learning rate at a step.

    ``linear`` and ``constant`` rise over the first ``warmup * steps`` steps. ``rising`` is
    GaussCSE's (appendix A): 0 at the beginning, the set value in the last step. Under it a rung at
    a tenth of the budget has seen a tenth of the learning rate, so the early rungs of trials with
    unequal budgets cannot be compared, nor do early rungs say much about the last one.

    Args:
        step: from 0 to ``steps - 1``.
        steps: steps of the whole budget.
        warmup: share of the steps.
    """
    if schedule == "rising":
        return (step + 1) / steps
    rise = math.ceil(warmup * steps)
    if step < rise:
        return (step + 1) / (rise + 1)
    if schedule == "constant":
        return 1.0
    return (steps - step) / (steps - rise)


def steps_for(examples: int, batch_size: int) -> int:
    """Steps until at least that many examples have been seen."""
    return -(-examples // batch_size)


def milestones(max_examples: int, every: int) -> tuple[int, ...]:
    """Every so many examples, and the end of the budget.

    The papers validate every 100 steps: ``every = 100 * batch_size``.
    """
    if every < 1:
        raise InvalidValue("--validate-every", every, "give a positive number of examples")
    return (*range(every, max_examples, every), max_examples)
