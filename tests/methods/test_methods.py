"""Each method's loss against the paper's formula written out as loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sentune.corpora.schema import SCHEMAS, Kind
from sentune.encoders import load, prepare
from sentune.errors import InvalidValue
from sentune.methods import REGISTRY, SentenceMethod, find
from sentune.methods.gausscse import Gausscse, GausscseSettings
from sentune.methods.gumbelcse import Gumbelcse, GumbelcseSettings
from sentune.methods.simcse import (
    Simcse,
    SimcseSettings,
    UnsupervisedSimcse,
    UnsupervisedSimcseSettings,
)
from sentune.training.group import Group
from sentune.training.recipes import build, recipe_of
from sentune.training.settings import split

GAMMA = 0.5772156649015329
B, H = 5, 16


@pytest.fixture
def encoder(tmp_path: Path) -> nn.Module:
    torch.manual_seed(0)
    spec = "builtin:tiny?layers=1&width=16&heads=2&inner=32"
    return load(prepare(spec, ["a few words"], tmp_path)).double()


@pytest.fixture
def vectors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    roles = ("anchor", "positive", "negative")
    return {r: torch.randn(B, H, generator=generator, dtype=torch.float64) for r in roles}


def embeddings(method: SentenceMethod, vectors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {role: method.double().head(vectors[role]) for role in method.roles}


def loss(method: SentenceMethod, packed: dict[str, Tensor]) -> float:
    return method.loss(packed, lambda t: t).item()


def test_simcse_equation_2(encoder: nn.Module, vectors: dict[str, Tensor]) -> None:
    method = Simcse(encoder, SimcseSettings(temperature=0.1))  # type: ignore[arg-type]
    s, p, n = (vectors[r] for r in ("anchor", "positive", "negative"))

    def e(x: Tensor, y: Tensor) -> float:
        return math.exp(float(x @ y / x.norm() / y.norm()) / 0.1)

    expected = sum(
        -math.log(e(s[i], p[i]) / sum(e(s[i], p[j]) + e(s[i], n[j]) for j in range(B)))
        for i in range(B)
    )
    assert loss(method, embeddings(method, vectors)) == pytest.approx(expected)


def test_unsupervised_simcse_has_no_hard_negatives(
    encoder: nn.Module, vectors: dict[str, Tensor]
) -> None:
    method = UnsupervisedSimcse(encoder, UnsupervisedSimcseSettings(temperature=0.1))  # type: ignore[arg-type]
    one = Simcse(encoder, SimcseSettings(temperature=0.1, contradiction_weight=0.0))  # type: ignore[arg-type]
    assert loss(method, embeddings(method, vectors)) == pytest.approx(
        loss(one, embeddings(one, vectors))
    )
    assert {m.p for m in method.modules() if isinstance(m, nn.Dropout)} == {0.1}


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 0, 8), (0.5, 2, 0)])
def test_gausscse_equation_4(
    encoder: nn.Module, vectors: dict[str, Tensor], weights: tuple[float, float, float]
) -> None:
    names = ("entailment_weight", "contradiction_weight", "reverse_weight")
    settings = GausscseSettings(
        dimension=3, temperature=0.2, **dict(zip(names, weights, strict=True))
    )  # type: ignore[arg-type]
    method = Gausscse(encoder, settings)  # type: ignore[arg-type]
    packed = embeddings(method, vectors)
    s, p, n = (packed[r] for r in ("anchor", "positive", "negative"))

    def sim(x: Tensor, y: Tensor) -> float:
        """exp(sim(x || y) / tau) with sim = 1 / (1 + KL(N_x || N_y)), Eq. 3."""
        first = torch.distributions.Normal(x[:3], x[3:].exp())
        second = torch.distributions.Normal(y[:3], y[3:].exp())
        kl = torch.distributions.kl_divergence(first, second).sum()
        return math.exp((1 / (1 + kl)).item() / 0.2)

    def term(i: int) -> float:
        v_e = sum(sim(p[j], s[i]) for j in range(B))
        v_c = sum(sim(n[j], s[i]) for j in range(B))
        v_r = sum(sim(s[j], p[i]) for j in range(B))
        total = weights[0] * v_e + weights[1] * v_c + weights[2] * v_r
        return -math.log(sim(p[i], s[i]) / total)

    assert loss(method, packed) == pytest.approx(sum(term(i) for i in range(B)))


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1, 0.5, 4, 0), (2, 0, 0, 1)])
def test_gumbelcse_equation_12(
    encoder: nn.Module, vectors: dict[str, Tensor], weights: tuple[float, ...]
) -> None:
    names = [
        "entailment_weight",
        "contradiction_weight",
        "reverse_weight",
        "reverse_contradiction_weight",
    ]
    values = dict(zip(names, weights, strict=True))
    settings = GumbelcseSettings(
        dimension=2, temperature=0.2, intersection_temperature=0.3, **values
    )  # type: ignore[arg-type]
    method = Gumbelcse(encoder, settings)  # type: ignore[arg-type]
    packed = embeddings(method, vectors)
    s, p, n = (_boxes(packed[r]) for r in ("anchor", "positive", "negative"))

    def e(x: list[tuple[float, float]], given: list[tuple[float, float]]) -> float:
        """exp(P(b_x | b_given) / tau)."""
        return math.exp(_volume(_intersection(x, given)) / _volume(given) / 0.2)

    def term(i: int) -> float:
        sums = (
            sum(e(p[j], s[i]) for j in range(B)),
            sum(e(n[j], s[i]) for j in range(B)),
            sum(e(s[i], p[j]) for j in range(B)),
            sum(e(s[i], n[j]) for j in range(B)),
        )
        total = sum(weight * value for weight, value in zip(weights, sums, strict=True))
        return -math.log(e(p[i], s[i]) / total)

    assert loss(method, packed) == pytest.approx(sum(term(i) for i in range(B)), rel=1e-6)


def _boxes(packed: Tensor) -> list[list[tuple[float, float]]]:
    center, raw = packed.detach().chunk(2, dim=1)
    half = torch.log1p(torch.exp(raw + 1)) + 1e-4
    lower, upper = (center - half).tolist(), (center + half).tolist()
    return [list(zip(low, high, strict=True)) for low, high in zip(lower, upper, strict=True)]


def _intersection(
    x: list[tuple[float, float]], y: list[tuple[float, float]], t: float = 0.3
) -> list[tuple[float, float]]:
    def smooth(a: float, b: float) -> float:
        return t * math.log(math.exp(a / t) + math.exp(b / t))

    return [(smooth(a, c), -smooth(-b, -d)) for (a, b), (c, d) in zip(x, y, strict=True)]


def _volume(box: list[tuple[float, float]], t: float = 0.3) -> float:
    return math.prod(t * math.log1p(math.exp((b - a) / t - 2 * GAMMA)) for a, b in box)


def test_collapsed_boxes_have_the_loss_of_no_overlap(encoder: nn.Module) -> None:
    settings = GumbelcseSettings(reverse_weight=3.0)
    method = Gumbelcse(encoder, settings).double()  # type: ignore[arg-type]
    apart = torch.arange(3 * B, dtype=torch.float64)[:, None] * 1e4
    packed = torch.cat([apart.expand(-1, 16), torch.zeros(3 * B, 16)], dim=1)
    dead = loss(method, dict(zip(method.roles, packed.chunk(3), strict=True))) / B
    assert dead == pytest.approx(math.log((1 + 1 + 3 + 1) * B))
    assert method.collapsed(dead, B)
    assert not method.collapsed(dead - 0.01, B)
    assert not method.collapsed(dead, B + 1)


def test_boxes_overlap_and_variances_are_near_one_at_the_start(encoder: nn.Module) -> None:
    ids = torch.randint(5, 27, (20, 9), generator=torch.Generator().manual_seed(1))
    boxes = Gumbelcse(encoder, GumbelcseSettings()).double()  # type: ignore[arg-type]
    packed = boxes.embed(ids, torch.ones_like(ids))
    assert boxes.geometry.entails_table(packed, packed).min() > 1e-4
    gauss = Gausscse(encoder, GausscseSettings(dimension=64)).double()  # type: ignore[arg-type]
    log_sigma = gauss.embed(ids, torch.ones_like(ids))[:, 64:]
    assert log_sigma.abs().max() < 0.5


@pytest.mark.parametrize("name", REGISTRY)
def test_registry(name: str, encoder: nn.Module) -> None:
    kind = find(name)
    method = kind(encoder, kind.settings_type())  # type: ignore[arg-type]
    assert kind.name == name
    assert set(kind.columns()) <= set(SCHEMAS[kind.kind].names)
    assert method.geometry.symmetric == (name not in ("gauss", "gumbel"))
    if kind.kind is not Kind.LABELLED_PAIRS:
        assert method.settings.temperature == 0.05, "of all three papers"


def test_unknown_method() -> None:
    with pytest.raises(InvalidValue, match=r"--method: 'word2vec'.*simcse"):
        find("word2vec")


def test_the_head_is_exact_under_autocast(encoder: nn.Module) -> None:
    method = Gumbelcse(encoder.float(), GumbelcseSettings())  # type: ignore[arg-type]
    ids = torch.tensor([[2, 5, 6, 3]])
    with torch.autocast("cpu", torch.bfloat16):
        assert method.embed(ids, torch.ones_like(ids)).dtype is torch.float32


class Largest(Simcse):
    """A method of a user's own: maxima over the tokens, whatever the pooling."""

    name: ClassVar[str] = ""

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.head(self.encoder(input_ids, attention_mask, "max"))


def test_a_method_that_embeds_in_its_own_way_is_trained_in_that_way(tmp_path: Path) -> None:
    folder = prepare("builtin:tiny?layers=1&width=16&heads=2&inner=32", ["a few words"], tmp_path)
    rows = [np.array(row, dtype=np.int32) for row in ([2, 5, 6, 3], [2, 7, 3], [2, 8, 9, 6, 3])]
    columns = {"anchor": rows, "positive": rows[1:] + rows[:1], "negative": rows[2:] + rows[:2]}
    losses = {}
    for kind, pooling in ((Largest, "cls"), (Simcse, "max"), (Simcse, "cls")):
        own, training = split({"pooling": pooling, "precision": "float32"}, kind)
        method = build(kind, own, training, folder, seed=1).eval()
        backward = recipe_of(method).backward(method, training, Group.single("cpu"), folder)
        losses[kind, pooling] = backward(columns).item()
    assert losses[Largest, "cls"] == losses[Simcse, "max"] != losses[Simcse, "cls"]
