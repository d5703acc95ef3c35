"""The steps of a run, taken again with fewer examples at a time where memory is short."""

from __future__ import annotations

import math
from typing import Any

from sentune.corpora.batches import Batch
from sentune.errors import TrialFailed
from sentune.methods.base import GradientMethod
from sentune.training.group import Group
from sentune.training.memory import OutOfMemory, first_line, free, short_of_memory
from sentune.training.recipes import recipe_of
from sentune.training.schedules import learning_rate_factor, steps_for
from sentune.training.settings import TrainingSettings
from sentune.training.state import Position
from sentune.training.step import Step, Stepper, make_optimizer
from sentune.training.trial import TrialSpec


class Steps:
    """Takes a run's steps.

    Attributes:
        optimizer: of the method.
        settings: with the micro-batch that fits, as far as is known.
        reduced: the micro-batch, where memory has made it smaller than the settings say; else 0.
    """

    def __init__(
        self, spec: TrialSpec, method: GradientMethod, settings: TrainingSettings, group: Group
    ) -> None:
        self.spec, self.method, self.settings, self.group = spec, method, settings, group
        self.optimizer = make_optimizer(method, settings)
        self._steps = steps_for(spec.max_examples, settings.batch_size)
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
        try:
            taken = self._attempt(batch, position.step)
            while isinstance(taken, str):
                position.notes.append(self._halve(taken, position))
                taken = self._attempt(batch, position.step)
        except OutOfMemory as failure:
            raise OutOfMemory(self._after(position, failure), failure.micro_batch) from None
        except TrialFailed as failure:
            raise TrialFailed(self._after(position, failure)) from None
        position.step += 1
        return taken

    def _after(self, position: Position, what: object) -> str:
        return f"after {position.step * self.settings.batch_size:,} examples: {what}"

    def _attempt(self, batch: Batch, step: int) -> Step | str:
        """One step, or what its lack of memory was; the error itself would hold on to tensors."""
        factor = learning_rate_factor(
            self.settings.schedule, step=step, steps=self._steps, warmup=self.settings.warmup
        )
        seed: tuple[Any, ...] = (self.spec.seed, step)
        try:
            return self._made_stepper().step(batch.columns, factor=factor, seed=seed)
        except (RuntimeError, MemoryError) as error:
            if not (where := short_of_memory(error)):
                raise
            return f"out of memory on {where} ({first_line(error)})"

    def _made_stepper(self) -> Stepper:
        """Made with the first step: with several workers it sends rank 0's weights to all."""
        if self._stepper is None:
            recipe = recipe_of(type(self.method))
            backward = recipe.backward(self.method, self.settings, self.group, self.spec.encoder)
            self._stepper = Stepper(
                self.method, self.optimizer, self.settings, self.group, backward
            )
        return self._stepper

    def _halve(self, why: str, position: Position) -> str:
        """Half the micro-batch from here on; says so.

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
        return f"micro_batch {now} -> {smaller} {self._after(position, why)}"
