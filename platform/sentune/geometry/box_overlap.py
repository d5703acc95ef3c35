"""Table of log-volumes of pairwise intersections of Gumbel boxes.

If the intersection and volume temperatures are both T, exponentials are needed per box only, not
per pair. For each box and dimension, let a = e^((m - Z)/T) and b = e^((z - m)/T + 2 gamma), where
m is a centre shared by all boxes. The intersection of boxes i and j then has

    (Z - z)/T - 2 gamma = log u,   u = 1 / ((a_i + a_j)(b_i + b_j)),   softplus(log u) = log1p(u)

so a pair costs two additions, a product, a division and one log1p. If the volume has its own
temperature T_v, the term is softplus((T/T_v) log u), which costs two more logarithms and an
exponential. The backward pass is explicit and recomputes these terms, so that no tensor of size
N x M x d is stored.

The range of each dimension is R = max Z - min z over the boxes of both sides. The product form is
accurate up to R = 85 T in float32 and 700 T in float64. Each dimension uses the narrowest type
that suffices, or else the direct form (two smooth maxima and a log-softplus per pair). Legend:
N, M = boxes, d = dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sentune.geometry.chunks import rows_at_once, table_by_rows
from sentune.geometry.corners import (
    EULER_GAMMA,
    Corners,
    gumbel_intersection,
    log_softplus,
    log_softplus_slope,
    log_volume,
)

# Largest R/T. The product P = (a_i + a_j)(b_i + b_j) lies within e^(+-(R/T + 2.6)), and the normal
# numbers of float32 and float64 lie within e^(+-87.3) and e^(+-708).
LIMITS = {torch.float32: 82.0, torch.float64: 700.0}
MARGIN = 2.6
LARGEST_GROUP = 16


def log_overlap_table(
    first: Corners, second: Corners, temperatures: tuple[float, float], chunk: int
) -> Tensor:
    """Return the log-volume of the Gumbel intersection of first_i and second_j, shape [N, M].

    Args:
        first, second: corners of [N, d] and [M, d].
        temperatures: of the intersection and of the volume.
        chunk: maximum number of elements of a [rows, M, dimensions] temporary.
    """
    if not len(first.lower) or not len(second.lower):
        return direct_overlap_table(first, second, temperatures, chunk)
    spread = _spread(first, second) / temperatures[0]
    table: Tensor | None = None
    for dtype, dimensions in _by_type(spread, first.lower.dtype).items():
        reach = float(spread[dimensions].max())
        x, y = _take(first, dimensions), _take(second, dimensions)
        if dtype is None:
            part = direct_overlap_table(x, y, temperatures, chunk)
        else:
            apply: Callable[..., Tensor] = _Overlap.apply  # torch declares no types for it
            part = apply(*x, *y, temperatures, dtype, reach, chunk)
        table = part if table is None else table + part
    assert table is not None, "boxes of no dimension"
    return table


def direct_overlap_table(
    first: Corners, second: Corners, temperatures: tuple[float, float], chunk: int
) -> Tensor:
    """Return the table of ``log_overlap_table`` for boxes of any range, about ten times slower."""

    def entries(rows: tuple[Tensor, ...], columns: tuple[Tensor, ...]) -> Tensor:
        both = gumbel_intersection(Corners(*rows), Corners(*columns), temperatures[0])
        return log_volume(both, *temperatures)

    return table_by_rows(entries, first, second, chunk)


def _spread(first: Corners, second: Corners) -> Tensor:
    """Return max Z - min z over all boxes for each dimension, [d] on the CPU in float64."""
    high = torch.maximum(_top(first.upper), _top(second.upper))
    low = torch.maximum(_top(-first.lower), _top(-second.lower))
    return (high + low).double().cpu()


def _top(values: Tensor) -> Tensor:
    return values.detach().amax(0)


def _by_type(spread: Tensor, given: torch.dtype) -> dict[torch.dtype | None, list[int]]:
    """Group the dimensions by the narrowest sufficient type, ``None`` for the direct form.

    A dimension whose spread is NaN uses the direct form, which propagates the NaN.
    """
    groups: dict[torch.dtype | None, list[int]] = {}
    for dimension, reach in enumerate(spread.tolist()):
        types = [t for t in LIMITS if t.itemsize >= given.itemsize and reach <= LIMITS[t]]
        groups.setdefault(types[0] if types else None, []).append(dimension)
    return groups


def _take(box: Corners, dimensions: list[int]) -> Corners:
    if len(dimensions) == box.lower.shape[1]:
        return box
    return Corners(box.lower[:, dimensions], box.upper[:, dimensions])


class _Overlap(torch.autograd.Function):
    """Sum over dimensions of log(T_v softplus((T/T_v) log u)), with an explicit gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        lower_1: Tensor,
        upper_1: Tensor,
        lower_2: Tensor,
        upper_2: Tensor,
        temperatures: tuple[float, float],
        dtype: torch.dtype,
        reach: float,
        chunk: int,
    ) -> Tensor:
        ctx.save_for_backward(lower_1, upper_1, lower_2, upper_2)
        ctx.temperatures, ctx.dtype, ctx.reach, ctx.chunk = temperatures, dtype, reach, chunk
        corners = (lower_1, upper_1, lower_2, upper_2)
        a_1, b_1, a_2, b_2 = _exponentials(corners, temperatures[0], dtype)
        width, count, columns = len(a_1), a_1.shape[1], a_2.shape[1]
        steepness = temperatures[0] / temperatures[1]
        constant = width * math.log(temperatures[1])
        table = torch.full((count, columns), constant, dtype=lower_1.dtype, device=lower_1.device)
        # Take one logarithm of a product of several log1p(u), as many as cannot overflow.
        group = min(LARGEST_GROUP, max(1, int((LIMITS[dtype] + MARGIN) / (reach + MARGIN))))
        group, rows = _tile(group, chunk, columns)
        for start in range(0, count, rows):
            part = slice(start, start + rows)
            for k in range(0, width, group):
                g = slice(k, k + group)
                product = a_1[g, part, None] + a_2[g, None, :]
                product *= b_1[g, part, None] + b_2[g, None, :]
                if steepness == 1:
                    table[part] += product.reciprocal_().log1p_().prod(0).log_()
                else:
                    table[part] += log_softplus(product.log_().mul_(-steepness)).sum(0)
        return table

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the four corners.

        With P = 1/u and x = -(T/T_v) log P, d log softplus(x) / dx = sigmoid(x) / softplus(x). This
        lies in (0, 1] and equals 1 / ((1 + P) log1p(1/P)) if T = T_v. Further,
        dx / dZ_i = a_i / (a_i + a_j) / T_v and dx / dz_i = -b_i / (b_i + b_j) / T_v.
        """
        corners = ctx.saved_tensors
        a_1, b_1, a_2, b_2 = _exponentials(corners, ctx.temperatures[0], ctx.dtype)
        of_a_1, of_b_1, of_a_2, of_b_2 = (torch.zeros_like(t) for t in (a_1, b_1, a_2, b_2))
        gradient, steepness = gradient.to(ctx.dtype), ctx.temperatures[0] / ctx.temperatures[1]
        group, rows = _tile(LARGEST_GROUP, ctx.chunk, a_2.shape[1])
        for start in range(0, a_1.shape[1], rows):
            part = slice(start, start + rows)
            for k in range(0, len(a_1), group):
                g = slice(k, k + group)
                a = a_1[g, part, None] + a_2[g, None, :]
                b = b_1[g, part, None] + b_2[g, None, :]
                product = a * b
                if steepness == 1:
                    slope = product.reciprocal().log1p_().mul_(product.add_(1))
                    slope = torch.div(gradient[part], slope, out=slope)
                else:
                    slope = log_softplus_slope(product.log_().mul_(-steepness)).mul_(gradient[part])
                torch.div(slope, a, out=a)
                torch.div(slope, b, out=b)
                of_a_1[g, part], of_b_1[g, part] = a.sum(2), b.sum(2)
                of_a_2[g] += a.sum(1)
                of_b_2[g] += b.sum(1)
        grads = (-b_1 * of_b_1, a_1 * of_a_1, -b_2 * of_b_2, a_2 * of_a_2)
        scaled = ((g.T / ctx.temperatures[1]).to(corners[0].dtype) for g in grads)
        return *scaled, None, None, None, None


def _tile(group: int, chunk: int, columns: int) -> tuple[int, int]:
    """Return how many dimensions and rows fit a [dimensions, rows, columns] chunk."""
    group = max(1, min(group, chunk // max(1, columns)))
    return group, rows_at_once(chunk, columns, group)


def _exponentials(
    corners: tuple[Tensor, Tensor, Tensor, Tensor], temperature: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return a and b of both sides, [d, N] and [d, M].

    The exponents are computed in float64, because their errors are multiplied by up to R/T.
    """
    lower_1, upper_1, lower_2, upper_2 = (corner.double() for corner in corners)
    top = torch.maximum(_top(upper_1), _top(upper_2))
    bottom = -torch.maximum(_top(-lower_1), _top(-lower_2))
    centre = (top + bottom) / 2

    def exponential(distance: Tensor, shift: float) -> Tensor:
        return (distance / temperature + shift).exp().T.to(dtype).contiguous()

    a_1, a_2 = (exponential(centre - upper, 0.0) for upper in (upper_1, upper_2))
    b_1, b_2 = (exponential(lower - centre, 2 * EULER_GAMMA) for lower in (lower_1, lower_2))
    return a_1, b_1, a_2, b_2
