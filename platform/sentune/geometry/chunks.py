"""Tables over pairs of rows whose entries need a third axis, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Entries = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor]

# Numbers in one temporary. On a CPU, 2^16 numbers stay in the cache; an accelerator wants
# fewer and larger kernels.
CPU_CHUNK = 2**16
ACCELERATOR_CHUNK = 2**22


def chunk_size(chunk: int | None, device: torch.device) -> int:
    """``chunk`` if given, otherwise what suits the device."""
    if chunk is not None:
        return chunk
    return CPU_CHUNK if device.type == "cpu" else ACCELERATOR_CHUNK


def rows_at_once(chunk: int, columns: int, width: int) -> int:
    """Rows of a table whose [rows, columns, width] temporary has at most ``chunk`` numbers."""
    return max(1, chunk // max(1, columns * width))


def table_by_rows(
    entries: Entries, rows: tuple[Tensor, ...], columns: tuple[Tensor, ...], chunk: int
) -> Tensor:
    """[N, M] table from tensors of [N, d] and [M, d], a slice of rows at a time.

    Nothing of width d is kept for the backward pass: each slice is computed again there, so the
    memory is O(chunk) beside the table itself.

    Args:
        entries: from tensors of [n, 1, d] and [1, M, d] to the table's rows [n, M]. Without random
            numbers, and with no other tensors that want a gradient.
        chunk: numbers that one [n, M, d] temporary may have.
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
    """At least one, so that a table without rows has its columns all the same."""
    return [slice(start, start + step) for start in range(0, max(count, 1), step)]


def _sides(rows: Any, columns: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    return tuple(r[:, None] for r in rows), tuple(c[None] for c in columns)
