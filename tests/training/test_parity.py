"""World sizes 1, 2 and 4 give the same gradient on the same global batch, for every loss."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sentune.geometry import Boxes, Gaussians, Points, TermWeights, contrastive_loss
from sentune.training.gradients import cached_backward
from sentune.training.group import Group
from tests.forked import join_group, run_group
from tests.rounding import difference, rounding

GUMBEL = TermWeights(reverse=1.0, reverse_contradiction=2.0, reverse_orientation="hypotheses")
LOSSES = {
    "simcse": (Points(), TermWeights()),
    "simcse, unsupervised": (Points(), TermWeights(contradiction=0.0)),
    "gauss": (Gaussians(), TermWeights(reverse=8.0)),
    "gauss, mean form": (Gaussians("mean"), TermWeights(reverse=8.0)),
    "gauss, over hypotheses": (
        Gaussians(),
        TermWeights(reverse=1.0, reverse_orientation="hypotheses"),
    ),
    "gumbel": (Boxes(0.5), GUMBEL),
    "gumbel, untied": (Boxes(0.5, 0.3), GUMBEL),
    "gumbel, hard": (Boxes(0.5, intersection="hard"), GUMBEL),
    "gumbel, reverse alone": (
        Boxes(0.5),
        TermWeights(entailment=0.0, contradiction=0.0, reverse=1.0),
    ),
}
BATCHES = (16, 13)  # 13 rows cannot be cut evenly
CASES = list(product(LOSSES, BATCHES, ("plain", "cached")))
WIDTH, HIDDEN, DIMENSION = 6, 12, 8
TEMPERATURE = 0.05
# as in test_gradcache: three similarities of each row, through two layers and a geometry
ERROR = rounding(WIDTH + HIDDEN + DIMENSION, 3 * max(BATCHES) / TEMPERATURE)


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, DIMENSION)).double()


def gradient(name: str, batch: int, backward: str, group: Group) -> torch.Tensor:
    """What the loop does with one global batch; [P], all parameters' gradients."""
    geometry, weights = LOSSES[name]
    torch.manual_seed(batch)
    rows = torch.randn(3, batch, WIDTH, dtype=torch.float64)[:, group.slice(batch)].flatten(0, 1)
    model = network()
    embed = DistributedDataParallel(model) if group.world_size > 1 else model

    def loss(embeddings: torch.Tensor) -> torch.Tensor:
        anchor, positive, negative = embeddings.chunk(3)
        total = contrastive_loss(
            anchor,
            positive,
            None if name == "simcse, unsupervised" else negative,
            geometry=geometry,
            weights=weights,
            temperature=TEMPERATURE,
            gather=partial(group.gather, rows=batch),
            offset=group.offset(batch),
        )
        return total * group.world_size / batch

    if backward == "plain":
        loss(embed(rows)).backward()
    else:
        no_sync = {"no_sync": embed.no_sync} if group.world_size > 1 else {}
        cached_backward(embed, rows.split(5), loss, **no_sync)
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def work(rank: int, world_size: int, folder: str) -> None:
    group = join_group(rank, world_size, folder)
    found = [gradient(*case, group) for case in CASES]
    torch.save([*found, dropout_parity(group)], Path(folder) / f"{rank}.pt")


def dropout_parity(group: Group) -> torch.Tensor:
    """Cached gradients under DDP and plain ones averaged by hand, dropout on: [2, P]."""
    found = []
    for cached in (True, False):
        torch.manual_seed(1)
        layers = (nn.Linear(WIDTH, HIDDEN), nn.Dropout(0.4), nn.Linear(HIDDEN, DIMENSION))
        model = nn.Sequential(*layers).double()
        torch.manual_seed(group.rank + 5)
        inputs = torch.randn(12, WIDTH, dtype=torch.float64).split(5)

        def loss(embeddings: torch.Tensor) -> torch.Tensor:
            geometry, weights = LOSSES["gumbel"]
            return contrastive_loss(
                *embeddings.chunk(3),
                geometry=geometry,
                weights=weights,
                temperature=TEMPERATURE,
                gather=partial(group.gather, rows=4 * group.world_size),
                offset=4 * group.rank,
            )

        if cached:
            parallel = DistributedDataParallel(model)
            cached_backward(parallel, inputs, loss, no_sync=parallel.no_sync)
        else:
            loss(torch.cat([model(x) for x in inputs])).backward()
        flat = torch.cat([p.grad.flatten() for p in model.parameters()])
        found.append(flat if cached else group.all_reduce_mean(flat))
    return torch.stack(found)


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.long)])
def workers(request, tmp_path_factory) -> list[list[torch.Tensor]]:
    """One run of real processes per world size does all cases."""
    folder = tmp_path_factory.mktemp("parity")
    run_group(work, (request.param, str(folder)), request.param)
    names = [folder / f"{rank}.pt" for rank in range(request.param)]
    return [torch.load(name, weights_only=True) for name in names]


@pytest.mark.parametrize("case", range(len(CASES)), ids=map(str, CASES))
def test_the_gradient_of_a_group_is_that_of_one_worker(workers, case):
    name, batch, _ = CASES[case]
    expected = gradient(name, batch, "plain", Group.single("cpu"))
    for found in workers:
        assert difference(found[case], expected) < ERROR


@pytest.mark.parametrize("case", range(len(CASES)), ids=map(str, CASES))
def test_cached_gradients_are_the_plain_ones_on_one_worker(case):
    name, batch, backward = CASES[case]
    expected = gradient(name, batch, "plain", Group.single("cpu"))
    found = gradient(name, batch, backward, Group.single("cpu"))
    assert difference(found, expected) < ERROR


def test_cached_gradients_under_ddp_are_exact_with_dropout_on(workers):
    for found in workers:
        cached, plain = found[-1]
        assert difference(cached, plain) < ERROR
