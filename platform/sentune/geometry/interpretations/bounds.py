"""Bounds on the overlaps of a box with many others that cost a matrix product.

The log-volume of an intersection is a concave function of the corners, because

- a smooth or hard maximum of the lower corners is convex in them, a minimum of the upper ones
  concave, so that the side Z - z is concave;
- log softplus is concave and increasing, which keeps concavity; and dimensions add up.

A concave function lies below each of its tangents. It lies above a plane over a rectangle if it
does so at the rectangle's four vertices, because over the rest it is at least the interpolation of
them. So there are planes, affine in the corners of the second box, that bound a row of the table of
overlaps from both sides, and all of them together are one product of [n, 2d] and [2d, m] matrices.
Both planes touch the table where boxes are alike: of 2,000 x 2,000 interpretations under 1 % of the
entries lie within the bounds' reach of their groups' extremes.

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
        value: [n] at the origin.
        slopes: [n, 2d] by lower and upper corners.
        origin: [2d].
    """

    value: Tensor
    slopes: Tensor
    origin: Tensor

    def __neg__(self) -> Planes:
        return Planes(-self.value, -self.slopes, self.origin)

    def slack(self, columns: Corners) -> Tensor:
        """[n]: more than rounding can move a plane over these columns.

        A sum of 2d products errs by at most 2d units of rounding of the sum of their sizes.
        """
        size = torch.cat([columns.lower, columns.upper], dim=1).abs().amax(0)
        extent = self.value.abs() + self.slopes.abs() @ (size + self.origin.abs())
        return extent * self.slopes.shape[1] * _rounding(self.value)

    def distances(self, columns: Corners) -> Tensor:
        """[2d, m]: corners - origin."""
        return (torch.cat([columns.lower, columns.upper], dim=1) - self.origin).T


def planes_above(boxes: Boxes, rows: Corners, columns: Corners) -> Planes:
    """Tangents at the mean corners of the columns: no overlap of a row lies above its plane."""
    origin = torch.cat([columns.lower.mean(0), columns.upper.mean(0)])
    with torch.inference_mode(False), torch.enable_grad():
        fixed = Corners(*(corner.clone() for corner in rows))
        leaf = origin.clone().expand(len(rows.lower), -1).clone().requires_grad_()
        value = boxes.log_overlap(fixed, Corners(*leaf.chunk(2, dim=1)))
        slopes = torch.autograd.grad(value.sum(), leaf)[0]
    return Planes(value.detach(), slopes, origin)


def planes_below(boxes: Boxes, rows: Corners, columns: Corners) -> Planes:
    """No overlap of a row with a column lies below its plane.

    Of one dimension, let x = l - l_0 and y = u_1 - u be what a column cuts off the largest one.
    The overlap h falls in both, and its second difference h_11 + h_00 - h_10 - h_01 is not
    positive: a second cut costs more where the first has been made. The plane through h_00, h_10,
    h_11 lies at h_00 + h_11 - h_10 <= h_01 in the fourth vertex, so it is below h; so is the plane
    through h_00, h_01, h_11; so is their mean, which is taken here.
    """
    low, high = (columns.lower.amin(0), columns.lower.amax(0))
    bottom, top = (columns.upper.amin(0), columns.upper.amax(0))

    def each(lower: Tensor, upper: Tensor) -> Tensor:
        # a dimension as a box of its own: [n, d, 1] and [d, 1] -> [n, d]
        row = Corners(rows.lower[..., None], rows.upper[..., None])
        return boxes.log_overlap(row, Corners(lower[:, None], upper[:, None]))

    h_00, h_10, h_01, h_11 = each(low, top), each(high, top), each(low, bottom), each(high, bottom)
    by_lower = _quotient((h_10 - h_00 + h_11 - h_01) / 2, high - low)
    by_upper = _quotient((h_00 - h_01 + h_10 - h_11) / 2, top - bottom)
    slopes, origin = torch.cat([by_lower, by_upper], dim=1), torch.cat([low, top])
    return Planes(h_00.sum(1), slopes, origin)


def _quotient(rise: Tensor, run: Tensor) -> Tensor:
    """0 where all columns are the same."""
    return torch.where(run > 0, rise / torch.where(run > 0, run, 1), 0)


def _rounding(values: Tensor) -> float:
    """Unit of rounding of a matrix product; TensorFloat-32 keeps 10 bits, where it is allowed."""
    shortened = values.is_cuda and torch.get_float32_matmul_precision() != "highest"
    return (
        2.0**-10 if shortened and values.dtype == torch.float32 else torch.finfo(values.dtype).eps
    )
