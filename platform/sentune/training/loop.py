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
from sentune.training.build import build_method
from sentune.training.checkpoints import CheckpointStore, SavedProgress
from sentune.training.group import Group
from sentune.training.precision import check_precision
from sentune.training.recipes import Validates, recipe_of
from sentune.training.schedules import learning_rate_factor, steps_for
from sentune.training.settings import split
from sentune.training.state import Position, load_state, save_state
from sentune.training.step import Stepper, make_optimizer
from sentune.training.trial import Progress, TrialSpec

# Steps in a row with a collapsed loss and no gradient after which a trial is given up. The loss
# alone is no sign: large boxes of equal overlap start at the same value, and at T = 1 and a
# learning rate of 1e-4 stayed there for 77 steps before they learned. Below a norm of 1e-9 a
# gradient drowns in AdamW's epsilon of 1e-8, so nothing will move again.
PATIENCE, VANISHED = 100, 1e-9


def train(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Train one trial, saying its progress at every milestone.

    Resumes from the newest checkpoint in ``spec.directory``, bit for bit on a CPU, and says the
    last progress again; the caller writes the checkpoints, with what is yielded. Rank 0 validates,
    every rank yields.

    Raises:
        InvalidValue: the settings do not fit together, the encoder, the corpus or the group.
        TrialFailed: the loss is not finite, or the method cannot learn any more.
    """
    trial = _Trial(spec, group)
    said = trial.resume()
    if said is not None:
        yield said.again(trial.save)
    reached = said.examples if said is not None else 0
    for milestone in spec.milestones:
        if milestone > reached:
            trial.train_until(milestone)
            yield trial.report(milestone)


class _Trial:
    """What a running trial holds on one rank."""

    def __init__(self, spec: TrialSpec, group: Group) -> None:
        self.spec, self.group = spec, group
        kind = find(spec.method)
        method_settings, self.settings = split(spec.settings, kind)
        _check(spec, self.settings.batch_size, group)
        check_precision(self.settings.precision, group.device)
        self.recipe = recipe_of(kind)
        self.method = build_method(kind, method_settings, self.settings, spec.encoder, spec.seed)
        self.method.to(group.device).train()
        self.optimizer = make_optimizer(self.method, self.settings)
        self.position = Position()
        self.source: BatchSource = spec.corpus.open()
        _check_corpus(self.source, spec)
        self.steps = steps_for(spec.max_examples, self.settings.batch_size)
        self.pace = _Pace()
        self._validator: Validates | None = None
        self._stepper: Stepper | None = None
        self._batches: Iterator[Batch] | None = None

    def resume(self) -> SavedProgress | None:
        """Take up the newest checkpoint; rank 0 reads it for all."""
        found = None
        if self.spec.directory and self.group.is_first:
            store = CheckpointStore(self.spec.directory)
            folder, said = store.last(), store.last_progress()
            found = (load_state(folder, self.method), said) if folder is not None else None
        found = self.group.broadcast_object(found)
        if found is None:
            return None
        (optimizer, self.position), said = found
        self.optimizer.load_state_dict(optimizer)
        return said

    def train_until(self, milestone: int) -> None:
        """Take steps until at least ``milestone`` examples have been seen."""
        size, started = self.settings.batch_size, time.perf_counter()
        last = steps_for(milestone, size)
        if self._stepper is None:  # not before resume(): it sends rank 0's weights to all
            backward = self.recipe.backward(
                self.method, self.settings, self.group, self.spec.encoder
            )
            self._stepper = Stepper(
                self.method, self.optimizer, self.settings, self.group, backward
            )
        if self._batches is None:
            self._batches = self.source.batches(size, self.spec.seed, self.position.step * size)
        while self.position.step < last:
            self._step(self._stepper, next(self._batches))
        self.pace.seconds += time.perf_counter() - started

    def _step(self, stepper: Stepper, batch: Batch) -> None:
        step, settings = self.position.step, self.settings
        factor = learning_rate_factor(
            settings.schedule, step=step, steps=self.steps, warmup=settings.warmup
        )
        seed = (self.spec.seed, step)
        try:
            taken = stepper.step(batch.columns, factor=factor, seed=seed)
        except TrialFailed as failure:
            seen = step * settings.batch_size
            raise TrialFailed(f"after {seen:,} examples: {failure}") from None
        self.position.step += 1
        self.pace.add(taken.loss, settings.batch_size)
        self._watch(taken.loss, taken.gradient_norm)

    def _watch(self, loss: float, gradient_norm: float) -> None:
        """Give up on a method that has had no gradient for a while."""
        vanished = gradient_norm < VANISHED
        dead = vanished and self.method.collapsed(loss, self.settings.batch_size)
        self.position.stalled = self.position.stalled + 1 if dead else 0
        if self.position.stalled >= PATIENCE:
            seen = self.position.step * self.settings.batch_size
            raise TrialFailed(
                f"after {seen:,} examples: the loss has stayed at {loss:.4f} for {PATIENCE} steps, "
                "its value when no two boxes overlap, and its gradient is gone; try another "
                "intersection_temperature, fewer dimensions or a lower learning_rate"
            )

    def report(self, milestone: int) -> Progress:
        """Validate on rank 0 and say so."""
        started = time.perf_counter()
        result = self.group.broadcast_object(self._validate() if self.group.is_first else None)
        if result is None:
            raise TrialFailed(f"after {milestone:,} examples: rank 0 gave no validation")
        self.position.seconds += self.pace.seconds + time.perf_counter() - started
        metrics = {**result.metrics, **self.pace.metrics(), "train/seconds": self.position.seconds}
        self.pace = _Pace()
        return Progress(
            examples=milestone,
            metrics=metrics,
            readouts=result.readouts,
            tables=result.tables,
            final=milestone == self.spec.max_examples,
            save=self.save,
        )

    def _validate(self) -> Result:
        if self._validator is None:
            device = self.group.device
            self._validator = self.recipe.validator(self.spec, self.settings, device)
        return self._validator.validate(self.method)

    def save(self, folder: Path) -> None:
        """Write the resumable state; ranks other than 0 have nothing to add."""
        if self.group.is_first:
            save_state(folder, self.method, self.optimizer, self.position)


class _Pace:
    """Loss and speed since the last milestone."""

    def __init__(self) -> None:
        self.loss, self.steps, self.examples, self.seconds = 0.0, 0, 0, 0.0

    def add(self, loss: float, examples: int) -> None:
        self.loss += loss
        self.steps += 1
        self.examples += examples

    def metrics(self) -> dict[str, float]:
        """Nothing where two milestones fell into one step."""
        if not self.steps:
            return {}
        return {
            "train/loss": self.loss / self.steps,
            "train/examples_per_second": self.examples / self.seconds,
        }


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
