"""Worker groups, in real gloo processes where there is more than one worker."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import distributed as dist

from sentune.training.group import Group
from tests.forked import join_group, run_group


def talk(rank: int, world_size: int, folder: str) -> None:
    group = join_group(rank, world_size, folder)
    everything = torch.arange(21.0, dtype=torch.float64).reshape(7, 3)
    said = {"slice": group.slice(7), "offset": group.offset(7)}
    local = everything[group.slice(7)].clone().requires_grad_()
    gathered = group.gather(local, 7)
    # Each worker weighs the gathered rows differently; the sum must come home.
    (gathered * (rank + 1) * torch.arange(1, 8)[:, None]).sum().backward()
    said["gathered"], said["gradient"] = gathered.detach(), local.grad
    said["few"] = group.gather(everything[group.slice(1)], 1)  # the others have none
    said["mean"] = group.all_reduce_mean(torch.tensor(rank + 1.0))
    said["object"] = group.broadcast_object({"from": rank})
    said["first"] = group.is_first
    try:
        group.gather(everything[:1].expand(5, 3), 7)
    except ValueError as error:
        said["refused"] = str(error)
    dist.barrier()
    torch.save(said, Path(folder) / f"{rank}.pt")


@pytest.fixture(scope="module", params=[2, 3])
def conversation(request, tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("group")
    run_group(talk, (request.param, str(folder)), request.param)
    names = [folder / f"{rank}.pt" for rank in range(request.param)]
    with torch.serialization.safe_globals([slice]):
        return [torch.load(name, weights_only=True) for name in names]


def test_gather_brings_every_row_in_order(conversation):
    everything = torch.arange(21.0, dtype=torch.float64).reshape(7, 3)
    for said in conversation:
        assert torch.equal(said["gathered"], everything)
        assert torch.equal(said["few"], everything[:1])


def test_gather_sums_the_gradient_over_the_workers(conversation):
    workers = sum(range(1, len(conversation) + 1))
    expected = (workers * torch.arange(1.0, 8.0, dtype=torch.float64))[:, None].expand(7, 3)
    assert torch.equal(torch.cat([said["gradient"] for said in conversation]), expected)


def test_slices_cover_the_batch_once(conversation):
    rows = [row for said in conversation for row in range(7)[said["slice"]]]
    assert rows == list(range(7))
    assert all(said["offset"] == said["slice"].start for said in conversation)


def test_reductions_and_broadcast(conversation):
    world = len(conversation)
    for rank, said in enumerate(conversation):
        assert said["mean"] == (world + 1) / 2
        assert said["object"] == {"from": 0}
        assert said["first"] == (rank == 0)


def test_rows_that_belong_to_another_worker_are_refused(conversation):
    assert all("5 local rows" in said["refused"] for said in conversation)


def test_one_worker_needs_no_process_group():
    group = Group.single("cpu")
    rows = torch.randn(3, 2, requires_grad=True)
    assert group.gather(rows, 3) is rows
    assert (group.slice(3), group.offset(3), group.is_first) == (slice(0, 3), 0, True)
    assert group.broadcast_object("x") == "x"
    assert torch.equal(group.all_reduce_mean(rows), rows)
    assert not dist.is_initialized()
