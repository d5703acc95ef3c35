"""A trial's resumable state: weights as safetensors, the optimiser in torch's format."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import nn

WEIGHTS_FILE, OPTIMIZER_FILE = "weights.safetensors", "optimizer.pt"


@dataclass
class Pace:
    """Loss and speed since the last milestone.

    Attributes:
        loss: sum over the steps.
        steps: their number.
        examples: their examples.
        seconds: they took.
    """

    loss: float = 0.0
    steps: int = 0
    examples: int = 0
    seconds: float = 0.0

    def add(self, loss: float, examples: int, seconds: float) -> None:
        """Count one more step."""
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
        step: steps taken.
        seconds: of training and validation up to the last milestone, over all starts.
        stalled: steps in a row at which the method's loss had collapsed.
        pace: since the last milestone.
        micro_batch: to which a lack of memory has brought the trial; 0: it had enough.
        notes: what it did beside training, a sentence each.
    """

    step: int = 0
    seconds: float = 0.0
    stalled: int = 0
    pace: Pace = field(default_factory=Pace)
    micro_batch: int = 0
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Position:
        """Return the position that ``dataclasses.asdict`` wrote."""
        return cls(**{**values, "pace": Pace(**values.get("pace", {}))})


def save_state(
    folder: Path, method: nn.Module, optimizer: torch.optim.Optimizer, position: Position
) -> None:
    """Write weights, optimiser and position into an existing folder."""
    save_model(method, str(folder / WEIGHTS_FILE))
    state = {"optimizer": optimizer.state_dict(), "position": asdict(position)}
    torch.save(state, folder / OPTIMIZER_FILE)


def load_weights(folder: Path, method: nn.Module) -> None:
    """Put a checkpoint's weights into the method.

    Raises:
        RuntimeError: they belong to another architecture.
    """
    load_model(method, folder / WEIGHTS_FILE)


def load_state(folder: Path, method: nn.Module) -> tuple[dict[str, Any], Position]:
    """Put a checkpoint's weights into the method; return the optimiser's state and position."""
    load_weights(folder, method)
    state = torch.load(folder / OPTIMIZER_FILE, map_location="cpu", weights_only=True)
    return state["optimizer"], Position.from_dict(state["position"])
