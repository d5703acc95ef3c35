"""No table over B x B pairs ever holds, or keeps for its backward pass, B x B x d numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sentune.geometry import Boxes, Gaussians, TermWeights, contrastive_loss
from tests.third_party_internals import TorchDispatchMode, tree_leaves

B, D, CHUNK = 96, 64, 4096


class Largest(TorchDispatchMode):
    """Numbers in the largest storage that any operation, forward or backward, produces."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                stored = leaf.untyped_storage().nbytes() // leaf.itemsize
                self.numbers = max(self.numbers, stored)
        return result


def kept_for_backward(forward: Callable[[], Tensor]) -> tuple[Tensor, int]:
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes() // tensor.itemsize
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        value = forward()
    return value, sum(storages.values())


GEOMETRIES = {
    "gaussians": Gaussians(),
    "gaussians, mean form": Gaussians("mean", chunk=CHUNK),
    "boxes": Boxes(0.5, chunk=CHUNK),
    "boxes in float64": Boxes(0.02, chunk=CHUNK),
    "boxes, direct": Boxes(0.001, chunk=CHUNK),
    "boxes, untied": Boxes(0.5, 0.3, chunk=CHUNK),
    "boxes, hard": Boxes(0.5, intersection="hard", chunk=CHUNK),
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_loss_over_all_pairs_needs_no_third_axis(name):
    columns = [torch.randn(B, 2 * D, requires_grad=True) for _ in range(3)]
    weights = TermWeights(reverse=1.0, reverse_contradiction=1.0, reverse_orientation="hypotheses")

    def forward() -> Tensor:
        return contrastive_loss(
            *columns, geometry=GEOMETRIES[name], weights=weights, temperature=0.05
        )

    with Largest() as largest:
        loss, kept = kept_for_backward(forward)
        loss.backward()
    tables, rows = 4 * B * B, 4 * B * D
    assert largest.numbers <= max(tables, rows, B * D + CHUNK)
    assert kept < B * B * D
