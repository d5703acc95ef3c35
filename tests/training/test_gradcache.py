from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from torch import nn

from sentune.geometry import Boxes, TermWeights, contrastive_loss
from sentune.training.gradients import RandomState, cached_backward
from tests.rounding import rounding

ROWS = 12


def network() -> nn.Module:
    torch.manual_seed(1)
    layers = (nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 8))
    return nn.Sequential(*layers).double()


# the similarities of each row, through a layer of 16 and boxes of 4 dimensions, divided by tau
ERROR = rounding(16 + 4, 3 * ROWS / 0.05)


def loss(embeddings: torch.Tensor) -> torch.Tensor:
    weights = TermWeights(reverse=1.0, reverse_contradiction=1.0, reverse_orientation="hypotheses")
    columns = embeddings.chunk(3)
    return contrastive_loss(*columns, geometry=Boxes(0.5), weights=weights, temperature=0.05)


def gradients(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def assert_same_gradients(cached: nn.Module, plain: nn.Module) -> None:
    """They err as the loss does, in units of the largest of them."""
    found, expected = gradients(cached), gradients(plain)
    error = ERROR * max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(found, expected, rtol=0, atol=error)


@pytest.mark.parametrize("micro_batch", [1, 5, 12, 36])
def test_same_gradient_as_the_plain_backward_with_dropout_on(micro_batch):
    torch.manual_seed(0)
    inputs = torch.randn(3 * ROWS, 6, dtype=torch.float64).split(micro_batch)
    plain, cached = network(), network()
    torch.manual_seed(2)
    expected = loss(torch.cat([plain(x) for x in inputs]))
    expected.backward()
    drawn_after = torch.rand(3)
    torch.manual_seed(2)
    value = cached_backward(cached, inputs, loss)
    torch.testing.assert_close(value, expected.detach(), rtol=0, atol=ERROR)
    assert_same_gradients(cached, plain)
    assert torch.equal(torch.rand(3), drawn_after), "a resumed run must draw what this one draws"


def test_gradients_add_up_over_calls():
    inputs = torch.randn(3 * ROWS, 6, dtype=torch.float64).split(7)
    model = network().eval()
    cached_backward(model, inputs, loss)
    once = gradients(model)
    cached_backward(model, inputs, loss)
    error = rounding(8, 2 * once.abs().max())
    torch.testing.assert_close(gradients(model), 2 * once, rtol=0, atol=error)


def test_all_but_the_last_backward_run_without_averaging():
    inside, seen = [], []

    @contextmanager
    def no_sync():
        inside.append(True)
        yield
        inside.pop()

    model = network()

    def embed(x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            seen.append(bool(inside))
        return model(x)

    inputs = torch.randn(3 * ROWS, 6, dtype=torch.float64).split(12)
    cached_backward(embed, inputs, loss, no_sync=no_sync)
    assert seen == [True, True, False]


def test_parameters_of_the_loss_wait_for_the_last_micro_batch():
    model, scale = network().eval(), nn.Parameter(torch.ones((), dtype=torch.float64))
    inputs = torch.randn(3 * ROWS, 6, dtype=torch.float64).split(12)
    seen: list[str] = []
    scale.register_hook(lambda _: seen.append("scale"))

    def embed(x: torch.Tensor) -> torch.Tensor:
        seen.extend(["embed"] * torch.is_grad_enabled())
        return model(x)

    cached_backward(embed, inputs, lambda rows: loss(rows) * scale)
    assert seen == ["embed", "embed", "embed", "scale"]
    found, plain = gradients(model), network().eval()
    assert scale.grad == loss(torch.cat([plain(x) for x in inputs]))
    cached_backward(plain, inputs, loss)
    assert torch.equal(found, gradients(plain))


def test_random_state_is_replayed():
    state = RandomState.capture()
    first = torch.rand(4)
    state.restore()
    assert torch.equal(torch.rand(4), first)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_dropout_on_an_accelerator_is_replayed():
    inputs = torch.randn(3 * ROWS, 6, dtype=torch.float64, device="cuda").split(5)
    plain, cached = network().cuda(), network().cuda()
    torch.manual_seed(2)
    loss(torch.cat([plain(x) for x in inputs])).backward()
    torch.manual_seed(2)
    cached_backward(cached, inputs, loss)
    assert_same_gradients(cached, plain)
