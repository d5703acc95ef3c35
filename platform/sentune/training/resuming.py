"""Resume a run from its own newest checkpoint, or start it from another run's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sentune.errors import InvalidValue
from sentune.training.checkpoint_storage import storage_of
from sentune.training.checkpoints import CheckpointStore, SavedProgress, name_of
from sentune.training.group import Group
from sentune.training.memory import first_line
from sentune.training.schedules import steps_for
from sentune.training.state import Position, load_state
from sentune.training.trial import TrialSpec


@dataclass(frozen=True, kw_only=True)
class TakenUp:
    """Where a run goes on.

    Attributes:
        optimizer: state of the optimiser.
        position: how far the run is.
        reached: milestones up to here are behind it.
        said: at the run's own last milestone, to be said again; None before the first one.
    """

    optimizer: dict[str, Any]
    position: Position
    reached: int
    said: SavedProgress | None


def take_up(spec: TrialSpec, batch_size: int, method: nn.Module, group: Group) -> TakenUp | None:
    """Load the weights to go on with into the first worker's method; None for a new run.

    The first worker reads for all. The others get the weights with the first step.

    Raises:
        InvalidValue: ``spec.start_from`` has no such checkpoint, or one of another architecture.
    """
    found = None
    if group.is_first:
        found = _own(spec, method) or _others(spec, batch_size, method)
    return group.broadcast_object(found)


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load moments and step counts; rates and decays stay those of the run's own settings."""
    own = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, options in zip(optimizer.param_groups, own, strict=True):
        group.update(options)


def _own(spec: TrialSpec, method: nn.Module) -> TakenUp | None:
    if not spec.directory:
        return None
    store = CheckpointStore(spec.directory)
    folder, said = store.last(), store.last_milestone()
    if folder is None:
        return None
    optimizer, position = load_state(folder, method)
    reached = said.examples if said is not None else 0
    return TakenUp(optimizer=optimizer, position=position, reached=reached, said=said)


def _others(spec: TrialSpec, batch_size: int, method: nn.Module) -> TakenUp | None:
    """Return the other run's weights and optimiser; its seconds, notes and curve are its own."""
    if not spec.start_from:
        return None
    folder, examples = _source(spec)
    try:
        optimizer, _ = load_state(folder, method)
    except RuntimeError as error:
        fix = f"its run has another architecture ({first_line(error)})"
        raise InvalidValue("start_from", spec.start_from, fix) from None
    position = Position(step=steps_for(examples, batch_size))
    return TakenUp(optimizer=optimizer, position=position, reached=examples, said=None)


def _source(spec: TrialSpec) -> tuple[Path, int]:
    """Return the other run's checkpoint, and its examples."""
    if not spec.start_at:
        store = CheckpointStore(spec.start_from)
        folder, said = store.last(), store.last_progress()
        if folder is None or said is None:
            raise InvalidValue("start_from", spec.start_from, "no checkpoint is there")
        return folder, said.examples
    place, name = storage_of(spec.start_from), name_of(spec.start_at)
    if not place.has(name):
        fix = f"no checkpoint at {spec.start_at:,} examples is there"
        raise InvalidValue("start_from", spec.start_from, fix)
    return place.fetch(name), spec.start_at
