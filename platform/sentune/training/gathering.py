"""Rows of all workers on each of them, with the gradient's way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.autograd.function import once_differentiable


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
