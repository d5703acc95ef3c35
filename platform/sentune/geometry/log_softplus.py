"""log(softplus(x)) exact at both ends of the line."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

# Below, u = e^x is under 1e-13 and log(log1p(u)) = x - u/2 to the last bit of a double.
ASYMPTOTE = -30.0


def log_softplus(x: Tensor) -> Tensor:
    """log(log(1 + e^x)), elementwise, with a gradient that tends to 1 for x -> -inf.

    A floor such as log(softplus(x) + 1e-13) has gradient zero there, and two disjoint boxes would
    never find each other.
    """
    return _LogSoftplus.apply(x)


class _LogSoftplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        # logaddexp(x, 0), because torch's softplus is the identity above 20: an error of 1e-10.
        exact = torch.logaddexp(x, x.new_zeros(())).log_()
        value = torch.where(x < ASYMPTOTE, x - 0.5 * x.clamp(max=0).exp(), exact)
        ctx.save_for_backward(x, value)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """sigmoid(x) / softplus(x), as an exponential of a difference that cannot overflow."""
        x, value = ctx.saved_tensors
        return F.logsigmoid(x).sub_(value).exp_().mul_(gradient)
