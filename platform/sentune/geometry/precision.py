"""Similarities are computed in at least 32 bits, whatever the encoder runs in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def full_precision(function: F) -> F:
    """Run a function of tensors outside autocast, 16-bit arguments widened to float32.

    Autocast would do the matrix products of a KL table in bfloat16, whose 8 bits turn differences
    of a thousand summands into noise.
    """

    @wraps(function)
    def widened(*arguments: Any, **named: Any) -> Any:
        tensors = [a for a in (*arguments, *named.values()) if isinstance(a, Tensor)]
        device = tensors[0].device.type if tensors else "cpu"
        with torch.autocast(device, enabled=False):
            return function(*map(widen, arguments), **{k: widen(v) for k, v in named.items()})

    return widened  # type: ignore[return-value]


def widen(value: Any) -> Any:
    """Return a float16 or bfloat16 tensor as float32; anything else unchanged."""
    if isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16):
        return value.float()
    return value
