"""Compute pairwise tables whose entries reduce over a third axis, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

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
    across = tuple(column[None] for column in columns)
    recomputed = partial(checkpoint, entries, use_reentrant=False, preserve_rng_state=False)
    compute: Entries = recomputed if torch.is_grad_enabled() else entries
    slices = zip(*(torch.split(row, step) for row in rows), strict=True)
    return torch.cat([compute(tuple(row[:, None] for row in part), across) for part in slices])
