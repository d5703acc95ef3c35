"""Operators on sentence embeddings (InterSent section 2.2, appendix B).

Legend: N = sentences, D = width of an embedding.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Kind = Literal["mlp", "arithmetic"]


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two layers with ReLU between them."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class Operators(nn.Module):
    """Embeddings of the sentences that fusion, difference and compression make.

    Reconstruction has no operator: its embedding is the sentence's own.

    Args:
        width: D.
        kind: ``mlp``, or the ``arithmetic`` of Table 6: e1 + e2 for fusion and e1 - e2 for
            difference; compression stays an MLP.
        pair_width: hidden units of fusion and difference.
        bottleneck_width: hidden units of compression, few so that the essential alone gets through.
    """

    def __init__(self, width: int, kind: Kind, pair_width: int, bottleneck_width: int) -> None:
        super().__init__()
        self.learned = kind == "mlp"
        if self.learned:
            self.fusion = mlp(2 * width, pair_width, width)
            self.difference = mlp(2 * width, pair_width, width)
        self.compression = mlp(width, bottleneck_width, width)

    def fuse(self, first: Tensor, second: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N, D]: a sentence that tells what both tell."""
        return self.fusion(torch.cat([first, second], dim=1)) if self.learned else first + second

    def subtract(self, first: Tensor, second: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N, D]: what the first tells and the second does not."""
        if not self.learned:
            return first - second
        return self.difference(torch.cat([first, second], dim=1))

    def compress(self, first: Tensor) -> Tensor:
        """[N, D] -> [N, D]: the essential of a sentence."""
        return self.compression(first)
