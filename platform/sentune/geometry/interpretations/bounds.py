"""Bound the overlaps of a box with many others by one matrix product.

The log-volume of an intersection is a concave function of the corners, because

- a smooth or hard maximum of the lower corners is convex and a minimum of the upper corners is
  concave, so that the side Z - z is concave;
- log softplus is concave and increasing, which preserves concavity, and a sum over the dimensions
  preserves it too.

A concave function lies below each of its tangents. Over a rectangle it lies above a plane if it
does so at the four vertices, because elsewhere it is at least their interpolation. Hence planes
that are affine in the corners of the second box bound each row of the table of overlaps from both
sides, and the bounds of all rows are one product of [n, 2d] and [2d, m] matrices. The bounds are
tight if the boxes are similar: of 2,000 x 2,000 interpretations, they leave under 1 % of the
entries as possible extremes of their groups.

Legend: n = rows, m = columns, d = dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners


@dataclass(frozen=True)
class Planes:
    """One plane for each row: value + slopes . (corners - origin).

    Attributes:
        value: [n] values at the origin.
        slopes: [n, 2d] slopes by the lower and upper corners.
        origin: [2d].
    """

    value: Tensor
    slopes: Tensor
    origin: Tensor

    def __neg__(self) -> Planes:
        return Planes(-self.value, -self.slopes, self.origin)

    def slack(self, columns: Corners) -> Tensor:
        """Return an upper bound on the rounding error of each plane over these columns, [n].

        A sum of 2d products errs by at most 2d rounding units of the sum of their magnitudes.
        """
        size = torch.cat([columns.lower, columns.upper], dim=1).abs().amax(0)
        extent = self.value.abs() + self.slopes.abs() @ (size + self.origin.abs())
        return extent * self.slopes.shape[1] * _rounding(self.value)

    def distances(self, columns: Corners) -> Tensor:
        """Return corners - origin, [2d, m]."""
        return (torch.cat([columns.lower, columns.upper], dim=1) - self.origin).T


def planes_above(boxes: Boxes, rows: Corners, columns: Corners) -> Planes:
    """Return tangents at the mean corners of the columns; no overlap lies above its row's plane."""
    origin = torch.cat([columns.lower.mean(0), columns.upper.mean(0)])
    with torch.inference_mode(False), torch.enable_grad():
        fixed = Corners(*(corner.clone() for corner in rows))
        leaf = origin.clone().expand(len(rows.lower), -1).clone().requires_grad_()
        value = boxes.log_overlap(fixed, Corners(*leaf.chunk(2, dim=1)))
        slopes = torch.autograd.grad(value.sum(), leaf)[0]
    return Planes(value.detach(), slopes, origin)


def planes_below(boxes: Boxes, rows: Corners, columns: Corners) -> Planes:
    """Return planes such that no overlap of a row with a column lies below its row's plane.

    In one dimension, let x = l - l_0 and y = u_1 - u be what a column cuts off the largest one.
    The overlap h decreases in both, and its second difference h_11 + h_00 - h_10 - h_01 is not
    positive, because the second cut removes more if the first has been made. The plane through
    h_00, h_10 and h_11 has the value h_00 + h_11 - h_10 <= h_01 at the fourth vertex, so it lies
    below h. The plane through h_00, h_01 and h_11 does so too. This function returns their mean.
    """
    low, high = (columns.lower.amin(0), columns.lower.amax(0))
    bottom, top = (columns.upper.amin(0), columns.upper.amax(0))

    def each(lower: Tensor, upper: Tensor) -> Tensor:
        # each dimension as a one-dimensional box: [n, d, 1] and [d, 1] -> [n, d]
        row = Corners(rows.lower[..., None], rows.upper[..., None])
        return boxes.log_overlap(row, Corners(lower[:, None], upper[:, None]))

    h_00, h_10, h_01, h_11 = each(low, top), each(high, top), each(low, bottom), each(high, bottom)
    by_lower = _quotient((h_10 - h_00 + h_11 - h_01) / 2, high - low)
    by_upper = _quotient((h_00 - h_01 + h_10 - h_11) / 2, top - bottom)
    slopes, origin = torch.cat([by_lower, by_upper], dim=1), torch.cat([low, top])
    return Planes(h_00.sum(1), slopes, origin)


def _quotient(rise: Tensor, run: Tensor) -> Tensor:
    """Return rise / run, or 0 if the run is 0 because all columns are equal."""
    return torch.where(run > 0, rise / torch.where(run > 0, run, 1), 0)


def _rounding(values: Tensor) -> float:
    """Return the rounding unit of a matrix product; TensorFloat-32, if enabled, has 10 bits."""
    single = values.is_cuda and values.dtype == torch.float32
    shortened = single and torch.get_float32_matmul_precision() != "highest"
    return 2.0**-10 if shortened else torch.finfo(values.dtype).eps
