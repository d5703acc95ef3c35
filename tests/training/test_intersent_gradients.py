"""InterSent's gradient: of Eq. 3 on one worker, on several, and with bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sentune.encoders.tokenizing import pad
from sentune.methods.intersent import COMPRESSION, FUSION, PAIR_CODES, Intersent
from sentune.training.group import Group
from sentune.training.recipes import recipe_of
from tests.forked import join_group, leave_group, run_group
from tests.methods.intersent_scenes import Columns, build, columns, folder, part
from tests.rounding import difference, rounding

ENCODER = "builtin:tiny?layers=1&width=16&heads=2&inner=32"
DROPPING = "builtin:tiny?layers=1&width=16&heads=2&inner=32&dropout=0.3"
DECODER = "builtin:tiny?layers=1&width=24&heads=2&inner=32"
MIXED = list(range(14))
LENGTH, TEMPERATURE = 20, 0.05
# an attention (four maps, scores, means) and an inner layer in the encoder, two attentions and an
# inner layer in the decoder, an operator of twice the width; a score of each target to each item
ERROR = rounding(
    (6 * 16 + LENGTH + 2 * 32) + 2 * (6 * 24 + LENGTH) + 2 * 32 + 2 * 2 * 16,
    len(MIXED) / TEMPERATURE,
)
SORTED = sorted(MIXED, key=lambda i: i % 4)  # fusions first: other workers have none of them
BATCHES = {"mixed": MIXED, "sorted": SORTED, "odd": MIXED[:7], "few": [0, 1, 2]}
SETTINGS: dict[str, dict[str, Any]] = {
    "both": {},
    "token": {"generative_average": "token"},
    "contrastive": {"alpha": 0},
    "generative": {"contrastive_weight": 0},
    "arithmetic": {"operators": "arithmetic"},
    "frozen": {"train_encoder": False},
}
CASES: list[tuple[str, str, int | None]] = [
    ("both", "mixed", None),
    ("both", "mixed", 2),
    ("both", "sorted", None),
    ("both", "sorted", 2),
    ("both", "few", 2),  # the last of four workers has no item
    ("both", "few", None),
    ("generative", "few", None),
    ("frozen", "few", 2),
    ("contrastive", "odd", None),
    ("token", "odd", 2),
    ("arithmetic", "sorted", None),
]


def gradient(
    batch: Columns, group: Group, source: str | None = None, **settings: Any
) -> tuple[dict[str, Tensor], Tensor, Intersent]:
    """Name -> gradient of the parameters that have one, and this worker's loss."""
    source = source or folder(ENCODER, DECODER)
    method, training = build(
        source, **{"precision": "float64", "temperature": TEMPERATURE, **settings}
    )
    backward = recipe_of(Intersent).backward(method.train(), training, group, source)
    torch.manual_seed(7)
    loss = backward(batch)
    found = {k: p.grad.clone() for k, p in method.named_parameters() if p.grad is not None}
    return found, loss, method


def case_gradient(
    case: tuple[str, str, int | None], group: Group, source: str
) -> tuple[Tensor, Tensor]:
    name, batch, micro = case
    chosen = part(columns(source), BATCHES[batch])
    found, loss, _ = gradient(chosen, group, source, micro_batch=micro, **SETTINGS[name])
    return torch.cat([g.flatten() for g in found.values()]), loss


