"""Rows and gradients of several workers on each of them.

DistributedDataParallel wants every parameter to take part in every step on every worker. An
operator that no row of a batch needs does not; here it has no gradient in that step, on any number
of workers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.autograd.function import once_differentiable

from sentune.training.group import Group


class Gather(torch.autograd.Function):
    """all_gather of unequal slices, padded to the longest; backward sums and takes the own part."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.start, ctx.rows = sum(sizes[:rank]), sizes[rank]
        padded = local.new_zeros(max(sizes), *local.shape[1:])
        padded[: len(local)] = local
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.start : ctx.start + ctx.rows], None, None


def average_gradients(parameters: Iterable[nn.Parameter], group: Group) -> None:
    """Put the mean of all workers' gradients on each of them.

    A parameter without a gradient on some workers counts as zero there; one without a gradient on
    all of them keeps none.
    """
    if group.world_size == 1:
        return
    trained = [p for p in parameters if p.requires_grad]
    used = [p.grad is not None for p in trained]
    counts = torch.tensor(used, dtype=torch.int32, device=group.device)
    dist.all_reduce(counts)
    grads: list[Tensor] = []
    for parameter, workers in zip(trained, counts.tolist(), strict=True):
        if workers:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            grads.append(parameter.grad)
    for dtype in sorted({grad.dtype for grad in grads}, key=str):
        alike = [grad for grad in grads if grad.dtype is dtype]
        flat = torch.cat([grad.reshape(-1) for grad in alike])
        dist.all_reduce(flat)
        flat /= group.world_size
        means = torch.split(flat, [grad.numel() for grad in alike])
        for grad, mean in zip(alike, means, strict=True):
            grad.copy_(mean.view_as(grad))


def send_parameters(module: nn.Module, group: Group) -> None:
    """Put the first worker's parameters on all of them."""
    if group.world_size > 1:
        for parameter in module.parameters():
            dist.broadcast(parameter.data, src=0)
