"""A trial's resumable state: weights as safetensors, the optimiser in torch's format."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import nn

WEIGHTS_FILE, OPTIMIZER_FILE = "weights.safetensors", "optimizer.pt"


@dataclass
class Position:
    """How far a trial is.

    No random state belongs to it: each step draws from a generator that is seeded by (seed, step,
    rank), and the corpus is shuffled by (seed, epoch). A group of another size can resume.

    Attributes:
        step: steps taken.
        seconds: of training and validation, over all starts.
        stalled: steps in a row at which the method's loss had collapsed.
    """

    step: int = 0
    seconds: float = 0.0
    stalled: int = 0


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
    """Put a checkpoint's weights into the method; the optimiser's state and the position."""
    load_weights(folder, method)
    state = torch.load(folder / OPTIMIZER_FILE, map_location="cpu", weights_only=True)
    return state["optimizer"], Position(**state["position"])