def slow_loss(method: Intersent, batch: Columns) -> Tensor:
    """Eq. 3 item by item, every sentence encoded on its own."""

    def embed(row: Any) -> Tensor:
        return method.embed(*pad([row], 0))

    outputs = []
    for code, first, second in zip(
        batch["operation"], batch["first"], batch["second"], strict=True
    ):
        others = embed(second) if code[0] in PAIR_CODES else torch.zeros(0, 16).double()
        outputs.append(method.operate(torch.tensor([int(code[0])]), embed(first), others))
    targets = torch.cat([embed(row) for row in batch["target"]])
    total = torch.zeros((), dtype=torch.float64)
    for i, (output, row) in enumerate(zip(outputs, batch["decoded"], strict=True)):
        scores = F.cosine_similarity(output, targets) / method.settings.temperature
        losses = method.decoder.loss_per_token(method.bridge(output), *pad([row], 0))
        generative = losses.sum() / (len(row) - 1)
        contrastive = scores.logsumexp(0) - scores[i]
        weight = method.settings.contrastive_weight
        total = total + weight * contrastive + method.settings.alpha * generative
    return total / len(outputs)


@pytest.mark.parametrize("micro", [None, 3])
def test_loss_and_gradient_are_those_of_equation_3(micro):
    batch = part(columns(folder(ENCODER, DECODER)), MIXED)
    weights = {"contrastive_weight": 0.7, "alpha": 0.3}
    found, loss, method = gradient(batch, Group.single("cpu"), micro_batch=micro, **weights)
    method.zero_grad()
    method.encoder.sparse_gradients(on=False)
    expected = slow_loss(method, batch)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    for name, parameter in method.named_parameters():
        assert difference(found[name], parameter.grad) < ERROR, name


def work(rank: int, place: str, source: str) -> None:
    """All cases in a group of four, then in one of two."""
    for world_size in (4, 2):
        if rank >= world_size:
            return
        group = join_group(rank, world_size, place)
        found = [case_gradient(case, group, source) for case in CASES]
        torch.save(found, Path(place) / f"{world_size}-{rank}.pt")
        leave_group()


@pytest.fixture(scope="module")
def alone() -> list[tuple[Tensor, Tensor]]:
    source = folder(ENCODER, DECODER)
    cases = [(name, batch, None) for name, batch, _ in CASES]
    return [case_gradient(case, Group.single("cpu"), source) for case in cases]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Where real processes left what they found."""
    place = tmp_path_factory.mktemp("intersent")
    run_group(work, (str(place), folder(ENCODER, DECODER)), 4)
    return place


@pytest.mark.parametrize("world_size", [2, 4])
def test_the_gradient_of_a_group_is_that_of_one_worker(place, alone, world_size):
    names = [place / f"{world_size}-{rank}.pt" for rank in range(world_size)]
    workers = [torch.load(name, weights_only=True) for name in names]
    for index, (case, (expected, loss)) in enumerate(zip(CASES, alone, strict=True)):
        for found in workers:
            assert difference(found[index][0], expected) < ERROR, case
        mean = torch.stack([found[index][1] for found in workers]).mean()
        torch.testing.assert_close(mean, loss, msg=str(case))


def test_cached_gradients_are_the_plain_ones_on_one_worker(alone):
    for case, (expected, loss) in zip(CASES, alone, strict=True):
        found, cached = case_gradient(case, Group.single("cpu"), folder(ENCODER, DECODER))
        assert difference(found, expected) < ERROR, case
        torch.testing.assert_close(cached, loss)


def test_cached_gradients_replay_dropout():
    """With dropout the second pass must draw the first one's masks: a gradient of finite steps."""
    source = folder(DROPPING, DECODER)
    batch = part(columns(source), MIXED)
    settings = {"micro_batch": 3, "contrastive_weight": 0.5}
    found, loss, method = gradient(batch, Group.single("cpu"), source, **settings)
    backward = recipe_of(Intersent).backward(
        method, build(source, precision="float64", **settings)[1], Group.single("cpu"), source
    )
    direction = {k: torch.randn_like(g) for k, g in found.items() if k.startswith("encoder")}
    steps = []
    for step in (1e-6, -1e-6):
        with torch.no_grad():
            for name, parameter in method.named_parameters():
                if name in direction:
                    parameter += step * direction[name]
        torch.manual_seed(7)
        steps.append(backward(batch))
        with torch.no_grad():
            for name, parameter in method.named_parameters():
                if name in direction:
                    parameter -= step * direction[name]
    slope = sum((found[name] * d).sum() for name, d in direction.items())
    torch.testing.assert_close((steps[0] - steps[1]) / 2e-6, slope, rtol=1e-4, atol=1e-6)
    assert loss > 0


