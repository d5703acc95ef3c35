"""Table of log-volumes of pairwise intersections of Gumbel boxes.

Where intersection and volume temperature T are equal, no pair needs an exponential. With
a = e^((m - Z)/T) and b = e^((z - m)/T + 2 gamma) per box and dimension, m any centre that all
boxes share, the intersection of boxes i and j has

    (Z - z)/T - 2 gamma = log u,   u = 1 / ((a_i + a_j)(b_i + b_j)),   softplus(log u) = log1p(u)

so a pair costs two additions, a product, a division and one log1p. With a volume temperature T_v
of its own it is softplus((T/T_v) log u): two logarithms and an exponential more. The backward pass
is written out and computes all that again: nothing of size N x M x d is ever kept.

What limits it is R = max Z - min z of a dimension, over the boxes of both sides: float32 holds to
R = 85 T, float64 to 700 T. Each dimension takes the narrowest type that holds it, and the direct
form (two smooth maxima and a log-softplus per pair) beyond. Legend: N, M = boxes, d = dimensions.
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

# Largest R/T: the product P = (a_i + a_j)(b_i + b_j) lies within e^(+-(R/T + 2.6)), and the type's
# normal numbers within e^(+-87.3) and e^(+-708).
LIMITS = {torch.float32: 82.0, torch.float64: 700.0}
MARGIN = 2.6
LARGEST_GROUP = 16


def log_overlap_table(
    first: Corners, second: Corners, temperatures: tuple[float, float], chunk: int
) -> Tensor:
    """[N, d], [M, d] -> [N, M]: log-volume of the Gumbel intersection of first_i and second_j.

    Args:
        temperatures: of the intersection and of the volume.
        chunk: numbers in one temporary of [rows, M, dimensions].
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
    """Return the same table for any spread of boxes; some ten times slower."""

    def entries(rows: tuple[Tensor, ...], columns: tuple[Tensor, ...]) -> Tensor:
        both = gumbel_intersection(Corners(*rows), Corners(*columns), temperatures[0])
        return log_volume(both, *temperatures)

    return table_by_rows(entries, first, second, chunk)


def _spread(first: Corners, second: Corners) -> Tensor:
    """[d] on the CPU: max Z - min z over all boxes, the gaps between them included."""
    high = torch.maximum(_top(first.upper), _top(second.upper))
    low = torch.maximum(_top(-first.lower), _top(-second.lower))
    return (high + low).double().cpu()


def _top(values: Tensor) -> Tensor:
    # Flipped boxes (lower above upper) count with both corners all the same.
    return values.detach().amax(0)


def _by_type(spread: Tensor, given: torch.dtype) -> dict[torch.dtype | None, list[int]]:
    """Dimensions by the narrowest type that holds them; ``None``: the direct form.

    A spread that is not a number compares as too wide, and the direct form hands the NaN on.
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
    """Sum over dimensions of log(T_v softplus((T/T_v) log u)), and its gradient by the corners."""

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
        # Several values of log1p(u) are multiplied before one logarithm, as many as cannot leave
        # the type's range.
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
        """With P = 1/u and x = -(T/T_v) log P: d log softplus(x) / dx = sigmoid(x) / softplus(x),
        which is 1 / ((1 + P) log1p(1/P)) where T = T_v and in (0, 1] always; dx / dZ_i = a_i / (a_i
        + a_j) / T_v and dx / dz_i = -b_i / (b_i + b_j) / T_v.
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
    """Dimensions and rows of one [dimensions, rows, columns] temporary of ``chunk`` numbers."""
    group = max(1, min(group, chunk // max(1, columns)))
    return group, rows_at_once(chunk, columns, group)


def _exponentials(
    corners: tuple[Tensor, Tensor, Tensor, Tensor], temperature: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """a and b of both sides, [d, N] and [d, M].

    The exponents are formed in float64: an error of theirs is multiplied by up to R/T.
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
