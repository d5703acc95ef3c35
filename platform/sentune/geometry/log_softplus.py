"""log(softplus(x)) exact at both ends of the line."""

from __future__ import annotations

import torch
from torch import Tensor

# Below, u = e^x is under 1e-13 and log(log1p(u)) = x - u/2 to the last bit of a double.
ASYMPTOTE = -30.0


def log_softplus(x: Tensor) -> Tensor:
    """log(log(1 + e^x)), elementwise, with a gradient that tends to 1 for x -> -inf.

    A floor such as log(softplus(x) + 1e-13) has gradient zero there, and two disjoint boxes would
    never find each other.
    """
    low = x < ASYMPTOTE
    # Both branches get arguments at which they and their gradients are finite: the gradient of
    # `where` is zero times the gradient of the branch not taken, and zero times inf is NaN.
    tail = torch.clamp(x, max=ASYMPTOTE)
    body = torch.clamp(x, min=ASYMPTOTE)
    # logaddexp(x, 0), because torch's softplus is the identity above 20: an error of 1e-10.
    exact = torch.logaddexp(body, torch.zeros_like(body)).log()
    return torch.where(low, tail - 0.5 * tail.exp(), exact)
