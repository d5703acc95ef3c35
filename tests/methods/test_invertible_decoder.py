"""Decoders: inverses, orthonormal rows, and the constraint while gradients pull."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from sentune.methods.invertible import Coupling, InvertibleDecoder
from tests.rounding import rounding


def decoder(
    sentence: int, word: int, layers: int, seed: int = 0, limit: float | None = None
) -> InvertibleDecoder:
    """In float64, with couplings that are far from the identity where they start."""
    torch.manual_seed(seed)
    made = InvertibleDecoder(sentence, word, layers=layers, hidden=16, limit=limit).double()
    for parameter in made.couplings.parameters():
        nn.init.normal_(parameter, std=0.1)
    return made


def orthonormal(made: InvertibleDecoder) -> InvertibleDecoder:
    nn.init.orthogonal_(made.projection.weight)
    return made


def by_hand(layer: Coupling, x: Tensor) -> Tensor:
    """Section 3.3.2, one number at a time."""
    half = len(x) // 2
    kept, changed = (x[half:], x[:half]) if layer.flipped else (x[:half], x[half:])
    s, t = layer.scale(kept), layer.shift(kept)
    moved = torch.stack([c * torch.exp(a) + b for c, a, b in zip(changed, s, t, strict=True)])
    return torch.cat((moved, kept) if layer.flipped else (kept, moved))


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("width", [6, 7])
def test_a_coupling_layer_is_its_formula(flipped: bool, width: int) -> None:
    torch.manual_seed(3)
    layer = Coupling(width, 9, flipped=flipped).double()
    x = torch.randn(4, width, dtype=torch.float64)
    assert torch.equal(layer(x), x), "an untrained layer is the identity"
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    torch.testing.assert_close(layer(x), torch.stack([by_hand(layer, row) for row in x]))


def undone(made: InvertibleDecoder, x: Tensor) -> float:
    """Bound on the rounding of x through the couplings and back, or back and through them.

    Each layer errs by its own operations, and the inverse of those before magnifies that by as much
    as the largest row of its matrix of derivatives.
    """
    layers = [layer for layer in made.couplings if isinstance(layer, Coupling)]
    bound = 0.0
    for there, back, order in (
        (Coupling.forward, Coupling.inverse, layers),
        (Coupling.inverse, Coupling.forward, layers[::-1]),
    ):
        y, grown, size = x, 1.0, float(x.detach().abs().max())
        for layer in order:
            y = there(layer, y).detach()
            slopes = [jacobian(partial(back, layer), row).abs().sum(1).max() for row in y]
            grown *= max(1.0, *map(float, slopes))
            size = max(size, float(y.abs().max()))
        bound = max(bound, grown * size)
    return rounding(max(1, len(layers)) * 16, bound, x.dtype)


@settings(max_examples=30, deadline=None)
@given(
    width=st.integers(2, 9),
    layers=st.integers(1, 5),
    seed=st.integers(0, 1000),
    double=st.booleans(),
    limit=st.sampled_from([None, 0.5]),
)
def test_couplings_come_back(
    width: int, layers: int, seed: int, double: bool, limit: float | None
) -> None:
    dtype = torch.float64 if double else torch.float32
    made = decoder(width, width, layers, seed, limit).to(dtype)
    x = torch.randn(5, width, dtype=dtype)
    there = made.couplings(x)
    back = made.uncouple(there)
    error = undone(made, x)
    assert (back - x).abs().max() <= error
    assert (made.couplings(made.uncouple(x)) - x).abs().max() <= error


def test_a_bound_keeps_the_inverse_of_distant_points_finite() -> None:
    torch.manual_seed(0)
    far = 100 * torch.randn(20, 8)
    for limit, finite in ((None, False), (1.0, True)):
        made = InvertibleDecoder(8, 8, layers=4, hidden=16, limit=limit)
        for parameter in made.couplings.parameters():
            nn.init.normal_(parameter, std=0.5)
        assert bool(made.uncouple(far).isfinite().all()) is finite
    layer = Coupling(8, 16, flipped=False, limit=1.0)
    nn.init.normal_(layer.scale[2].weight, std=100.0)
    moved = layer(torch.ones(1, 8))[0, 4:]
    assert moved.min() >= torch.e**-1 - 1e-6
    assert moved.max() <= torch.e + 1e-6


@pytest.mark.parametrize("layers", [0, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inverse_and_decoder_undo_each_other(layers: int, dtype: torch.dtype) -> None:
    square = orthonormal(decoder(8, 8, layers)).to(dtype)
    wide, tall = orthonormal(decoder(20, 8, layers)).to(dtype), decoder(6, 8, layers)
    tall = orthonormal(tall).to(dtype)
    z, x = torch.randn(5, 8, dtype=dtype), torch.randn(5, 8, dtype=dtype)
    small = torch.randn(5, 6, dtype=dtype)

    def error(made: InvertibleDecoder, x: Tensor) -> float:
        """A row of an orthonormal W has length 1, and at most 20 numbers."""
        return 20**0.5 * undone(made, x) + rounding(
            2 * 20, 20**0.5 * float(x.detach().abs().max()), dtype
        )

    back = square.inverse(square(z))
    assert (back - z).abs().max() < error(square, square.projection(z))
    assert (wide(wide.inverse(x)) - x).abs().max() < error(wide, x), "d_z > n: x -> z -> x"
    back = tall.inverse(tall(small))
    assert (back - small).abs().max() < error(tall, tall.projection(small)), "d_z < n: z -> x -> z"


def test_the_inverse_needs_orthonormal_rows() -> None:
    made = decoder(20, 8, 0)
    x = torch.randn(5, 8, dtype=torch.float64)
    assert (made(made.inverse(x)) - x).abs().max() > 0.1


@pytest.mark.parametrize(("sentence", "word"), [(12, 5), (5, 12), (7, 7)])
def test_the_update_is_its_formula_and_ends_orthonormal(sentence: int, word: int) -> None:
    made = decoder(sentence, word, 0)
    weight = made.projection.weight.detach().clone()
    made.orthonormalise(0.01)
    expected = 1.01 * weight - 0.01 * (weight @ weight.T) @ weight
    torch.testing.assert_close(made.projection.weight.detach(), expected)
    before = made.deviation()
    for _ in range(1500):
        made.orthonormalise(0.01)
    assert made.deviation() < 1e-9 < before
    found = torch.linalg.svdvals(made.projection.weight.detach())
    torch.testing.assert_close(found, torch.ones_like(found))


@pytest.mark.parametrize(("sentence", "word"), [(9, 4), (4, 9)])
def test_the_spectrum_is_of_the_smaller_product_and_flat_from_an_orthonormal_start(
    sentence: int, word: int
) -> None:
    made = decoder(sentence, word, 0)
    weight = made.projection.weight.detach()
    side = weight if sentence >= word else weight.T
    by_product = torch.linalg.eigvalsh(side @ side.T).flip(0)
    torch.testing.assert_close(made.spectrum(), by_product)
    off = torch.linalg.matrix_norm(side @ side.T - torch.eye(4).double())
    assert made.deviation() == pytest.approx(float(off))
    flat = InvertibleDecoder(sentence, word, orthogonal=True)
    torch.testing.assert_close(flat.spectrum(), torch.ones(4).double(), rtol=0, atol=1e-5)
