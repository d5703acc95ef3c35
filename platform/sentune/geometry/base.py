"""The interface of a geometry of sentence embeddings, computed in at least float32.

The embedding of a sentence is one row of a packed tensor, so that points, Gaussians and boxes are
gathered, cached and stored in the same way. Legend: N, M = sentences, D = packed width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor


class Geometry(Protocol):
    """A similarity of packed embeddings that measures entailment.

    ``entails(p, h)`` is the degree to which ``p`` entails ``h``: P(b_h | b_p) for boxes
    (GumbelCSE Eq. 1), sim(h || p) for Gaussians (GaussCSE Eq. 3), cosine for points.
    """

    @property
    def symmetric(self) -> bool:
        """Whether ``entails(x, y)`` always equals ``entails(y, x)``."""

    def entails_table(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Return the degree to which premise i entails hypothesis j, [N, D], [M, D] -> [N, M]."""

    def entails_tables(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return two [N, M] tables: first_i entails second_j, and second_j entails first_i."""

    def entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Return the diagonal of the table without computing the table, [N, D], [N, D] -> [N]."""

    def direction(self, first: Tensor, second: Tensor) -> Tensor:
        """Return a score that is positive if ``first`` entails ``second``, [N, D], [N, D] -> [N].

        The score is computed from logarithms, so it does not underflow. It is 0 if the geometry is
        symmetric.
        """

    def extent(self, embeddings: Tensor) -> Tensor:
        """Return the log-volume of boxes, the sum of log sigma of Gaussians, or 0 for points, [N].

        Args:
            embeddings: [N, D].
        """

    def entailing_is_larger(self) -> bool:
        """Return whether the entailing sentence has the larger extent (True for Gaussians)."""


F = TypeVar("F", bound=Callable[..., Any])


def full_precision(function: F) -> F:
    """Decorate a function of tensors to run without autocast and to cast 16-bit inputs to float32.

    Autocast would compute the matrix products of a KL table in bfloat16. Its 8 bits of precision
    are too few for differences between sums of a thousand terms.
    """

    @wraps(function)
    def widened(*arguments: Any, **named: Any) -> Any:
        values = (*arguments, *named.values())
        device = next(value.device.type for value in values if isinstance(value, Tensor))
        with torch.autocast(device, enabled=False):
            return function(*map(widen, arguments), **{k: widen(v) for k, v in named.items()})

    return widened  # type: ignore[return-value]


def widen(value: Any) -> Any:
    """Cast a float16 or bfloat16 tensor to float32; return any other value unchanged."""
    if isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16):
        return value.float()
    return value
