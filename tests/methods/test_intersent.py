"""Operators and both losses of InterSent against loops over single items."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from sentune.corpora.schema import OPERATIONS
from sentune.encoders.tokenizing import pad
from sentune.errors import InvalidValue
from sentune.methods import Intersent, find
from sentune.methods.intersent import (
    COMPRESSION,
    DIFFERENCE,
    FUSION,
    PAIR_CODES,
    RECONSTRUCTION,
    IntersentSettings,
    Operators,
)
from sentune.training.settings import split
from tests.methods.intersent_scenes import ENCODER, build, columns, folder

WIDTH = 16


def vectors(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))


def two_layers(network: torch.nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    first, last = network[0], network[2]
    return torch.relu(x @ first.weight.T + first.bias) @ last.weight.T + last.bias


def test_operators_are_two_layers_with_relu():
    a, b = vectors(4), vectors(4, 1)
    operators = Operators(WIDTH, "mlp", 20, 3)
    pair = torch.cat([a, b], 1)
    torch.testing.assert_close(operators.fuse(a, b), two_layers(operators.fusion, pair))
    torch.testing.assert_close(operators.subtract(a, b), two_layers(operators.difference, pair))
    torch.testing.assert_close(operators.compress(a), two_layers(operators.compression, a))
    assert operators.fusion[0].weight.shape == (20, 2 * WIDTH)
    assert operators.compression[0].weight.shape == (3, WIDTH)


def test_arithmetic_learns_compression_alone():
    a, b = vectors(4), vectors(4, 1)
    operators = Operators(WIDTH, "arithmetic", 20, 3)
    assert torch.equal(operators.fuse(a, b), a + b)
    assert torch.equal(operators.subtract(a, b), a - b)
    torch.testing.assert_close(operators.compress(a), two_layers(operators.compression, a))
    assert {name.split(".")[0] for name, _ in operators.named_parameters()} == {"compression"}


@given(st.lists(st.integers(0, 3), max_size=12))
@settings(max_examples=25, deadline=None)
def test_every_item_gets_the_result_of_its_operation(codes):
    method = MODEL
    first = vectors(len(codes))
    second = vectors(sum(code in PAIR_CODES for code in codes), 1)
    found = method.operate(torch.tensor(codes, dtype=torch.long), first, second)
    others = iter(second)
    assert found.shape == first.shape
    for row, code, one in zip(found, codes, first, strict=True):
        pair = torch.cat([one, next(others)]) if code in PAIR_CODES else None
        expected = {
            FUSION: lambda p=pair: two_layers(method.operators.fusion, p),
            DIFFERENCE: lambda p=pair: two_layers(method.operators.difference, p),
            COMPRESSION: lambda x=one: two_layers(method.operators.compression, x),
            RECONSTRUCTION: lambda x=one: x,
        }[code]()
        torch.testing.assert_close(row, expected)


MODEL, _ = build()


def test_codes_are_places_among_the_operations():
    assert [OPERATIONS[code] for code in PAIR_CODES] == ["fusion", "difference"]
    assert OPERATIONS[COMPRESSION] == "compression"
    assert OPERATIONS[RECONSTRUCTION] == "reconstruction"


def test_the_contrastive_loss_is_equation_1():
    outputs, targets = vectors(6), vectors(6, 1)
    found = MODEL.contrastive(outputs, targets, lambda x: x, 0)
    expected = 0.0
    for i in range(6):
        scores = [math.exp(F.cosine_similarity(outputs[i], t, 0).item() / 0.05) for t in targets]
        expected -= math.log(scores[i] / sum(scores))
    assert found.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("average", ["sequence", "token"])
def test_the_generative_loss_is_equation_2(average):
    method, _ = build(generative_average=average)
    rows = columns()["decoded"][:6]
    outputs, chunk = vectors(6), pad(rows, method.decoder.pad_id)
    lengths = torch.tensor([len(row) - 1 for row in rows])
    found = method.generative(outputs, *chunk, method.token_weights(lengths))
    losses = method.decoder.loss_per_token(method.bridge(outputs), *chunk)
    each = [loss[1 : len(row)] for loss, row in zip(losses, rows, strict=True)]
    mean = torch.stack([loss.mean() for loss in each]).mean()
    expected = torch.cat(each).mean() if average == "token" else mean
    torch.testing.assert_close(found, expected)
    assert len(set(lengths.tolist())) > 1, "or both averages are the same"


def test_a_bridge_stands_only_where_widths_differ():
    assert isinstance(MODEL.bridge, torch.nn.Linear)
    assert (MODEL.bridge.in_features, MODEL.bridge.out_features) == (16, 24)
    method, _ = build(folder(ENCODER, "builtin:tiny?layers=1&width=16&heads=2&inner=32"))
    assert isinstance(method.bridge, torch.nn.Identity)


def test_encoder_and_the_rest_have_rates_of_their_own():
    groups = MODEL.rated_parameters(1e-5)
    assert [rate for _, rate in groups] == [1e-5, MODEL.settings.decoder_learning_rate]
    encoder = {id(p) for p in MODEL.encoder.parameters()}
    assert {id(p) for p in groups[0][0]} == encoder
    everything = {id(p) for p in MODEL.parameters()}
    assert {id(p) for p in groups[1][0]} == everything - encoder


def test_a_frozen_encoder_neither_learns_nor_drops_out():
    method, _ = build(train_encoder=False)
    method.train()
    assert not method.encoder.training
    assert method.decoder.training
    assert not any(p.requires_grad for p in method.encoder.parameters())
    assert [rate for _, rate in method.rated_parameters(1e-5)] == [1e-4]
    assert not method.embed(*pad(columns()["first"][:2], 0)).requires_grad


def test_defaults_are_the_papers():
    own, training = split({}, Intersent)
    assert (own.temperature, own.alpha, own.bottleneck_width) == (0.05, 0.01, 384)
    assert (own.pooling, own.operators, own.decoder_learning_rate) == ("cls", "mlp", 1e-4)
    assert (training.learning_rate, training.warmup, training.batch_size) == (5e-6, 0.05, 256)
    assert (training.max_length, training.schedule) == (64, "linear")
    assert find("intersent") is Intersent


def test_a_model_without_any_objective_is_refused():
    with pytest.raises(InvalidValue, match="contrastive_weight or alpha must be above 0"):
        split({"alpha": 0, "contrastive_weight": 0}, Intersent)
    assert IntersentSettings(alpha=0).contrastive_weight == 1
