"""A trial's resumable state, and how a run takes it up: its own, or another run's."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_model, save_model
from torch import nn

from sentune.errors import CheckpointGone, InvalidValue, first_line
from sentune.training.checkpoints import CheckpointStore, SavedProgress
from sentune.training.group import Group
from sentune.training.settings import steps_for
from sentune.training.trial import TrialSpec, other_donor

TRACED = 50
"""Points of loss and speed that a run keeps on its way to a milestone, counted from its begin."""

WEIGHTS_FILE, OPTIMIZER_FILE = "weights.safetensors", "optimizer.pt"


@dataclass
class Pace:
    """Loss and speed of some steps, each figure a sum over them."""

    loss: float = 0.0
    steps: int = 0
    examples: int = 0
    seconds: float = 0.0

    def add(self, loss: float, examples: int, seconds: float) -> None:
        self.loss += loss
        self.steps += 1
        self.examples += examples
        self.seconds += seconds

    def metrics(self) -> dict[str, float]:
        """Return loss and speed; nothing where two milestones fell into one step."""
        if not self.steps:
            return {}
        return {
            "train/loss": self.loss / self.steps,
            "train/examples_per_second": self.examples / self.seconds,
        }


@dataclass
class Position:
    """How far a trial is.

    No random state belongs to it: each step draws from a generator that is seeded by (seed, step,
    rank), and the corpus is shuffled by (seed, epoch). A group of another size can resume.

    Attributes:
        seconds: of training and validation up to the last milestone, over all starts.
        stalled: steps in a row at which the method's loss had collapsed.
        pace: since the last milestone.
        recent: since the last point of the trace.
        trace: since the last milestone, each point examples seen, loss, examples a second, and
            UTC epoch seconds.
        micro_batch: to which a lack of memory has brought the trial; 0: it had enough.
        notes: what it did beside training, a sentence each.
    """

    step: int = 0
    seconds: float = 0.0
    stalled: int = 0
    pace: Pace = field(default_factory=Pace)
    recent: Pace = field(default_factory=Pace)
    trace: list[list[float]] = field(default_factory=list)
    micro_batch: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, loss: float, examples: int, seconds: float, milestone: int) -> None:
        """Count the step that was taken; a point of the trace every fiftieth of a milestone.

        So a run that is stopped at its first rung has as many points as one that goes on, and one
        of many milestones few more.
        """
        self.pace.add(loss, examples, seconds)
        self.recent.add(loss, examples, seconds)
        if self.recent.examples * TRACED >= milestone:
            point = [self.step * examples, *self.recent.metrics().values(), time.time()]
            self.trace.append(point)
            self.recent = Pace()

    def reach(self) -> list[list[float]]:
        """Begin the way to the next milestone; return the trace up to this one."""
        trace, self.trace = self.trace, []
        self.pace, self.recent = Pace(), Pace()
        return trace


class Resumed(NamedTuple):
    """Where a run goes on: milestones up to ``reached`` are behind it; ``last``, its own last one,
    is to be reported again."""

    optimizer: dict[str, Any]
    position: Position
    reached: int
    last: SavedProgress | None = None


def resume(spec: TrialSpec, batch_size: int, method: nn.Module, group: Group) -> Resumed | None:
    """Load the weights to go on with into the first worker's method; None for a new run.

    The first worker reads for all. The others get the weights with the first step. Of another run
    only weights and optimiser are taken; its seconds, notes and curve are its own.

    Raises:
        CheckpointGone: ``spec.start_from`` has no such checkpoint.
        InvalidValue: it has one of a run from which this one cannot go on.
    """
    found = None
    if group.is_first:
        store = CheckpointStore.of(spec) if spec.directory else None
        if store is not None and (folder := store.last()) is not None:
            optimizer, position = load_state(folder, method)
            last = store.last_milestone()
            found = Resumed(optimizer, position, last.examples if last is not None else 0, last)
        elif spec.start_from:
            found = _donated(spec, batch_size, method)
    return group.broadcast_object(found)


def save_state(
    folder: Path, method: nn.Module, optimizer: torch.optim.Optimizer, position: Position
) -> None:
    """Write weights (safetensors), optimiser and position into an existing folder."""
    save_model(method, str(folder / WEIGHTS_FILE))
    state = {"optimizer": optimizer.state_dict(), "position": asdict(position)}
    torch.save(state, folder / OPTIMIZER_FILE)


def load_weights(folder: Path, method: nn.Module) -> None:
    """Put a checkpoint's weights into the method; ``RuntimeError`` for another architecture's."""
    load_model(method, folder / WEIGHTS_FILE)


def load_state(folder: Path, method: nn.Module) -> tuple[dict[str, Any], Position]:
    """Put a checkpoint's weights into the method; return the optimiser's state and position."""
    load_weights(folder, method)
    state = torch.load(folder / OPTIMIZER_FILE, map_location="cpu", weights_only=True)
    position = state["position"]
    paces = {name: Pace(**position.get(name, {})) for name in ("pace", "recent")}
    return state["optimizer"], Position(**{**position, **paces})


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load moments and step counts; rates and decays stay those of the run's own settings."""
    own = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, options in zip(optimizer.param_groups, own, strict=True):
        group.update(options)


def _donated(spec: TrialSpec, batch_size: int, method: nn.Module) -> Resumed:
    """Load the weights of another run's checkpoint, ``spec.start_from``."""
    donor = CheckpointStore(spec.start_from)
    found = donor.found(spec.start_at)
    if found is None:
        at = f" at {spec.start_at:,} examples" if spec.start_at else ""
        fix = "; ".join([f"no checkpoint{at} is there", *donor.notes])
        raise CheckpointGone("start_from", spec.start_from, fix)
    folder, saved = found
    if spec.identity and (why := other_donor(saved.identity, spec.identity)):
        fix = f"its checkpoint {folder.name} is of a run that is not this one's kind ({why})"
        raise InvalidValue("start_from", spec.start_from, fix)
    try:
        optimizer, _ = load_state(folder, method)
    except RuntimeError as error:
        fix = f"its run has another architecture ({first_line(error)})"
        raise InvalidValue("start_from", spec.start_from, fix) from None
    position = Position(step=steps_for(saved.examples, batch_size))
    return Resumed(optimizer, position, saved.examples)
