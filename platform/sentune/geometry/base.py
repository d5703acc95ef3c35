"""What a geometry of sentence embeddings can do, in at least 32 bits whatever the encoder runs in.

A sentence's embedding is one row of a packed tensor, so that gathering, caching and storing it
is the same for points, Gaussians and boxes. Legend: N, M = sentences, D = packed width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor


class Geometry(Protocol):
    """Similarity of packed embeddings, oriented as entailment.

    ``entails(p, h)`` is the degree to which ``p`` entails ``h``: P(b_h | b_p) for boxes
    (GumbelCSE Eq. 1), sim(h || p) for Gaussians (GaussCSE Eq. 3), cosine for points.
    """

    @property
    def symmetric(self) -> bool:
        """Whether ``entails(x, y)`` always equals ``entails(y, x)``."""

    def entails_table(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """[N, D], [M, D] -> [N, M]; row i, column j: how far premise i entails hypothesis j."""

    def entails_tables(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """[N, D], [M, D] -> [N, M] twice: first_i entails second_j, second_j entails first_i."""

    def entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N]: the diagonal of the table, without computing the table."""

    def direction(self, first: Tensor, second: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N]: positive where ``first`` entails ``second`` by similarity.

        Never a difference of two underflowed probabilities. Zero everywhere if symmetric.
        """

    def extent(self, embeddings: Tensor) -> Tensor:
        """[N, D] -> [N]: log-volume of boxes, sum of log sigma of Gaussians, 0 for points."""

    def entailing_is_larger(self) -> bool:
        """Whether the entailing sentence has the larger extent (Gaussians), not the smaller."""


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
