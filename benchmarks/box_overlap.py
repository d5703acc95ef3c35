"""Table of Gumbel box overlaps against the broadcast and against box-embeddings, with gradients.

python benchmarks/box_overlap.py
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from measure import Work, measure, report
from torch import Tensor
from torch.nn import functional as F

from sentune.geometry import Boxes, Corners
from sentune.geometry.corners import EULER_GAMMA


def broadcast_table(z1: Tensor, Z1: Tensor, z2: Tensor, Z2: Tensor, T: float) -> Tensor:
    """Log-volumes of intersections with tensors of [B, B, d], as one writes it down."""
    z = T * torch.logaddexp(z1[:, None] / T, z2[None] / T)
    Z = -T * torch.logaddexp(-Z1[:, None] / T, -Z2[None] / T)
    return torch.log(F.softplus(Z - z - 2 * EULER_GAMMA * T, beta=1 / T) + 1e-23).sum(-1)


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


def untied_broadcast(
    z1: Tensor, Z1: Tensor, z2: Tensor, Z2: Tensor, T: float, T_v: float
) -> Tensor:
    """The broadcast with a temperature of its own for the volume."""
    z = T * torch.logaddexp(z1[:, None] / T, z2[None] / T)
    Z = -T * torch.logaddexp(-Z1[:, None] / T, -Z2[None] / T)
    return torch.log(F.softplus(Z - z - 2 * EULER_GAMMA * T, beta=1 / T_v) + 1e-23).sum(-1)


def our_untied_table(
    z1: Tensor, Z1: Tensor, z2: Tensor, Z2: Tensor, T: float, T_v: float
) -> Tensor:
    return Boxes(T, T_v).log_overlap_table(Corners(z1, Z1), Corners(z2, Z2))


def our_table(z1: Tensor, Z1: Tensor, z2: Tensor, Z2: Tensor, T: float) -> Tensor:
    return Boxes(T).log_overlap_table(Corners(z1, Z1), Corners(z2, Z2))


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


WAYS = {
    "B x B x d broadcast": broadcast_table,
    "box-embeddings 0.1.0": box_embeddings_table,
    "sentune": our_table,
}
UNTIED = {"B x B x d broadcast": untied_broadcast, "sentune": our_untied_table}
RATIOS = (2.0, 1.5)
"""Of the intersection's temperature to the volume's."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batch", type=int, default=512)
    options.add_argument("--dimensions", type=int, default=64)
    options.add_argument("--temperatures", type=float, nargs="+", default=[1.0, 0.1])
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--repeats", type=int, default=3)
    o = options.parse_args()
    title = f"Box overlap table, forward and backward, B = {o.batch}, d = {o.dimensions}, T = "
    for temperature in o.temperatures:
        cases = [(WAYS, (temperature,), f"{temperature:g}")]
        for ratio in RATIOS:
            T_v = temperature / ratio
            cases.append((UNTIED, (temperature, T_v), f"{temperature:g}, T_v = {T_v:.2g}"))
        for ways, temperatures, named in cases:
            size = (o.batch, o.dimensions, *temperatures)
            rows = [
                (name, measure(partial(work, way, *size), repeats=o.repeats, threads=o.threads))
                for name, way in ways.items()
            ]
            report(f"{title}{named}, float32", rows, o.threads)


if __name__ == "__main__":
    main()
