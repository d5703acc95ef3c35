"""Gradients of several workers made one, for models whose batches take different ways through them.

DistributedDataParallel wants every parameter to take part in every step on every worker. An
operator that no row of a batch needs does not; here it simply has no gradient in that step, on any
number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch import distributed as dist

from sentune.training.group import Group


def average_gradients(parameters: Iterable[nn.Parameter], group: Group) -> None:
    """The mean of all workers' gradients, on each of them.

    A parameter without a gradient on some workers counts as zero there; one without a gradient on
    all of them keeps none.
    """
    if group.world_size == 1:
        return
    trained = [p for p in parameters if p.requires_grad]
    taking_part = _anywhere([p.grad is not None for p in trained], group)
    grads = [_gradient(p) for p, used in zip(trained, taking_part, strict=True) if used]
    for dtype in sorted({grad.dtype for grad in grads}, key=str):
        _average([grad for grad in grads if grad.dtype is dtype], group)


def send_parameters(module: nn.Module, group: Group) -> None:
    """The first worker's parameters, on all of them."""
    if group.world_size > 1:
        for parameter in module.parameters():
            dist.broadcast(parameter.data, src=0)


def _anywhere(used: Sequence[bool], group: Group) -> list[bool]:
    counts = torch.tensor(used, dtype=torch.int32, device=group.device)
    dist.all_reduce(counts)
    return (counts > 0).tolist()


def _gradient(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _average(grads: Sequence[Tensor], group: Group) -> None:
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    dist.all_reduce(flat)
    flat /= group.world_size
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(part.view_as(grad))
