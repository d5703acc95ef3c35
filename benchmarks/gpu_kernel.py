"""A Triton kernel for the table of box overlaps of tied temperatures, forward alone."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sentune.geometry.corners import EULER_GAMMA

ROWS = 32


@triton.jit
def _kernel(a1, b1, a2, b2, out, count, other, width, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """out[i, j] = sum over k of log log(1 + 1 / ((a1_ki + a2_kj) (b1_ki + b2_kj)))."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, ROWS), dtype=tl.float32)
    for k in range(width):
        a = tl.load(a1 + k * count + i, mask=i < count, other=1.0)[:, None]
        b = tl.load(b1 + k * count + i, mask=i < count, other=1.0)[:, None]
        a += tl.load(a2 + k * other + j, mask=j < other, other=1.0)[None, :]
        b += tl.load(b2 + k * other + j, mask=j < other, other=1.0)[None, :]
        total += tl.log(tl.log(1.0 + 1.0 / (a * b)))
    places = i[:, None] * other + j[None, :]
    tl.store(out + places, total, mask=(i[:, None] < count) & (j[None, :] < other))


def log_overlap(z1: Tensor, Z1: Tensor, z2: Tensor, Z2: Tensor, T: float) -> Tensor:
    """[N, d] and [M, d] corners -> [N, M] log-volumes; T large against 1 / the boxes' extent."""
    a1, a2 = ((-Z / T).exp().T.contiguous() for Z in (Z1, Z2))
    b1, b2 = ((z / T + 2 * EULER_GAMMA).exp().T.contiguous() for z in (z1, z2))
    out = torch.empty(len(z1), len(z2), device=z1.device)
    grid = (triton.cdiv(len(z1), ROWS), triton.cdiv(len(z2), ROWS))
    _kernel[grid](a1, b1, a2, b2, out, len(z1), len(z2), z1.shape[1], ROWS=ROWS)
    return out + z1.shape[1] * torch.tensor(T).log()
