"""The training loop: a generator that yields its progress and leaves the rest to its caller.

Nothing in it knows who runs it: a notebook, the command line, or a launcher on a Ray cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from sentune.beats import beat
from sentune.corpora.batches import Batch, BatchSource
from sentune.errors import InvalidValue, TrialFailed
from sentune.methods import find
from sentune.tasks import Result
from sentune.training.checkpoints import SavedProgress
from sentune.training.group import Group
from sentune.training.memory import raising_out_of_memory
from sentune.training.precision import check_precision
from sentune.training.recipes import Validator, build, recipe_of
from sentune.training.settings import split, steps_for
from sentune.training.state import Position, load_optimizer, resume, save_state
from sentune.training.step import Steps
from sentune.training.trial import Progress, TrialSpec

# Steps in a row with a collapsed loss and no gradient after which a trial is given up. The loss
# alone is no sign: large boxes of equal overlap start at the same value, and at T = 1 and a
# learning rate of 1e-4 stayed there for 77 steps before they learned. Below a norm of 1e-9 a
# gradient drowns in AdamW's epsilon of 1e-8, so nothing will move again.
PATIENCE, VANISHED = 100, 1e-9


def train(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Train one trial and yield its progress at every milestone, and at each step where asked.

    Resumes from the newest checkpoint in ``spec.directory``, bit for bit on a CPU, and yields the
    last milestone again; the caller writes the checkpoints. Rank 0 validates, every rank yields.
    Out of memory, one worker alone halves its micro-batch and takes the same step again.

    Raises:
        InvalidValue: the settings do not fit together, the encoder, the corpus or the group.
        TrialFailed: the loss is not finite, or the method cannot learn any more.
        OutOfMemory: no micro-batch fits, or a group has to start again with a smaller one.
    """
    trial = _Trial(spec, group)
    reached, last = trial.resume()
    if last is not None:
        yield last.again(trial.save)
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
        if self.batch_size < group.world_size:
            fix = f"give each of the {group.world_size} workers at least one example"
            raise InvalidValue("batch_size", self.batch_size, fix)
        ordered = sorted(set(spec.milestones))
        if list(spec.milestones) != ordered or not ordered or ordered[-1] != spec.max_examples:
            fix = f"milestones increase and end with max_examples ({spec.max_examples})"
            raise InvalidValue("milestones", spec.milestones, fix)
        check_precision(settings.precision, group.device)
        self.method = build(kind, method_settings, settings, spec.encoder, spec.seed)
        self.method.to(group.device).train()
        self.steps = Steps(spec, self.method, settings, group)
        self.position = Position()
        self.source: BatchSource = spec.corpus.open()
        self.source.join(group)
        missing = set(kind.columns()) - set(self.source.column_names)
        if missing:
            fix = f"{kind.title} trains on {kind.kind.value}, with {', '.join(sorted(missing))}"
            raise InvalidValue("--corpus", self.source.column_names, fix)
        self._validator: Validator | None = None
        self._batches: Iterator[Batch] | None = None

    def resume(self) -> tuple[int, SavedProgress | None]:
        """Take up a checkpoint; return the examples reached, and the last milestone's progress."""
        found = resume(self.spec, self.batch_size, self.method, self.group)
        if found is None:
            return 0, None
        load_optimizer(self.steps.optimizer, found.optimizer)
        self.position = found.position
        self.steps.fit_into(self.position.micro_batch)
        return found.reached, found.last

    def train_until(self, milestone: int) -> Iterator[Progress]:
        """Take steps until at least ``milestone`` examples have been seen."""
        size, position = self.batch_size, self.position
        last = steps_for(milestone, size)
        if self._batches is None:
            self._batches = self.source.batches(size, self.spec.seed, position.step * size)
        while position.step < last:
            started = time.perf_counter()
            taken = self.steps.take(next(self._batches), position)
            position.add(taken.loss, size, time.perf_counter() - started, milestone)
            beat(
                "training",
                examples=position.step * size,
                loss=taken.loss,
                rate=position.pace.examples / position.pace.seconds,
                done=position.step,
                total=self.steps.total,
            )
            self._watch(taken.loss, taken.gradient_norm)
            if self.spec.every_step and position.step < last:
                yield Progress(
                    examples=position.step * size,
                    metrics={},
                    save=self.save,
                    milestone=False,
                    notes=[*position.notes],
                )

    def _watch(self, loss: float, gradient_norm: float) -> None:
        """Give up on a method that has had no gradient for a while."""
        dead = gradient_norm < VANISHED and self.method.collapsed(loss, self.batch_size)
        self.position.stalled = self.position.stalled + 1 if dead else 0
        if self.position.stalled >= PATIENCE:
            seen = self.position.step * self.batch_size
            raise TrialFailed(
                f"after {seen:,} examples: the loss has stayed at {loss:.4f} for {PATIENCE} "
                "steps, its value when no two boxes overlap, and its gradient is gone; try another "
                "intersection_temperature, fewer dimensions or a lower learning_rate"
            )

    def report(self, milestone: int) -> Progress:
        """Validate on rank 0; return the milestone's progress."""
        started, final = time.perf_counter(), milestone == self.spec.max_examples
        result = self.group.broadcast_object(self._validate(final) if self.group.is_first else None)
        if result is None:
            raise TrialFailed(f"after {milestone:,} examples: rank 0 gave no validation")
        position = self.position
        position.seconds += position.pace.seconds + time.perf_counter() - started
        metrics = {**result.metrics, **position.pace.metrics(), "train/seconds": position.seconds}
        return Progress(
            examples=milestone,
            metrics=metrics,
            readouts=result.readouts,
            tables=result.tables,
            trace=position.reach(),
            final=final,
            save=self.save,
            notes=[*position.notes],
        )

    def _validate(self, final: bool) -> Result:
        beat("validating")
        if self._validator is None:
            recipe = recipe_of(self.method)
            self._validator = recipe.validator(self.spec, self.steps.settings, self.group.device)
        after = f"after {self.position.step * self.batch_size:,} examples: "
        why = (
            "in validation, where micro_batch does not count; smaller corpora after --dev or a "
            "smaller max_length need less"
        )
        with raising_out_of_memory(why, after):
            return self._validator.validate(self.method, rung=not final)

    def save(self, folder: Path) -> None:
        """Write the resumable state; ranks other than 0 have nothing to add."""
        self.position.micro_batch = self.steps.reduced
        if self.group.is_first:
            save_state(folder, self.method, self.steps.optimizer, self.position)