def encoded(batch: Columns, source: str, **settings: Any) -> tuple[list[list[int]], int]:
    """Sentences that went through the encoder, and the most of them at a time."""
    method, training = build(source, **settings)
    seen: list[list[int]] = []
    most = 0
    embed = method.embed

    def counted(ids: Tensor, mask: Tensor) -> Tensor:
        nonlocal most
        most = max(most, len(ids))
        seen.extend(row[kept > 0].tolist() for row, kept in zip(ids, mask, strict=True))
        return embed(ids, mask)

    method.embed = counted  # type: ignore[method-assign]
    recipe_of(Intersent).backward(method.train(), training, Group.single("cpu"), source)(batch)
    return seen, most


def wanted(batch: Columns, *names: str) -> list[list[int]]:
    return [row.tolist() for name in names for row in batch[name] if len(row)]


@pytest.mark.parametrize("source", [ENCODER, DROPPING])
def test_only_what_an_operation_needs_is_encoded(source):
    place = folder(source, DECODER)
    batch = part(columns(place), list(range(16)))
    seen, _ = encoded(batch, place)
    sentences = wanted(batch, "first", "second", "target")
    assert len(sentences) == 16 + 8 + 16
    if source == DROPPING:
        assert sorted(seen) == sorted(sentences), "each side of a reconstruction has its own masks"
    else:
        assert sorted(seen) == sorted(map(list, {tuple(row) for row in sentences}))
        assert len(seen) <= 36, "the four reconstructions have one sentence each"


def test_without_the_contrastive_loss_no_target_is_encoded():
    place = folder(DROPPING, DECODER)
    batch = part(columns(place), list(range(16)))
    seen, _ = encoded(batch, place, contrastive_weight=0)
    assert sorted(seen) == sorted(wanted(batch, "first", "second"))


def test_without_the_generative_loss_nothing_is_decoded():
    batch = part(columns(folder(ENCODER, DECODER)), MIXED)
    found, _, method = gradient(batch, Group.single("cpu"), alpha=0)
    assert not any(name.startswith(("decoder.", "bridge.")) for name in found)
    assert any(name.startswith("operators.fusion") for name in found)
    method.decoder.model = None
    backward = recipe_of(Intersent).backward(
        method, build(alpha=0)[1], Group.single("cpu"), folder(ENCODER, DECODER)
    )
    assert backward(batch).isfinite()


def test_an_operator_without_items_has_no_gradient():
    batch = columns(folder(ENCODER, DECODER))
    codes = [int(row[0]) for row in batch["operation"]]
    chosen = [i for i, code in enumerate(codes) if code in (FUSION, COMPRESSION)][:6]
    found, _, _ = gradient(part(batch, chosen), Group.single("cpu"))
    assert any(name.startswith("operators.fusion") for name in found)
    assert not any(name.startswith("operators.difference") for name in found)


def test_the_micro_batch_bounds_what_is_embedded_and_decoded_at_a_time():
    place = folder(ENCODER, DECODER)
    batch = columns(place)
    _, most = encoded(batch, place, micro_batch=4)
    assert most <= 12
    method, training = build(place, micro_batch=4)
    sizes: list[int] = []
    loss = method.decoder.loss_per_token

    def counted(memory: Tensor, decoded: Tensor, mask: Tensor) -> Tensor:
        sizes.append(len(memory))
        return loss(memory, decoded, mask)

    method.decoder.loss_per_token = counted  # type: ignore[method-assign]
    recipe_of(Intersent).backward(method.train(), training, Group.single("cpu"), place)(batch)
    assert sum(sizes) == 48
    assert max(sizes) == 4
