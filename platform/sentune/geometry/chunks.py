"""Tables over pairs of rows whose entries need a third axis, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

# Numbers in one temporary. On a CPU, 2^18 float32 numbers stay in the cache; an accelerator wants
# fewer and larger kernels.
CPU_CHUNK = 2**18
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
    entries: Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor],
    rows: tuple[Tensor, ...],
    columns: tuple[Tensor, ...],
    chunk: int,
) -> Tensor:
    """[N, M] table from tensors of [N, d] and [M, d], a slice of rows at a time.

    Nothing of width d is kept for the backward pass: each slice is computed again there, so the
    memory is O(chunk) beside the table itself.

    Args:
        entries: from tensors of [n, 1, d] and [1, M, d] to the table's rows [n, M].
        chunk: numbers that one [n, M, d] temporary may have.
    """
    count, width = rows[0].shape
    step = rows_at_once(chunk, len(columns[0]), width)
    wide = tuple(column[None] for column in columns)

    def part(*tall: Tensor) -> Tensor:
        return entries(tuple(t[:, None] for t in tall), wide)

    parts = []
    for start in range(0, max(count, 1), step):
        tall = tuple(row[start : start + step] for row in rows)
        parts.append(_recomputed(part, tall))
    return torch.cat(parts)


def _recomputed(part: Callable[..., Tensor], tall: tuple[Tensor, ...]) -> Tensor:
    if not torch.is_grad_enabled():
        return part(*tall)
    return checkpoint(part, *tall, use_reentrant=False, preserve_rng_state=False)
