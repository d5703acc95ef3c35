"""Table of Gumbel box overlaps against the broadcast and against box-embeddings, with gradients.

python benchmarks/box_overlap.py
"""

from __future__ import annotations

from functools import partial

import torch
from measure import Work, measure_all, options, report
from torch import Tensor
from torch.nn import functional as F

from sentune.geometry import Boxes, Corners
from sentune.geometry.corners import EULER_GAMMA


def broadcast_table(
    z1: Tensor, Z1: Tensor, z2: Tensor, Z2: Tensor, T: float, T_v: float | None = None
) -> Tensor:
    """Log-volumes of intersections with tensors of [B, B, d], as one writes it down.

    Args:
        T_v: temperature of the volume; None: T.
    """
    z = T * torch.logaddexp(z1[:, None] / T, z2[None] / T)
    Z = -T * torch.logaddexp(-Z1[:, None] / T, -Z2[None] / T)
    return torch.log(F.softplus(Z - z - 2 * EULER_GAMMA * T, beta=1 / (T_v or T)) + 1e-23).sum(-1)


def box_embeddings_table(z1: Tensor, Z1: Tensor, z2: Tensor, Z2: Tensor, T: float) -> Tensor:
    """The same by the package box-embeddings, as its documentation composes it."""
    from box_embeddings.modules.intersection.gumbel_intersection import gumbel_intersection
    from box_embeddings.modules.volume.bessel_volume import bessel_volume_approx
    from box_embeddings.parameterizations.box_tensor import BoxTensor

    count, other = len(z1), len(z2)

    def expanded(z: Tensor, Z: Tensor) -> BoxTensor:
        return BoxTensor.from_zZ(z.expand(count, other, -1), Z.expand(count, other, -1))

    first, second = expanded(z1[:, None], Z1[:, None]), expanded(z2[None], Z2[None])
    both = gumbel_intersection(first, second, intersection_temperature=T)
    return bessel_volume_approx(both, volume_temperature=T, intersection_temperature=T)


def our_table(z1: Tensor, Z1: Tensor, z2: Tensor, Z2: Tensor, *temperatures: float) -> Tensor:
    return Boxes(*temperatures).log_overlap_table(Corners(z1, Z1), Corners(z2, Z2))


def work(table: object, batch: int, width: int, *temperatures: float) -> Work:
    """Boxes with sides of 1 to 3, as trained ones have, centres half a unit apart."""
    torch.manual_seed(0)
    leaves = []
    for _ in range(2):
        lower = torch.randn(batch, width) * 0.5
        leaves += [lower, lower + 1 + 2 * torch.rand(batch, width)]
    for leaf in leaves:
        leaf.requires_grad_()

    def forward_and_backward() -> None:
        for leaf in leaves:
            leaf.grad = None
        table(*leaves, *temperatures).mean().backward()  # type: ignore[operator]

    return forward_and_backward


TIED_ALONE = "box-embeddings 0.1.0"
"""The way that has one temperature for intersection and volume."""
WAYS = {
    "B x B x d broadcast": broadcast_table,
    TIED_ALONE: box_embeddings_table,
    "sentune": our_table,
}
RATIOS = (2.0, 1.5)
"""Of the intersection's temperature to the volume's."""


def main() -> None:
    o = options(__doc__, batch=512, dimensions=64, temperatures=[1.0, 0.1], repeats=3)
    title = f"Box overlap table, forward and backward, B = {o.batch}, d = {o.dimensions}, T = "
    for T in o.temperatures:
        for T_v in (None, *(T / ratio for ratio in RATIOS)):
            size = (o.batch, o.dimensions, T, *([T_v] if T_v else []))
            ways = {n: partial(work, way, *size) for n, way in WAYS.items()}
            if T_v:
                del ways[TIED_ALONE]
            rows = measure_all(ways, repeats=o.repeats, threads=o.threads)
            named = f"{T:g}, T_v = {T_v:.2g}" if T_v else f"{T:g}"
            report(f"{title}{named}, float32", rows, o.threads)


if __name__ == "__main__":
    main()
