"""The training loop: a generator that says how far it is and leaves the rest to its caller.

Nothing in it knows who runs it: a notebook, the command line, or a launcher on a Ray cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from sentune.corpora.batches import Batch, BatchSource
from sentune.errors import InvalidValue, TrialFailed
from sentune.methods import find
from sentune.tasks import Result
from sentune.training.checkpoints import SavedProgress
from sentune.training.group import Group
from sentune.training.memory import OutOfMemory, first_line, short_of_memory
from sentune.training.precision import check_precision
from sentune.training.recipes import Validates, build_method, recipe_of
from sentune.training.resuming import load_optimizer, take_up
from sentune.training.schedules import steps_for
from sentune.training.settings import split
from sentune.training.state import Pace, Position, save_state
from sentune.training.steps import Steps
from sentune.training.trial import Progress, TrialSpec

# Steps in a row with a collapsed loss and no gradient after which a trial is given up. The loss
# alone is no sign: large boxes of equal overlap start at the same value, and at T = 1 and a
# learning rate of 1e-4 stayed there for 77 steps before they learned. Below a norm of 1e-9 a
# gradient drowns in AdamW's epsilon of 1e-8, so nothing will move again.
PATIENCE, VANISHED = 100, 1e-9


def train(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Train one trial, saying its progress at every milestone, and at each step where asked.

    Resumes from the newest checkpoint in ``spec.directory``, bit for bit on a CPU, and says the
    last milestone again; the caller writes the checkpoints, with what is yielded. Rank 0 validates,
    every rank yields. Out of memory, one worker alone halves its micro-batch and takes the same
    step again.

    Raises:
        InvalidValue: the settings do not fit together, the encoder, the corpus or the group.
        TrialFailed: the loss is not finite, or the method cannot learn any more.
        OutOfMemory: no micro-batch fits, or a group has to start again with a smaller one.
    """
    trial = _Trial(spec, group)
    reached, said = trial.resume()
    if said is not None:
        yield said.again(trial.save)
    for milestone in spec.milestones:
        if milestone > reached:
            yield from trial.train_until(milestone)
            yield trial.report(milestone)


class _Trial:
    """What a running trial holds on one rank."""

    def __init__(self, spec: TrialSpec, group: Group) -> None:
        self.spec, self.group = spec, group
        kind = find(spec.method)
        method_settings, settings = split(spec.settings, kind)
        self.batch_size = settings.batch_size
        _check(spec, self.batch_size, group)
        check_precision(settings.precision, group.device)
        self.recipe = recipe_of(kind)
        self.method = build_method(kind, method_settings, settings, spec.encoder, spec.seed)
        self.method.to(group.device).train()
        self.steps = Steps(spec, self.method, settings, group)
        self.position = Position()
        self.source: BatchSource = spec.corpus.open()
        _check_corpus(self.source, spec)
        self._validator: Validates | None = None
        self._batches: Iterator[Batch] | None = None

    def resume(self) -> tuple[int, SavedProgress | None]:
        """Take up a checkpoint; the examples reached, and what was said at the last milestone."""
        found = take_up(self.spec, self.batch_size, self.method, self.group)
        if found is None:
            return 0, None
        load_optimizer(self.steps.optimizer, found.optimizer)
        self.position = found.position
        self.steps.fit_into(self.position.micro_batch)
        return found.reached, found.said

    def train_until(self, milestone: int) -> Iterator[Progress]:
        """Take steps until at least ``milestone`` examples have been seen."""
        size = self.batch_size
        last = steps_for(milestone, size)
        if self._batches is None:
            self._batches = self.source.batches(size, self.spec.seed, self.position.step * size)
        while self.position.step < last:
            started = time.perf_counter()
            taken = self.steps.take(next(self._batches), self.position)
            self.position.pace.add(taken.loss, size, time.perf_counter() - started)
            self._watch(taken.loss, taken.gradient_norm)
            if self.spec.every_step and self.position.step < last:
                yield self._between()

    def _between(self) -> Progress:
        notes = [*self.position.notes]
        return Progress(
            examples=self._seen, metrics={}, save=self.save, milestone=False, notes=notes
        )

    @property
    def _seen(self) -> int:
        return self.position.step * self.batch_size

    def _watch(self, loss: float, gradient_norm: float) -> None:
        """Give up on a method that has had no gradient for a while."""
        vanished = gradient_norm < VANISHED
        dead = vanished and self.method.collapsed(loss, self.batch_size)
        self.position.stalled = self.position.stalled + 1 if dead else 0
        if self.position.stalled >= PATIENCE:
            raise TrialFailed(
                f"after {self._seen:,} examples: the loss has stayed at {loss:.4f} for {PATIENCE} "
                "steps, its value when no two boxes overlap, and its gradient is gone; try another "
                "intersection_temperature, fewer dimensions or a lower learning_rate"
            )

    def report(self, milestone: int) -> Progress:
        """Validate on rank 0 and say so."""
        started = time.perf_counter()
        result = self.group.broadcast_object(self._validate() if self.group.is_first else None)
        if result is None:
            raise TrialFailed(f"after {milestone:,} examples: rank 0 gave no validation")
        position = self.position
        position.seconds += position.pace.seconds + time.perf_counter() - started
        metrics = {**result.metrics, **position.pace.metrics(), "train/seconds": position.seconds}
        position.pace = Pace()
        return Progress(
            examples=milestone,
            metrics=metrics,
            readouts=result.readouts,
            tables=result.tables,
            final=milestone == self.spec.max_examples,
            save=self.save,
            notes=[*position.notes],
        )

    def _validate(self) -> Result:
        if self._validator is None:
            device = self.group.device
            self._validator = self.recipe.validator(self.spec, self.steps.settings, device)
        try:
            return self._validator.validate(self.method)
        except (RuntimeError, MemoryError) as error:
            if not (where := short_of_memory(error)):
                raise
            raise OutOfMemory(
                f"after {self._seen:,} examples: out of memory on {where} in validation, where "
                f"micro_batch does not count; smaller corpora after --dev or a smaller max_length "
                f"need less ({first_line(error)})"
            ) from None

    def save(self, folder: Path) -> None:
        """Write the resumable state; ranks other than 0 have nothing to add."""
        self.position.micro_batch = self.steps.reduced
        if self.group.is_first:
            save_state(folder, self.method, self.steps.optimizer, self.position)


def _check(spec: TrialSpec, batch_size: int, group: Group) -> None:
    if batch_size < group.world_size:
        fix = f"give each of the {group.world_size} workers at least one example"
        raise InvalidValue("batch_size", batch_size, fix)
    ordered = sorted(set(spec.milestones))
    if list(spec.milestones) != ordered or not ordered or ordered[-1] != spec.max_examples:
        fix = f"milestones increase and end with max_examples ({spec.max_examples})"
        raise InvalidValue("milestones", spec.milestones, fix)


def _check_corpus(source: BatchSource, spec: TrialSpec) -> None:
    method = find(spec.method)
    missing = set(method.columns()) - set(source.column_names)
    if missing:
        fix = f"{method.title} trains on {method.kind.value}, with {', '.join(sorted(missing))}"
        raise InvalidValue("--corpus", source.column_names, fix)
