"""One step of training: loss, gradient, update. The same for one worker and for many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sentune.errors import TrialFailed
from sentune.methods.base import GradientMethod
from sentune.training.group import Group
from sentune.training.memory import OutOfMemory, first_line, short_of_memory
from sentune.training.settings import TrainingSettings

Rows = Sequence[np.ndarray]
Backward = Callable[[Mapping[str, Rows]], Tensor]
"""Column -> lists of ids of all rows of a global batch -> this worker's part of the loss, detached,
times the world size that averaging divides by. Leaves in ``.grad`` of every parameter the gradient
of the global batch's mean loss, the same on every worker."""


def make_optimizer(method: GradientMethod, settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW; weight matrices decay, biases and layer norms do not."""
    groups = []
    for parameters, rate in method.rated_parameters(settings.learning_rate):
        matrices = [p for p in parameters if p.ndim >= 2]
        others = [p for p in parameters if p.ndim < 2]
        groups += [
            {"params": chosen, "weight_decay": decay, "lr": rate, "highest_lr": rate}
            for chosen, decay in ((matrices, settings.weight_decay), (others, 0.0))
        ]
    return torch.optim.AdamW(groups, fused=True)


class Step(NamedTuple):
    """What a step found: the global batch's mean loss, and the gradient's norm before clipping."""

    loss: float
    gradient_norm: float


class Stepper:
    """Takes steps on a method.

    Args:
        backward: computes loss and gradient; see ``sentune.training.recipes``.
    """

    def __init__(
        self,
        method: GradientMethod,
        optimizer: torch.optim.Optimizer,
        settings: TrainingSettings,
        group: Group,
        backward: Backward,
    ) -> None:
        self.method, self.optimizer = method, optimizer
        self._settings, self._group, self._backward = settings, group, backward

    def step(self, columns: Mapping[str, Rows], *, factor: float, seed: Iterable[int]) -> Step:
        """One update on a global batch; every worker gets the same answer.

        Args:
            columns: column -> lists of ids of all the batch's rows; this worker takes its slice.
            factor: this step's share of the highest learning rates.
            seed: numbers that tell this step's random numbers from any other's.

        Raises:
            TrialFailed: loss or gradient is not finite; the weights are as they were.
            OutOfMemory: in the update, which no micro-batch makes smaller. A lack of memory before
                it is raised as torch says it; the weights are as they were, and the same step can
                be taken again.
        """
        streams = self._group.streams
        streams.start(*seed)
        # the first shard of this worker; recipes that know shards go on with the others
        streams.use(self._group.own_shards(len(next(iter(columns.values()))))[0][0])
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._backward(columns)
        norm = self._clip().item()
        mean = self._group.all_reduce_mean(loss).item()
        if not (math.isfinite(mean) and math.isfinite(norm)):
            raise TrialFailed(f"loss {mean:.4g} with a gradient of norm {norm:.4g}")
        self._update(factor)
        return Step(mean, norm)

    def _update(self, factor: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["highest_lr"] * factor
        try:
            self.optimizer.step()
            self.method.after_step()
        except (RuntimeError, MemoryError) as error:
            if not (where := short_of_memory(error)):
                raise
            raise OutOfMemory(
                f"out of memory on {where} for the optimiser's state, which a smaller micro_batch "
                f"does not shrink ({first_line(error)})"
            ) from None

    def _clip(self) -> Tensor:
        """Norm of the whole gradient before clipping."""
        limit = self._settings.clip_norm or float("inf")
        return nn.utils.clip_grad_norm_(self.method.parameters(), limit)
