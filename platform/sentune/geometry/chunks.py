"""Compute pairwise tables whose entries reduce over a third axis, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Entries = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor]

# Elements of one temporary. On a CPU, 2^16 elements stay in the cache; on an accelerator, fewer and
# larger kernels are faster.
CPU_CHUNK = 2**16
ACCELERATOR_CHUNK = 2**22


def chunk_size(chunk: int | None, device: torch.device) -> int:
    """Return ``chunk`` if it is given, otherwise the default of the device."""
    if chunk is not None:
        return chunk
    return CPU_CHUNK if device.type == "cpu" else ACCELERATOR_CHUNK


def rows_at_once(chunk: int, columns: int, width: int) -> int:
    """Return how many rows fit a [rows, columns, width] temporary of ``chunk`` elements."""
    return max(1, chunk // max(1, columns * width))


def table_by_rows(
    entries: Entries, rows: tuple[Tensor, ...], columns: tuple[Tensor, ...], chunk: int
) -> Tensor:
    """Return an [N, M] table computed from [N, d] and [M, d] tensors, a slice of rows at a time.

    The backward pass recomputes each slice, so the memory beside the table is O(chunk).

    Args:
        entries: function of [n, 1, d] and [1, M, d] tensors that returns rows [n, M] of the table.
            It must use no random numbers and no other tensors that require a gradient.
        chunk: maximum number of elements of an [n, M, d] temporary.
    """
    step = rows_at_once(chunk, len(columns[0]), rows[0].shape[1])
    apply: Callable[..., Tensor] = _Recomputed.apply  # torch declares no types for it
    return apply(entries, step, len(rows), *rows, *columns)


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, entries: Entries, step: int, sides: int, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.entries, ctx.step, ctx.sides = entries, step, sides
        parts = [
            entries(*_sides([t[part] for t in tensors[:sides]], tensors[sides:]))
            for part in _slices(len(tensors[0]), step)
        ]
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns = ctx.saved_tensors[: ctx.sides], ctx.saved_tensors[ctx.sides :]
        of_rows, of_columns = map(torch.zeros_like, rows), map(torch.zeros_like, columns)
        totals = (tuple(of_rows), tuple(of_columns))
        for part in _slices(len(rows[0]), ctx.step):
            leaves = [t.detach().requires_grad_() for t in (*(r[part] for r in rows), *columns)]
            with torch.enable_grad():
                table = ctx.entries(*_sides(leaves[: ctx.sides], leaves[ctx.sides :]))
            slopes = torch.autograd.grad(table, leaves, gradient[part])
            for total, slope in zip(totals[0], slopes[: ctx.sides], strict=True):
                total[part] = slope
            for total, slope in zip(totals[1], slopes[ctx.sides :], strict=True):
                total += slope
        return None, None, None, *totals[0], *totals[1]


def _slices(count: int, step: int) -> list[slice]:
    """Return slices of ``step`` rows, at least one, so that an empty table is [0, M]."""
    return [slice(start, start + step) for start in range(0, max(count, 1), step)]


def _sides(rows: Any, columns: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    return tuple(r[:, None] for r in rows), tuple(c[None] for c in columns)
