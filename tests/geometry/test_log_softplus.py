from __future__ import annotations

import math
from decimal import Decimal, getcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentune.geometry.corners import log_softplus

getcontext().prec = 60


def by_decimals(x: float) -> tuple[float, float]:
    """Value and derivative with sixty digits; the exponential of -700 needs them all."""
    getcontext().prec = 700 if x < -40 else 60
    u = Decimal(x).exp()
    softplus = (1 + u).ln()
    return float(softplus.ln()), float(u / (1 + u) / softplus)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "x", [-600.0, -80.1, -80.0, -79.9, -30.1, -30.0, -29.9, -5.0, 0.0, 3.0, 20.5, 50.0]
)
def test_value_and_gradient_to_the_last_digits(x, dtype):
    point = torch.tensor(x, dtype=dtype, requires_grad=True)
    value = log_softplus(point)
    (slope,) = torch.autograd.grad(value, point)
    expected, derivative = by_decimals(point.item())
    last = torch.finfo(dtype).eps
    assert value.item() == pytest.approx(expected, rel=4 * last, abs=4 * last)
    assert slope.item() == pytest.approx(derivative, rel=8 * last)


@given(x=st.floats(-1e30, 1e30), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_finite_with_a_gradient_between_zero_and_one(x, dtype):
    point = torch.tensor(x, dtype=dtype, requires_grad=True)
    value = log_softplus(point)
    (slope,) = torch.autograd.grad(value, point)
    assert math.isfinite(value.item())
    assert 0 < slope.item() <= 1.0 + 1e-6
