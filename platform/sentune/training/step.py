"""Training steps (loss, gradient, update) on one worker or several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from sentune.corpora.batches import Batch
from sentune.errors import TrialFailed, first_line
from sentune.methods.base import GradientMethod
from sentune.training.group import Group
from sentune.training.memory import OutOfMemory, free, raising_out_of_memory, short_of_memory
from sentune.training.recipes import recipe_of
from sentune.training.recipes.base import Backward, Rows
from sentune.training.settings import TrainingSettings, learning_rate_factor, steps_for
from sentune.training.state import Position
from sentune.training.trial import TrialSpec


def make_optimizer(method: GradientMethod, settings: TrainingSettings) -> torch.optim.AdamW:
    """Return AdamW with weight decay on matrices, but not on biases and layer norms."""
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
    """Mean loss of the global batch, and norm of the gradient before clipping."""

    loss: float
    gradient_norm: float


@dataclass
class Stepper:
    """Performs single training steps; ``backward`` computes loss and gradient."""

    method: GradientMethod
    optimizer: torch.optim.Optimizer
    settings: TrainingSettings
    group: Group
    backward: Backward

    def step(self, columns: Mapping[str, Rows], *, factor: float, seed: Iterable[int]) -> Step:
        """Update the weights on a global batch; return loss and gradient norm, as on all workers.

        Args:
            columns: column -> lists of ids of all rows of the batch; this worker uses its slice.
            factor: factor of the highest learning rates.
            seed: numbers that identify the random numbers of this step.

        Raises:
            TrialFailed: loss or gradient is not finite; the weights are unchanged.
            OutOfMemory: the update, which a smaller micro-batch does not help, ran out of memory.
                If loss or gradient ran out of memory, torch's error is raised and the step can be
                repeated.
        """
        streams = self.group.streams
        streams.start(*seed)
        # this worker's first shard; recipes with shards seed the others themselves
        rows = len(next(iter(columns.values())))
        streams.use(self.group.shards_by_worker(rows)[self.group.rank].start)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.backward(columns)
        limit = self.settings.clip_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self.method.parameters(), limit).item()
        mean = self.group.all_reduce_mean(loss).item()
        if not (math.isfinite(mean) and math.isfinite(norm)):
            raise TrialFailed(f"loss {mean:.4g} with a gradient of norm {norm:.4g}")
        for group in self.optimizer.param_groups:
            group["lr"] = group["highest_lr"] * factor
        with raising_out_of_memory(
            "for the optimiser's state, which a smaller micro_batch does not shrink"
        ):
            self.optimizer.step()
            self.method.after_step()
        return Step(mean, norm)


class Steps:
    """Performs the steps of a run, reducing the micro-batch if memory is exhausted.

    Attributes:
        settings: training settings with the current micro-batch.
        total: number of steps of the whole run.
        reduced: micro-batch to which a lack of memory has reduced the run; 0: not reduced.
    """

    def __init__(
        self, spec: TrialSpec, method: GradientMethod, settings: TrainingSettings, group: Group
    ) -> None:
        self.spec, self.method, self.settings, self.group = spec, method, settings, group
        self.optimizer = make_optimizer(method, settings)
        self.total = steps_for(spec.max_examples, settings.batch_size)
        self.reduced = 0
        self._stepper: Stepper | None = None
        self.fit_into(spec.micro_batch)

    def fit_into(self, micro_batch: int) -> None:
        """Process at most ``micro_batch`` examples at a time from now on; 0: no change."""
        if micro_batch and micro_batch < (self.settings.micro_batch or math.inf):
            self.settings = self.settings.model_copy(update={"micro_batch": micro_batch})
            self.reduced, self._stepper = micro_batch, None

    def take(self, batch: Batch, position: Position) -> Step:
        """Perform the step at ``position``, and advance it; a lack of memory is added to its notes.

        Raises:
            TrialFailed: loss or gradient is not finite.
            OutOfMemory: no micro-batch fits, or a group of workers must restart with a smaller one.
        """
        after = f"after {position.step * self.settings.batch_size:,} examples:"
        try:
            taken = self._attempt(batch, position.step)
            while isinstance(taken, str):
                position.notes.append(self._halve(taken, position))
                taken = self._attempt(batch, position.step)
        except OutOfMemory as failure:
            raise OutOfMemory(f"{after} {failure}", failure.micro_batch) from None
        except TrialFailed as failure:
            raise TrialFailed(f"{after} {failure}") from None
        position.step += 1
        return taken

    def _attempt(self, batch: Batch, step: int) -> Step | str:
        """Return a step, or a description of its lack of memory.

        The error itself is not returned, because its traceback would keep tensors alive.
        """
        settings = self.settings
        factor = learning_rate_factor(
            settings.schedule, step=step, steps=self.total, warmup=settings.warmup
        )
        try:
            if self._stepper is None:  # with several workers this broadcasts rank 0's weights
                recipe, encoder = recipe_of(type(self.method)), self.spec.encoder
                backward = recipe.backward(self.method, settings, self.group, encoder)
                self._stepper = Stepper(self.method, self.optimizer, settings, self.group, backward)
            return self._stepper.step(batch.columns, factor=factor, seed=(self.spec.seed, step))
        except (RuntimeError, MemoryError) as error:
            if not (where := short_of_memory(error)):
                raise
            return f"out of memory on {where} ({first_line(error)})"

    def _halve(self, why: str, position: Position) -> str:
        """Halve the micro-batch from now on, and return a note.

        A group of several workers must restart instead, because the others wait in a collective
        for the worker without memory and cannot be reached.

        Raises:
            OutOfMemory: the micro-batch is 1, or the group has several workers.
        """
        share = self.group.sizes(self.settings.batch_size)[0]
        now = min(self.settings.micro_batch or share, share)
        smaller = now // 2
        if not smaller:
            raise OutOfMemory(f"{why}, even with a micro_batch of 1")
        if self.group.world_size > 1:
            raise OutOfMemory(f"{why} with a micro_batch of {now}", smaller)
        self.optimizer.zero_grad(set_to_none=True)
        self.fit_into(smaller)
        free()
        seen = position.step * self.settings.batch_size
        return f"micro_batch {now} -> {smaller} after {seen:,} examples: {why}"
