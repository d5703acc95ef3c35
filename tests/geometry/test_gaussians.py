from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from sentune.errors import InvalidValue
from sentune.geometry import Gaussians
from sentune.geometry.gaussians import kl_by_dimension, kl_table, unpack
from tests.rounding import rounding

KL = 0.7097233997792209  # KL(N(.3, .5^2) || N(-.2, 1.5^2)), computed independently
SIMILARITY = 0.5848899302244629  # 1 / (1 + KL)


def packed(mean: float, sigma: float) -> torch.Tensor:
    return torch.tensor([[mean, math.log(sigma)]], dtype=torch.float64)


def random_gaussians(count: int, d: int = 5, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(count, 2 * d, dtype=dtype) * 0.7


def independent_kl(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """torch.distributions, one pair at a time: [N, M, d]."""
    d = x.shape[1] // 2
    of = [[Normal(row[:d], row[d:].exp()) for row in side] for side in (x, y)]
    return torch.stack([torch.stack([kl_divergence(p, q) for q in of[1]]) for p in of[0]])


def sizes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """[N, M] sums of the sizes of the terms that a divergence is multiplied out into."""
    (m, log_m), (n, log_n) = x.detach().chunk(2, 1), y.detach().chunk(2, 1)
    squares = (2 * log_m).exp()[:, None] + (m.abs()[:, None] + n.abs()).square()
    terms = squares * (-2 * log_n).exp() + log_m.abs()[:, None] + log_n.abs() + 1
    return terms.sum(-1)


def test_known_value():
    x, y = packed(0.3, 0.5), packed(-0.2, 1.5)
    error = rounding(4, sizes(x, y).item())
    assert kl_table(x, y).item() == pytest.approx(KL, rel=0, abs=error)
    for form in ("sum", "mean"):
        gaussians = Gaussians(form)
        assert gaussians.entails(y, x).item() == pytest.approx(SIMILARITY, rel=0, abs=error)
        assert gaussians.entails_table(y, x).item() == pytest.approx(SIMILARITY, rel=0, abs=error)


def test_table_and_its_gradient_against_torch_distributions():
    x, y = random_gaussians(6).requires_grad_(), random_gaussians(4).requires_grad_()
    weights = torch.randn(6, 4, dtype=torch.float64)
    expected = independent_kl(x, y).sum(-1)
    wanted = torch.autograd.grad((expected * weights).sum(), (x, y))
    table = kl_table(x, y)
    error = rounding(4) * sizes(x, y)
    assert ((table - expected).abs() <= error).all()
    given_ = torch.autograd.grad((table * weights).sum(), (x, y))
    # a slope multiplies the terms by 2 at most, or by 2 / sigma; sigma is above e^-3 here
    total = float(2 * math.exp(3) * (error * weights.abs()).sum())
    torch.testing.assert_close(given_, wanted, rtol=0, atol=total)


@pytest.mark.parametrize("form", ["sum", "mean"])
def test_both_forms_from_their_equations(form):
    premises, hypotheses = random_gaussians(6), random_gaussians(4)
    kl = independent_kl(hypotheses, premises)  # [hypothesis, premise, d]
    expected = 1 / (1 + kl.sum(-1)) if form == "sum" else (1 / (1 + kl)).mean(-1)
    gaussians = Gaussians(form, chunk=20)
    table = gaussians.entails_table(premises, hypotheses)
    # 1 / (1 + KL) changes by less than KL does
    error = rounding(4) * sizes(hypotheses, premises).T
    assert ((table - expected.T).abs() <= error).all()
    there, back = gaussians.entails_tables(premises, hypotheses)
    assert torch.equal(there, table)
    torch.testing.assert_close(back, gaussians.entails_table(hypotheses, premises).T)
    torch.testing.assert_close(gaussians.entails(premises[:4], hypotheses), table[:4].diagonal())


def test_chunks_of_the_mean_form_give_the_whole_gradient():
    x = random_gaussians(7).requires_grad_()
    whole, chunked = Gaussians("mean", chunk=10**9), Gaussians("mean", chunk=1)
    (expected,) = torch.autograd.grad(whole.entails_table(x, x).square().sum(), x)
    (found,) = torch.autograd.grad(chunked.entails_table(x, x).square().sum(), x)
    rows = [torch.autograd.grad(whole.entails_table(r, x).square().sum(), x)[0] for r in x.split(1)]
    size = sum(row.abs() for row in rows).max() + expected.abs().max()
    torch.testing.assert_close(found, expected, rtol=0, atol=rounding(len(x), size))


def test_float32_survives_means_far_from_the_origin():
    x = random_gaussians(8, 64, torch.float32)
    x[:, :64] += 100.0
    expected = kl_table(x.double(), x.double())
    torch.testing.assert_close(kl_table(x, x).double(), expected, rtol=2e-5, atol=2e-3)


@pytest.mark.parametrize(
    ("scale", "log_sigma"), [(0.5, 0.0), (30.0, 0.0), (1.0, -3.0), (4.0, -3.0)]
)
def test_float32_tells_near_pairs_of_wide_and_narrow_gaussians(scale, log_sigma):
    mean, log = scale * torch.randn(64, 768), log_sigma + 0.1 * torch.randn(64, 768)
    first = torch.cat([mean, log], dim=1)
    near = 0.03 * math.exp(log_sigma) * torch.randn(64, 768)
    second = torch.cat([mean + near, log + 0.03 * torch.randn(64, 768)], dim=1).requires_grad_()
    exact = kl_by_dimension(*unpack(first.double()), *unpack(second.double())).sum(-1)
    (wanted,) = torch.autograd.grad(exact.sum(), second, retain_graph=True)
    table = kl_table(first, second)
    (gradient,) = torch.autograd.grad(table.diagonal().sum(), second)
    assert table.dtype == torch.float32
    # the products' rounding: 2^-24 of LARGEST_IN_FLOAT32, twice for the two products
    torch.testing.assert_close(table.diagonal(), exact.float(), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-3 * wanted.abs().max())


def test_autocast_does_not_narrow_it():
    x = random_gaussians(6, 64, torch.float32)
    exact = kl_table(x, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(kl_table(x, x), exact)


@pytest.mark.parametrize("form", ["sum", "mean"])
@given(
    mean=st.floats(-1e3, 1e3),
    logs=st.tuples(st.floats(-5, 5), st.floats(-5, 5)),
)
def test_the_wider_one_entails(form, mean, logs):
    wide, narrow = (torch.tensor([[0.0, v]], dtype=torch.float64) for v in (max(logs), min(logs)))
    narrow[0, 0] = mean
    direction = Gaussians(form).direction(wide, narrow)
    assert torch.isfinite(direction).all()
    assert direction.item() >= -rounding(4, 25), "log1p(KL) is at most 25 here"
    torch.testing.assert_close(Gaussians(form).direction(narrow, wide), -direction)


def test_direction_is_told_where_similarities_underflow():
    wide, narrow = torch.tensor([[0.0, 1.0]]), torch.tensor([[1e18, 0.0]])
    gaussians = Gaussians()
    assert gaussians.direction(wide, narrow).item() == pytest.approx(2.0, rel=1e-5)
    assert gaussians.entailing_is_larger()
    assert gaussians.extent(wide) > gaussians.extent(narrow)


def test_what_cannot_be_used_is_refused():
    with pytest.raises(InvalidValue, match="form"):
        Gaussians("median")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="even"):
        kl_table(torch.zeros(2, 3), torch.zeros(2, 3))
