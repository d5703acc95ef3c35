"""The training loop, a generator that yields its progress.

Its caller, such as a notebook, the command line or a launcher on a Ray cluster, decides what to do
with the progress.
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

# Consecutive steps with a collapsed loss and a vanished gradient after which a trial fails. The
# loss alone is not enough: large boxes of equal overlap start at the same value and, with T = 1 and
# a learning rate of 1e-4, stayed there for 77 steps before they learned. A gradient with a norm
# below 1e-9 is negligible beside AdamW's epsilon of 1e-8.
PATIENCE, VANISHED = 100, 1e-9


def train(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Train one trial and yield its progress at every milestone and, if requested, every step.

    Training resumes from the newest checkpoint in ``spec.directory``, bit for bit on a CPU, and
    yields the last milestone again. The caller writes the checkpoints. Rank 0 validates; every rank
    yields. If a single worker runs out of memory, it halves its micro-batch and repeats the step.

    Raises:
        InvalidValue: the settings do not fit each other, the encoder, the corpus or the group.
        TrialFailed: the loss is not finite, or the method can no longer learn.
        OutOfMemory: no micro-batch fits, or a group of workers must restart with a smaller one.
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
    """The state of a running trial on one rank."""

    def __init__(self, spec: TrialSpec, group: Group) -> None:
        self.spec, self.group = spec, group
        kind = find(spec.method)
        method_settings, settings = split(spec.settings, kind)
        self.batch_size = settings.batch_size
        if self.batch_size < group.world_size:
            fix = f"it must be at least the number of workers, {group.world_size}"
            raise InvalidValue("batch_size", self.batch_size, fix)
        ordered = sorted(set(spec.milestones))
        if list(spec.milestones) != ordered or not ordered or ordered[-1] != spec.max_examples:
            fix = f"they must increase and end with max_examples ({spec.max_examples})"
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
        """Load a checkpoint; return the number of examples and the last milestone's progress."""
        found = resume(self.spec, self.batch_size, self.method, self.group)
        if found is None:
            return 0, None
        load_optimizer(self.steps.optimizer, found.optimizer)
        self.position = found.position
        self.steps.fit_into(self.position.micro_batch)
        return found.reached, found.last

    def train_until(self, milestone: int) -> Iterator[Progress]:
        """Train until at least ``milestone`` examples were seen; yield progress if requested."""
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
        """Raise ``TrialFailed`` if the loss has collapsed and the gradient has vanished."""
        dead = gradient_norm < VANISHED and self.method.collapsed(loss, self.batch_size)
        self.position.stalled = self.position.stalled + 1 if dead else 0
        if self.position.stalled >= PATIENCE:
            seen = self.position.step * self.batch_size
            raise TrialFailed(
                f"after {seen:,} examples: the loss has stayed at {loss:.4f} for {PATIENCE} "
                "steps, its value if no two boxes overlap, and its gradient has vanished; try "
                "another intersection_temperature, fewer dimensions or a lower learning_rate"
            )

    def report(self, milestone: int) -> Progress:
        """Validate on rank 0 and return the progress at a milestone."""
        started, final = time.perf_counter(), milestone == self.spec.max_examples
        result = self._validate(final) if self.group.is_first else Result()
        result = self.group.broadcast_object(result)
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
            "in validation, which micro_batch does not affect; smaller --dev corpora or a smaller "
            "max_length need less"
        )
        with raising_out_of_memory(why, after):
            return self._validator.validate(self.method, rung=not final)

    def save(self, folder: Path) -> None:
        """Write the resumable state on rank 0."""
        self.position.micro_batch = self.steps.reduced
        if self.group.is_first:
            save_state(folder, self.method, self.steps.optimizer, self.position)
