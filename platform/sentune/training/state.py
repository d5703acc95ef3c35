"""Save a trial's resumable state, and resume from it or from another run's checkpoint."""

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
"""A trace has a point for each 1/TRACED of the examples up to the next milestone."""

WEIGHTS_FILE, OPTIMIZER_FILE = "weights.safetensors", "optimizer.pt"


@dataclass
class Pace:
    """Sums of loss, examples and seconds over some steps."""

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
        """Return mean loss and speed; empty without steps, if two milestones fell into one step."""
        if not self.steps:
            return {}
        return {
            "train/loss": self.loss / self.steps,
            "train/examples_per_second": self.examples / self.seconds,
        }


@dataclass
class Position:
    """The position of a trial in its training.

    It has no random state: each step seeds its generators by (seed, step, shard), and the corpus is
    shuffled by (seed, epoch). A group of another size can therefore resume.

    Attributes:
        step: number of steps taken.
        seconds: seconds of training and validation up to the last milestone, over all starts.
        stalled: number of consecutive steps with a collapsed loss and a vanished gradient.
        pace: loss and speed since the last milestone.
        recent: loss and speed since the last point of the trace.
        trace: points since the last milestone: examples seen, loss, examples a second, and UTC
            epoch seconds.
        micro_batch: micro-batch to which a lack of memory has reduced the trial; 0: not reduced.
        notes: events other than training, one sentence each.
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
        """Count a step; add a point to the trace for each fiftieth of the milestone's examples.

        A run that is stopped at its first rung then has as many points as one that continues, and a
        run of many milestones has only a few more.
        """
        self.pace.add(loss, examples, seconds)
        self.recent.add(loss, examples, seconds)
        if self.recent.examples * TRACED >= milestone:
            point = [self.step * examples, *self.recent.metrics().values(), time.time()]
            self.trace.append(point)
            self.recent = Pace()

    def reach(self) -> list[list[float]]:
        """Return the trace since the last milestone, and reset it and the paces."""
        trace, self.trace = self.trace, []
        self.pace, self.recent = Pace(), Pace()
        return trace


class Resumed(NamedTuple):
    """The state from which a run resumes.

    Attributes:
        optimizer: state of the optimiser.
        reached: number of examples; milestones up to it are not trained for again.
        last: progress of the run's own last milestone, to be reported again.
    """

    optimizer: dict[str, Any]
    position: Position
    reached: int
    last: SavedProgress | None = None


def resume(spec: TrialSpec, batch_size: int, method: nn.Module, group: Group) -> Resumed | None:
    """Load a checkpoint's weights into the first worker's method; return None for a new run.

    Only the first worker reads; the others get its weights with the first step. From another run,
    ``spec.start_from``, only weights and optimiser are used, not its seconds, notes and trace.

    Raises:
        CheckpointGone: ``spec.start_from`` has no undamaged checkpoint, or none at
            ``spec.start_at``.
        InvalidValue: the checkpoint in ``spec.start_from`` is of an incompatible run.
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
    """Load a checkpoint's weights; ``RuntimeError`` if they are of another architecture."""
    load_model(method, folder / WEIGHTS_FILE)


def load_state(folder: Path, method: nn.Module) -> tuple[dict[str, Any], Position]:
    """Load a checkpoint's weights, and return the state of the optimiser and the position."""
    load_weights(folder, method)
    state = torch.load(folder / OPTIMIZER_FILE, map_location="cpu", weights_only=True)
    position = state["position"]
    paces = {name: Pace(**position.get(name, {})) for name in ("pace", "recent")}
    return state["optimizer"], Position(**{**position, **paces})


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load moments and step counts; keep learning rates and decays of the optimiser itself."""
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
        fix = "; ".join([f"it has no checkpoint{at}", *donor.notes])
        raise CheckpointGone("start_from", spec.start_from, fix)
    folder, saved = found
    if spec.identity and (why := other_donor(saved.identity, spec.identity)):
        fix = f"its checkpoint {folder.name} is of an incompatible run ({why})"
        raise InvalidValue("start_from", spec.start_from, fix)
    try:
        optimizer, _ = load_state(folder, method)
    except RuntimeError as error:
        fix = f"its run has another architecture ({first_line(error)})"
        raise InvalidValue("start_from", spec.start_from, fix) from None
    position = Position(step=steps_for(saved.examples, batch_size))
    return Resumed(optimizer, position, saved.examples)
