"""The steps of training: loss, gradient, update. The same for one worker and for many."""

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


@dataclass
class Stepper:
    """Takes single steps on a method; ``backward`` computes loss and gradient."""

    method: GradientMethod
    optimizer: torch.optim.Optimizer
    settings: TrainingSettings
    group: Group
    backward: Backward

    def step(self, columns: Mapping[str, Rows], *, factor: float, seed: Iterable[int]) -> Step:
        """Return the loss of one update on a global batch, the same on every worker.

        Args:
            columns: column -> lists of ids of all the batch's rows; this worker takes its slice.
            factor: this step's share of the highest learning rates.
            seed: numbers that tell this step's random numbers from any other's.

        Raises:
            TrialFailed: loss or gradient is not finite; the weights are as they were.
            OutOfMemory: in the update, which no micro-batch makes smaller. A lack of memory before
                it is raised as torch says it, and the same step can be taken again.
        """
        streams = self.group.streams
        streams.start(*seed)
        # the first shard of this worker; recipes that know shards go on with the others
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
    """Takes a run's steps, with fewer examples at a time where memory is short.

    Attributes:
        settings: with the micro-batch that fits, as far as is known.
        total: steps of the whole run.
        reduced: the micro-batch, where memory has made it smaller than the settings say; else 0.
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
        """Take at most so many examples at a time from here on; 0: as many as now."""
        if micro_batch and micro_batch < (self.settings.micro_batch or math.inf):
            self.settings = self.settings.model_copy(update={"micro_batch": micro_batch})
            self.reduced, self._stepper = micro_batch, None

    def take(self, batch: Batch, position: Position) -> Step:
        """Return the step after ``position``, which counts it and notes a lack of memory.

        Raises:
            TrialFailed: loss or gradient is not finite.
            OutOfMemory: see ``_halve``.
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
        """One step, or what its lack of memory was; the error itself would hold on to tensors."""
        settings = self.settings
        factor = learning_rate_factor(
            settings.schedule, step=step, steps=self.total, warmup=settings.warmup
        )
        try:
            if self._stepper is None:  # with several workers it sends rank 0's weights to all
                recipe, encoder = recipe_of(type(self.method)), self.spec.encoder
                backward = recipe.backward(self.method, settings, self.group, encoder)
                self._stepper = Stepper(self.method, self.optimizer, settings, self.group, backward)
            return self._stepper.step(batch.columns, factor=factor, seed=(self.spec.seed, step))
        except (RuntimeError, MemoryError) as error:
            if not (where := short_of_memory(error)):
                raise
            return f"out of memory on {where} ({first_line(error)})"

    def _halve(self, why: str, position: Position) -> str:
        """Halve the micro-batch from here on; return a note of it.

        A group cannot do so within a step: the others wait in a collective for the worker that
        has no memory, and nothing else reaches them there. It has to start again.

        Raises:
            OutOfMemory: no smaller micro-batch is left, or a group has to start again with one.
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
