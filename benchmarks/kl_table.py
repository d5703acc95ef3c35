"""Table of KL divergences: matrix products against the B x B x d broadcast, with gradients.

python benchmarks/kl_table.py
"""

from __future__ import annotations

from functools import partial

import torch
from measure import Work, measure_all, options, report
from torch import Tensor

from sentune.geometry.gaussians import kl_table, unpack


def broadcast_table(first: Tensor, second: Tensor) -> Tensor:
    """KL(first_i || second_j) with a tensor of [B, B, d] per step, as one writes it down."""
    mean_i, log_i = (t[:, None] for t in unpack(first))
    mean_j, log_j = (t[None] for t in unpack(second))
    ratio = (2 * log_i).exp() + (mean_i - mean_j) ** 2
    return (log_j - log_i + ratio / (2 * (2 * log_j).exp()) - 0.5).sum(-1)


def _work(table: object, batch: int, width: int) -> Work:
    torch.manual_seed(0)
    first, second = (torch.randn(batch, 2 * width).mul_(0.5).requires_grad_() for _ in range(2))

    def forward_and_backward() -> None:
        first.grad = second.grad = None
        table(first, second).sum().backward()  # type: ignore[operator]

    return forward_and_backward


def main() -> None:
    o = options(__doc__, batch=512, width=768, repeats=3)
    tables = {"B x B x d broadcast": broadcast_table, "matrix products": kl_table}
    ways = {name: partial(_work, table, o.batch, o.width) for name, table in tables.items()}
    rows = measure_all(ways, repeats=o.repeats, threads=o.threads)
    title = f"KL table, forward and backward, B = {o.batch}, d = {o.width}, float32"
    report(title, rows, o.threads)


if __name__ == "__main__":
    main()
