"""Decoders from a sentence vector to a word vector whose inverse costs as much as they do.

"Exploiting Invertible Decoders for Unsupervised Sentence Representation Learning" (Tang and de Sa),
section 3.3.

Legend: n = width of a word vector, d_z = of a sentence vector.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Coupling(nn.Module):
    """An affine coupling layer (section 3.3.2; Dinh et al. 2016), a bijection of n numbers.

    One half stays as it is, the other becomes ``x2 * exp(s(x1)) + t(x1)``. The inverse is
    ``(y2 - t(y1)) * exp(-s(y1))``; y1 is x1. The networks s and t have one hidden layer of
    rectified linear units and linear outputs. Their output layers start at zero, so that an
    untrained layer is the identity.

    Args:
        width: n.
        hidden: width of the hidden layers.
        flipped: the second half stays, not the first.
        limit: s becomes ``limit * tanh(s / limit)``; None leaves it as it is.
    """

    def __init__(
        self, width: int, hidden: int, *, flipped: bool, limit: float | None = None
    ) -> None:
        super().__init__()
        self.limit = limit
        first = width // 2
        self.sizes, self.flipped = (first, width - first), flipped
        kept, changed = self.sizes[::-1] if flipped else self.sizes
        self.scale, self.shift = _network(kept, hidden, changed), _network(kept, hidden, changed)

    def forward(self, x: Tensor) -> Tensor:
        """[..., n] -> [..., n]: h."""
        kept, changed = self._split(x)
        return self._join(kept, changed * self._s(kept).exp() + self.shift(kept))

    def inverse(self, y: Tensor) -> Tensor:
        """[..., n] -> [..., n]: the inverse of h."""
        kept, changed = self._split(y)
        return self._join(kept, (changed - self.shift(kept)) * (-self._s(kept)).exp())

    def _s(self, kept: Tensor) -> Tensor:
        s: Tensor = self.scale(kept)
        return s if self.limit is None else self.limit * (s / self.limit).tanh()

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = torch.split(x, self.sizes, dim=-1)
        return (second, first) if self.flipped else (first, second)

    def _join(self, kept: Tensor, changed: Tensor) -> Tensor:
        return torch.cat((changed, kept) if self.flipped else (kept, changed), dim=-1)


class InvertibleDecoder(nn.Module):
    """``x = h(W z + b)``; without coupling layers h is the identity.

    Args:
        sentence: d_z.
        word: n.
        layers: coupling layers; the halves that they change alternate.
        hidden, limit: of each layer, see ``Coupling``.
    """

    def __init__(
        self,
        sentence: int,
        word: int,
        *,
        layers: int = 0,
        hidden: int = 0,
        limit: float | None = None,
    ) -> None:
        super().__init__()
        self.projection = nn.Linear(sentence, word)
        flips = (bool(layer % 2) for layer in range(layers))
        couplings = (Coupling(word, hidden, flipped=flip, limit=limit) for flip in flips)
        self.couplings = nn.Sequential(*couplings)

    def forward(self, z: Tensor) -> Tensor:
        """[..., d_z] -> [..., n]: f_de."""
        x: Tensor = self.couplings(self.projection(z))
        return x

    def inverse(self, x: Tensor) -> Tensor:
        """[..., n] -> [..., d_z]: ``W^T (h^-1(x) - b)``, the inverse of f_de.

        Exact on the image of the smaller side where W is orthonormal: decoding gives x back where
        d_z is at least n, z where it is not.
        """
        return self.raise_to_sentence(self.uncouple(x))

    def uncouple(self, x: Tensor) -> Tensor:
        """[..., n] -> [..., n]: the inverse of h."""
        layer: Coupling
        for layer in reversed(self.couplings):  # type: ignore[assignment]
            x = layer.inverse(x)
        return x

    def raise_to_sentence(self, x: Tensor) -> Tensor:
        """[..., n] -> [..., d_z]: ``W^T (x - b)``."""
        return (x - self.projection.bias) @ self.projection.weight

    @torch.no_grad()
    def orthonormalise(self, beta: float) -> None:
        """``W := (1 + beta) W - beta (W W^T) W`` (section 3.3.1; Cisse et al. 2017).

        A singular value s becomes ``s + beta s (1 - s^2)``, nearer to 1. ``(W W^T) W`` is
        ``W (W^T W)``, so that with fewer columns than rows the columns become orthonormal
        (footnote 1); the smaller of the two products is taken.
        """
        weight = self.projection.weight
        wide = weight.shape[1] >= weight.shape[0]
        product = (weight @ weight.T) @ weight if wide else weight @ (weight.T @ weight)
        weight.mul_(1 + beta).sub_(product, alpha=beta)

    @torch.no_grad()
    def deviation(self) -> float:
        """Frobenius norm of ``W W^T - I``, of ``W^T W - I`` where d_z is below n."""
        weight = self.projection.weight.double()
        side = weight if weight.shape[1] >= weight.shape[0] else weight.T
        gram = side @ side.T
        return float(torch.linalg.matrix_norm(gram - torch.eye(len(gram)).to(gram)))


def _network(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    last = nn.Linear(hidden, outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), last)
