"""Known values and properties of Gumbel boxes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentune.geometry.corners import Corners, gumbel_intersection, hard_intersection, log_volume
from tests.rounding import rounding

TEMPERATURES = st.floats(1e-5, 1.0)
BOX = st.tuples(st.floats(-100, 100), st.floats(0, 100))


def corners(lower: list[float], upper: list[float]) -> Corners:
    return Corners(*(torch.tensor([v], dtype=torch.float64) for v in (lower, upper)))


def of_sides(boxes: list[tuple[float, float]]) -> Corners:
    return corners([low for low, _ in boxes], [low + side for low, side in boxes])


@pytest.mark.parametrize(
    ("lower", "upper", "volume"),
    [
        ([1, 1], [3, 5], 3.490471036586069),
        ([1, 1], [3, 3], 1.4466380769708034),
        ([3, 2], [4, 4], 0.7444014775718409),
    ],
)
def test_known_volumes(lower, upper, volume):
    value = log_volume(corners(lower, upper), 1.0, 1.0).exp().item()
    assert value == pytest.approx(volume, rel=rounding(4, 2.0))  # two logarithms of sides


def test_volumes_agree_with_box_embeddings_to_its_own_precision():
    modules = pytest.importorskip("box_embeddings.modules.volume.bessel_volume")
    from box_embeddings.parameterizations.box_tensor import BoxTensor

    lower = torch.rand(20, 4)
    upper = lower + torch.rand(20, 4) * 3
    for intersection, volume in ((1.0, 1.0), (0.1, 0.5)):
        theirs = modules.bessel_volume_approx(
            BoxTensor.from_zZ(lower, upper), volume, intersection, log_scale=True
        )
        ours = log_volume(Corners(lower, upper), intersection, volume)
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@settings(max_examples=300)
@given(
    first=st.lists(BOX, min_size=3, max_size=3),
    second=st.lists(BOX, min_size=3, max_size=3),
    temperature=TEMPERATURES,
)
def test_intersection_is_symmetric_finite_and_inside_the_hard_one(first, second, temperature):
    x, y = of_sides(first), of_sides(second)
    smooth, hard = gumbel_intersection(x, y, temperature), hard_intersection(x, y)
    assert torch.isfinite(torch.cat(smooth)).all()
    assert (smooth.lower >= hard.lower).all()
    assert (smooth.upper <= hard.upper).all()
    swapped = gumbel_intersection(y, x, temperature)
    assert torch.equal(torch.cat(smooth), torch.cat(swapped))


@settings(max_examples=300)
@given(sides=st.lists(BOX, min_size=3, max_size=3), gap=st.floats(0, 100), temperature=TEMPERATURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_disjoint_boxes_still_pull_on_every_corner_that_counts(dtype, sides, gap, temperature):
    x = of_sides(sides)
    y = Corners(x.upper + gap, x.upper + gap + 1)
    leaves = [t.to(dtype).requires_grad_() for t in (*x, *y)]
    both = gumbel_intersection(Corners(*leaves[:2]), Corners(*leaves[2:]), temperature)
    volume = log_volume(both, temperature, temperature)
    gradients = torch.autograd.grad(volume.sum(), leaves)
    assert math.isfinite(volume.item())
    assert all(torch.isfinite(g).all() for g in gradients)
    assert (gradients[1] > 0).all(), "raising the left box's upper corner makes the overlap larger"
    assert (gradients[2] < 0).all(), "lowering the right box's lower corner does too"


def test_gradient_of_a_gap_is_one_over_the_temperature():
    lower = torch.tensor([[1.0]], requires_grad=True)
    volume = log_volume(Corners(lower, torch.tensor([[0.0]])), 0.01, 0.01)
    (slope,) = torch.autograd.grad(volume.sum(), lower)
    assert slope.item() == pytest.approx(-100.0, rel=1e-6)
