"""The table of overlaps without exponentials against the direct form, and against a broadcast."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from sentune.geometry import Corners
from sentune.geometry.box_overlap import LIMITS, _by_type, direct_overlap_table, log_overlap_table
from sentune.geometry.corners import EULER_GAMMA
from tests.rounding import rounding

Leaves = list[torch.Tensor]


def random_boxes(n: int, m: int, d: int, scale: torch.Tensor | float = 1.0) -> Leaves:
    leaves = []
    for count in (n, m):
        lower = torch.randn(count, d, dtype=torch.float64) * 0.5 * scale
        side = (torch.rand(count, d, dtype=torch.float64) * 2 + 0.1) * scale
        leaves += [lower, lower + side]
    return leaves


def broadcast(z1, Z1, z2, Z2, T):
    """As one writes it down, [N, M, d]; right in float64 for moderate boxes."""
    z = T * torch.logaddexp(z1[:, None] / T, z2[None] / T)
    Z = -T * torch.logaddexp(-Z1[:, None] / T, -Z2[None] / T)
    return (T * F.softplus((Z - z) / T - 2 * EULER_GAMMA, threshold=40)).log().sum(-1)


def with_gradients(function, leaves: Leaves, dtype: torch.dtype, weights: torch.Tensor):
    copies = [leaf.to(dtype).requires_grad_() for leaf in leaves]
    table = function(copies)
    gradients = torch.autograd.grad((table * weights.to(dtype)).sum(), copies)
    return table.detach().double(), [g.double() for g in gradients]


def errors(
    leaves: Leaves, weights: torch.Tensor, temperature: float, dtype: torch.dtype = torch.float64
) -> tuple[float, float]:
    """Bounds on the rounding of a table, and of its gradients with weights.

    Exponents are up to the reach R / T, and as many as dimensions are added up. A slope is at most
    1 / T, and an error of an exponent changes it by as much.
    """
    lower, upper = torch.cat(leaves[::2]).detach(), torch.cat(leaves[1::2]).detach()
    reach = float((upper.amax(0) - lower.amin(0)).sum()) / temperature
    own = rounding(8, dtype=dtype) + rounding(4, min(reach, LIMITS[torch.float64]))
    return rounding(4, reach, dtype), own * float(weights.abs().sum()) / temperature


def assert_close(found, expected, limits: tuple[float, float]) -> None:
    """Table and gradients within their limits."""
    for ours, theirs, limit in zip(found, expected, limits, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=limit)


def fast(temperature: float, chunk: int = 500, volume: float | None = None):
    both = temperature, volume or temperature
    return lambda t: log_overlap_table(Corners(*t[:2]), Corners(*t[2:]), both, chunk)


def direct(temperature: float, volume: float | None = None):
    both = temperature, volume or temperature
    return lambda t: direct_overlap_table(Corners(*t[:2]), Corners(*t[2:]), both, 500)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
@pytest.mark.parametrize("form", [fast, direct])
def test_against_the_broadcast(form, temperature):
    leaves, weights = random_boxes(9, 7, 12), torch.randn(9, 7, dtype=torch.float64)
    expected = with_gradients(lambda t: broadcast(*t, temperature), leaves, torch.float64, weights)
    found = with_gradients(form(temperature), leaves, torch.float64, weights)
    assert_close(found, expected, errors(leaves, weights, temperature))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1.0, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 1e-5])
def test_fast_path_against_the_direct_form_at_any_spread(dtype, temperature):
    leaves, weights = random_boxes(11, 8, 10), torch.randn(11, 8, dtype=torch.float64)
    leaves = [leaf.float().double() for leaf in leaves]
    expected = with_gradients(direct(temperature), leaves, torch.float64, weights)
    found = with_gradients(fast(temperature), leaves, dtype, weights)
    assert_close(found, expected, errors(leaves, weights, temperature, dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("temperature", "volume"), [(1.0, 0.3), (0.3, 1.0), (0.1, 0.05), (0.05, 1e-3), (0.02, 0.5)]
)
def test_untied_temperatures_against_the_direct_form(dtype, temperature, volume):
    leaves, weights = random_boxes(11, 8, 10), torch.randn(11, 8, dtype=torch.float64)
    leaves = [leaf.float().double() for leaf in leaves]
    expected = with_gradients(direct(temperature, volume), leaves, torch.float64, weights)
    found = with_gradients(fast(temperature, volume=volume), leaves, dtype, weights)
    assert_close(found, expected, errors(leaves, weights, min(temperature, volume), dtype))


def test_every_dimension_goes_its_own_way():
    scale = torch.tensor([1.0, 20.0, 3000.0, 1.0, 20.0], dtype=torch.float64)
    leaves, weights = random_boxes(6, 5, 5, scale), torch.randn(6, 5, dtype=torch.float64)
    spread = torch.stack([leaves[1].amax(0), leaves[3].amax(0)]).amax(0)
    spread -= torch.stack([leaves[0].amin(0), leaves[2].amin(0)]).amin(0)
    groups = _by_type(spread / 0.2, torch.float32)
    assert groups == {torch.float32: [0, 3], torch.float64: [1, 4], None: [2]}
    expected = with_gradients(direct(0.2), leaves, torch.float64, weights)
    found = with_gradients(fast(0.2), leaves, torch.float32, weights)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-4)
    for slope, gradient in zip(found[1], expected[1], strict=True):
        assert (slope - gradient).abs().max() <= 2e-5 * gradient.abs().max()


@settings(max_examples=100)
@given(
    temperature=st.floats(1e-5, 1.0),
    width=st.floats(1e-3, 1e3),
    gap=st.floats(-10, 1e3),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_finite_and_never_without_gradient(temperature, width, gap, dtype):
    lower = torch.tensor([[0.0, 0.0]], dtype=dtype)
    leaves = [lower, lower + width, lower + width + gap, lower + 2 * width + gap]
    ones = torch.ones(1, 1, dtype=torch.float64)
    table, gradients = with_gradients(fast(temperature), leaves, dtype, ones)
    assert torch.isfinite(table).all()
    assert all(torch.isfinite(g).all() for g in gradients)
    if gap > 0:
        assert (gradients[1] > 0).all()
        assert (gradients[2] < 0).all()


@pytest.mark.parametrize("chunk", [1, 37, 10**9])
def test_the_chunk_changes_nothing(chunk):
    leaves, weights = random_boxes(7, 5, 9), torch.randn(7, 5, dtype=torch.float64)
    expected = with_gradients(fast(0.3), leaves, torch.float64, weights)
    found = with_gradients(fast(0.3, chunk), leaves, torch.float64, weights)
    assert_close(found, expected, errors(leaves, weights, 0.3))


def test_no_number_in_no_number_out():
    leaves = random_boxes(3, 3, 2)
    leaves[0][1, 0] = float("nan")
    table = fast(0.1)(leaves)
    assert torch.isnan(table[1]).all()
    assert torch.isfinite(table[[0, 2]]).all()


def test_a_worker_without_rows_gets_a_table_without_rows():
    leaves = random_boxes(0, 4, 3)
    assert fast(0.1)(leaves).shape == (0, 4)
