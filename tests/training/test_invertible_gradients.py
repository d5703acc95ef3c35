"""Negative samples, and gradients that do not know how many workers there are."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import distributed as dist

from sentune.errors import InvalidValue
from sentune.training.group import Group
from sentune.training.recipes.invertible import InvertibleBackward, Negatives
from sentune.training.settings import Schedule, TrainingSettings, learning_rate_factor
from sentune.training.step import Stepper, make_optimizer
from tests.forked import join_group, leave_group, run_group
from tests.methods.invertible_scenes import model, sentences

CPU = torch.device("cpu")
COUNTS = np.arange(40, dtype=np.int64)
CASES = list(product(("linear", "coupling"), (16, 13, 3), (None, 2)))


def columns(rows: int) -> dict[str, list[np.ndarray]]:
    """Every fifth text and every seventh following sentence has no known word."""
    empty = np.zeros(0, dtype=np.int32)
    texts, followings = sentences(rows, 1), sentences(rows, 2)
    texts[4::5] = [empty] * len(texts[4::5])
    followings[6::7] = [empty] * len(followings[6::7])
    return {"text": texts, "following": followings}


def gradient(decoder: str, rows: int, micro_batch: int | None, group: Group) -> torch.Tensor:
    """[1 + P] loss and gradients of one global batch; the workers' own seeds differ."""
    method = model(seed=group.rank, decoder=decoder)  # the first worker's weights count
    settings = TrainingSettings(precision="float64", micro_batch=micro_batch)
    backward = InvertibleBackward(method, settings, group, COUNTS)
    torch.manual_seed(7 + group.rank)
    loss = group.all_reduce_mean(backward(columns(rows)))
    grads = [p.grad.flatten() for p in method.parameters() if p.grad is not None]
    return torch.cat([loss[None], *grads])


def work(rank: int, folder: str) -> None:
    """Four processes are a group of four, then two of them one of two."""
    for world_size in (4, 2):
        if rank >= world_size:
            return
        group = join_group(rank, world_size, folder)
        found = [gradient(*case, group) for case in CASES]
        torch.save(found, Path(folder) / f"{world_size}-{rank}.pt")
        dist.barrier()
        leave_group()


def test_the_gradient_of_a_group_is_that_of_one_worker(tmp_path: Path) -> None:
    run_group(work, (str(tmp_path),), 4)
    expected = [gradient(*case, Group.single("cpu")) for case in CASES]
    files = sorted(tmp_path.glob("*.pt"))
    assert len(files) == 4 + 2
    for file in files:
        found = torch.load(file, weights_only=True)
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours - theirs).abs().max() / theirs.abs().max() < 1e-10


def test_the_loss_is_the_mean_over_usable_pairs_whatever_fits_into_memory() -> None:
    method, given = model(), columns(16)
    settings = TrainingSettings(precision="float64")
    torch.manual_seed(7)
    found = InvertibleBackward(method, settings, Group.single("cpu"), COUNTS)(given)
    pairs = list(zip(given["text"], given["following"], strict=True))
    usable = [(text, following) for text, following in pairs if len(text) and len(following)]
    assert len(usable) == 11
    texts, followings = map(list, zip(*usable, strict=True))
    drawn = Negatives(COUNTS, CPU).draw(5 * sum(map(len, followings)), 7).view(-1, 5)
    expected = method.loss(texts, followings, drawn) / 11
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(
        gradient("linear", 16, 5, Group.single("cpu")),
        gradient("linear", 16, None, Group.single("cpu")),
    )


def test_a_batch_without_known_words_moves_nothing() -> None:
    method, empty = model(), [np.zeros(0, dtype=np.int32)] * 3
    backward = InvertibleBackward(method, TrainingSettings(), Group.single("cpu"), COUNTS)
    assert backward({"text": sentences(3), "following": empty}) == 0
    assert all(p.grad is None for p in method.parameters())


@pytest.mark.parametrize(("beta", "schedule"), [(0.01, "linear"), (0.1, "constant")])
def test_rows_are_orthonormal_after_a_thousand_steps_of_training(
    beta: float, schedule: Schedule
) -> None:
    """Gradients pull: beta of 0.01 at a constant rate leaves 0.03, without constraint it is 2."""
    method = model(beta=beta).float()
    assert method.decoder.deviation() > 1
    settings = TrainingSettings(learning_rate=5e-4, schedule=schedule)
    group = Group.single("cpu")
    backward = InvertibleBackward(method, settings, group, COUNTS)
    stepper = Stepper(method, make_optimizer(method, settings), settings, group, backward)
    texts, followings = sentences(64, 1, 4), sentences(64, 2, 4)
    for step in range(1000):
        rows = slice(8 * step % 64, 8 * step % 64 + 8)
        factor = learning_rate_factor(schedule, step=step, steps=1000, warmup=0.0)
        batch = {"text": texts[rows], "following": followings[rows]}
        stepper.step(batch, factor=factor, seed=(0, step))
    assert method.decoder.deviation() < 1e-2


def test_negatives_follow_counts_to_the_power_of_three_quarters() -> None:
    counts = np.array([0, 1, 0, 16, 81, 0, 256, 10_000, 0], dtype=np.int64)
    found = np.bincount(Negatives(counts, CPU).draw(200_000, 3), minlength=9)
    assert not found[counts == 0].any()
    expected = counts[counts > 0] ** 0.75
    expected *= 200_000 / expected.sum()
    assert chisquare(found[counts > 0], expected).pvalue > 1e-3


def test_negatives_are_told_by_their_seed() -> None:
    negatives = Negatives(COUNTS, CPU)
    assert torch.equal(negatives.draw(50, 1), negatives.draw(50, 1))
    assert not torch.equal(negatives.draw(50, 1), negatives.draw(50, 2))
    with pytest.raises(InvalidValue, match="no known word occurs"):
        Negatives(np.zeros(4, dtype=np.int64), CPU)
